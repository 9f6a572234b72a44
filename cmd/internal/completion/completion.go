// Package completion completes command lines in bash, zsh and fish. The shell starts the
// program with the line in the environment; the candidates come from the definitions of
// the commands.
package completion

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Wanted reports whether a shell started this process to complete a line.
func Wanted() bool { return os.Getenv("COMP_LINE") != "" }

// Complete prints the candidates for the shell's line. words has the candidates of the
// predictors that the program knows itself, by the name in the tag `predictor`.
func Complete(parser *kong.Kong, words map[string][]string) error {
	line := os.Getenv("COMP_LINE")
	if point, err := strconv.Atoi(os.Getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	if endsInProgram(line) {
		return nil // the shell completes file names
	}
	root := parser.Model.Node
	where, ok := inDevice(root, line)
	list, last := append(interfaces(), addresses()...), where
	if !ok {
		var err error
		if list, last, err = predict(root, strings.Replace(line, " -- ", " ", 1), words); err != nil {
			return err
		}
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" || !strings.HasPrefix(s, last) })
	slices.Sort(list)
	for _, s := range slices.Compact(list) {
		if _, err := fmt.Fprintln(parser.Stdout, s); err != nil {
			return err
		}
	}
	return nil
}

// predict returns all words that can stand where the line ends, and what is typed of one.
func predict(node *kong.Node, line string, words map[string][]string) (list []string, last string, err error) {
	typed := strings.Fields(line)
	if strings.HasSuffix(line, " ") {
		typed = append(typed, "")
	}
	if len(typed) < 2 {
		return nil, "", nil
	}
	typed, last = typed[1:len(typed)-1], typed[len(typed)-1]
	if flag, value, ok := strings.Cut(last, "="); ok {
		typed, last = append(typed, flag), value
	}
	var flag *kong.Flag // whose value comes next
	arguments := 0
	for _, w := range typed {
		switch child := command(node, w); {
		case flag != nil:
			flag = nil
		case strings.HasPrefix(w, "-"):
			flag = flagOf(node, w)
		case child != nil && arguments == 0:
			node = child
		default:
			arguments++
		}
	}
	if flag != nil {
		list, err = values(flag.Value, last, words)
		return list, last, err
	}
	if strings.HasPrefix(last, "-") {
		return flagNames(node), last, nil
	}
	if arguments < len(node.Positional) {
		list, err = values(node.Positional[arguments], last, words)
	}
	for _, c := range node.Children {
		if !c.Hidden {
			list = append(list, c.Name)
		}
	}
	return list, last, err
}

func command(node *kong.Node, name string) *kong.Node {
	if i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == name && !c.Hidden }); i >= 0 {
		return node.Children[i]
	}
	return nil
}

// flagOf returns the flag of a command, or of those above it, that takes its value from the next
// word.
func flagOf(node *kong.Node, word string) *kong.Flag {
	for ; node != nil; node = node.Parent {
		for _, f := range node.Flags {
			if !f.IsBool() && (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) {
				return f
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) (list []string) {
	for ; node != nil; node = node.Parent {
		for _, f := range node.Flags {
			if f.Hidden {
				continue
			}
			if list = append(list, "--"+f.Name); f.Short != 0 {
				list = append(list, "-"+string(f.Short))
			}
		}
	}
	return list
}

// values are those of a flag or an argument.
func values(v *kong.Value, last string, words map[string][]string) ([]string, error) {
	switch name := v.Tag.Get("predictor"); name {
	case "":
		return slices.Collect(maps.Keys(v.EnumMap())), nil
	case "file":
		return paths(last), nil
	case "program":
		return programs(last), nil
	case "device":
		return devices(), nil
	case "interface":
		return interfaces(), nil
	default:
		if _, ok := words[name]; !ok {
			return nil, fmt.Errorf("there is no predictor %q", name)
		}
		return words[name], nil
	}
}

// inDevice reports whether the word that is completed is NAME=WHERE of a flag for devices, and
// returns what is typed of WHERE. Shells take what follows the last equals sign for the word.
func inDevice(root *kong.Node, line string) (where string, ok bool) {
	words := strings.Fields(line)
	if len(words) < 3 || strings.HasSuffix(line, " ") {
		return "", false
	}
	last, flag := words[len(words)-1], words[len(words)-2]
	if name, value, joined := strings.Cut(last, "="); joined && strings.HasPrefix(name, "--") {
		flag, last = name, value
	}
	_, where, ok = strings.Cut(last, "=")
	return where, ok && takesDevice(root, words[1], strings.TrimPrefix(flag, "--"))
}

// takesDevice reports whether a command has a flag for devices.
func takesDevice(root *kong.Node, command, flag string) bool {
	for _, c := range root.Children {
		for _, f := range c.Flags {
			if c.Name == command && f.Name == flag && f.Tag.Get("predictor") == "device" {
				return true
			}
		}
	}
	return false
}

// addresses are the IPv4 addresses of this host. Shells divide an IPv6 address at its colons.
func addresses() (list []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // as in interfaces
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// endsInProgram reports whether the word that is completed belongs to a program behind
// the word --.
func endsInProgram(line string) bool {
	words := strings.Fields(line)
	if i := slices.Index(words, "--"); i >= 0 {
		return i < len(words)-2 || i == len(words)-2 && strings.HasSuffix(line, " ")
	}
	return false
}

// paths are the files and directories whose names begin so. Of a directory that is the only one
// they are what is in it.
func paths(last string) []string {
	list, _ := filepath.Glob(last + "*") // a malformed pattern has no candidates
	for i, p := range list {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			list[i] += "/"
		}
	}
	if len(list) == 1 && strings.HasSuffix(list[0], "/") && list[0] != last {
		return append(list, paths(list[0])...)
	}
	return list
}

// programs are those in the directories of PATH, or files if a directory is typed.
func programs(last string) (names []string) {
	if strings.Contains(last, "/") {
		return paths(last)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a directory of PATH need not exist
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), last) {
				continue
			}
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func devices() (list []string) {
	for _, name := range interfaces() {
		list = append(list, "rxe0="+name, "mlx5_0="+name)
	}
	return list
}

func interfaces() (names []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil // a candidate less; the command itself reports the error
	}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

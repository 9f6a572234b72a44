// Package completion completes command lines in bash, zsh and fish. The shell starts the
// program with the line in the environment; the candidates come from the definitions of
// the commands.
package completion

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"
)

// Command is `gorxe completion`: it prints the code that a shell needs, or how to activate it.
type Command struct {
	kongcompletion.Completion `embed:""`
}

// Help is the part of `gorxe completion --help` above the flags.
func (*Command) Help() string {
	return `With the name of a shell, it prints the code that activates completion there. So it does if its output goes to a file. Without a name, it says how to activate completion in your login shell.

Examples:
  gorxe completion
  gorxe completion bash >gorxe.bash`
}

// Run prints.
func (c *Command) Run(ctx *kong.Context) error {
	c.Code = c.Code || c.Shell != "" || !isTerminal(ctx.Stdout)
	return c.Completion.Run(ctx)
}

// isTerminal reports whether a person reads what w gets.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

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
	if where, ok := inDevice(parser.Model.Node, line); ok {
		out := &lines{out: parser.Stdout}
		for _, p := range append(interfaces(), addresses()...) {
			if strings.HasPrefix(p, where) {
				out.text.WriteString(p + "\n")
			}
		}
		return out.flush()
	}
	// The library reads the environment, and takes the word -- for an argument.
	line = strings.Replace(line, " -- ", " ", 1)
	for name, value := range map[string]string{"COMP_LINE": line, "COMP_POINT": strconv.Itoa(len(line))} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	predictors := map[string]complete.Predictor{
		"file":      complete.PredictFiles("*"),
		"program":   complete.PredictFunc(programs),
		"device":    complete.PredictFunc(devices),
		"interface": complete.PredictFunc(func(complete.Args) []string { return interfaces() }),
	}
	for name, list := range words {
		predictors[name] = complete.PredictSet(list...)
	}
	command, err := kongcompletion.Command(parser, kongcompletion.WithPredictors(predictors))
	if err != nil {
		return err
	}
	c := complete.New(parser.Model.Name, command)
	sorted := &lines{out: parser.Stdout}
	c.Out = sorted
	c.Complete()
	return sorted.flush()
}

// inDevice reports whether the word that is completed is NAME=WHERE of a flag for devices, and returns what is
// typed of WHERE. Shells take what follows the last equals sign for the word.
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

// lines sorts the candidates: the library takes them from maps.
type lines struct {
	out  io.Writer
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) { return l.text.Write(p) }

func (l *lines) flush() error {
	list := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
	if len(list) == 0 {
		return nil
	}
	_, err := io.WriteString(l.out, strings.Join(list, "\n")+"\n")
	return err
}

// programs are those in the directories of PATH, or files if a directory is typed.
func programs(a complete.Args) (names []string) {
	if strings.Contains(a.Last, "/") {
		return complete.PredictFiles("*").Predict(a)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a directory of PATH need not exist
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), a.Last) {
				continue
			}
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func devices(complete.Args) (list []string) {
	for _, name := range interfaces() {
		list = append(list, "rxe0="+name)
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

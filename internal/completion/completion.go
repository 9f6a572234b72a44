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

// Command is `gorxe completion`: it prints the code that a shell needs.
type Command = kongcompletion.Completion

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

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Exit codes, as a compiler has them.
const (
	exitClean  = 0
	exitFaults = 1
	exitUsage  = 2
)

const (
	rulesFile     = "scripts/prose/rules.txt"
	uncheckedFile = "scripts/prose/unchecked.txt"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run checks the files that args name and returns the exit code.
func run(args []string, out, errs io.Writer) int {
	fs := flag.NewFlagSet("prose", flag.ContinueOnError)
	fs.SetOutput(errs)
	grade := fs.Bool("grade", false, "print the readability of each file, and check nothing")
	all := fs.Bool("all", false, "check what unchecked.txt lists as well")
	count := fs.Bool("count", false, "print the number of faults of each file only")
	wrap := fs.Bool("wrap", false, "look for lines of prose that are too wide, and for nothing else")
	write := fs.Bool("write", false, "with -wrap: break these lines")
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	var faults int
	var err error
	if *wrap {
		faults, err = wrapFiles(fs.Args(), *write, out)
	} else {
		faults, err = check(fs.Args(), options{grade: *grade, all: *all, count: *count}, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "prose:", err)
		return exitUsage
	}
	if faults > 0 {
		fmt.Fprintf(errs, "prose: %d faults; the rules are in %s\n", faults, rulesFile)
		return exitFaults
	}
	return exitClean
}

type options struct{ grade, all, count bool }

// check reads the rules and the files, and prints the faults.
func check(under []string, opt options, out io.Writer) (faults int, err error) {
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		return 0, fmt.Errorf("%w (run it in the root of the checkout)", err)
	}
	rules, err := parseRules(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", rulesFile, err)
	}
	skip, err := readUnchecked(uncheckedFile)
	if err != nil {
		return 0, err
	}
	files, err := tracked(under)
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		if !opt.all && len(under) == 0 && skip.has(name) {
			continue
		}
		blocks, err := readBlocks(name)
		if err != nil {
			return faults, err
		}
		if opt.grade {
			if m := measure(blocks); m.words >= rules.gradeFrom {
				fmt.Fprintf(out, "%5.1f  %5d words  %s\n", m.grade(), m.words, name)
			}
			continue
		}
		found := rules.apply(blocks)
		faults += len(found)
		if opt.count {
			if len(found) > 0 {
				fmt.Fprintf(out, "%5d  %s\n", len(found), name)
			}
			continue
		}
		for _, f := range found {
			fmt.Fprintf(out, "%s:%d:%d: %s (%s)\n", name, f.at.line, f.at.col, f.message, f.rule)
		}
	}
	return faults, nil
}

// tracked lists the files of the checkout, in the directories or files under.
func tracked(under []string) ([]string, error) {
	args := append([]string{"ls-files", "-co", "--exclude-standard", "--"}, under...)
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for _, name := range strings.Split(string(out), "\n") {
		// A file that was removed is listed until that is committed.
		if _, err := os.Lstat(name); name != "" && err == nil {
			files = append(files, name)
		}
	}
	return files, nil
}

// unchecked is a list of path prefixes. The last one that fits a path decides, and one
// that begins with "!" says that the path is checked.
type unchecked []string

func readUnchecked(name string) (unchecked, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseUnchecked(string(text)), nil
}

func parseUnchecked(text string) unchecked {
	var u unchecked
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			u = append(u, line)
		}
	}
	return u
}

func (u unchecked) has(path string) bool {
	skip := false
	for _, prefix := range u {
		prefix, checked := strings.CutPrefix(prefix, "!")
		if strings.HasPrefix(path, prefix) {
			skip = !checked
		}
	}
	return skip
}

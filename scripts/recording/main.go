package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed session.txt
var session string

const (
	output = "docs/session.svg"
	// mark ends the output of a command.
	mark = "\x1e"
	// typing is how long the picture takes for one character of a command.
	typing = 25 * time.Millisecond
	// longest is the most that the picture waits for a line.
	longest = 1200 * time.Millisecond
)

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func record() error {
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(bin, "gorxe")); err != nil {
		return fmt.Errorf("%w: run make build first, in the root of the checkout", err)
	}
	dir, err := os.MkdirTemp("", "gorxe-recording-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C", "GORXE_SOCKET="+filepath.Join(dir, "gorxe.sock"))
	lines, err := play(cmd, parse(session))
	if err != nil {
		return err
	}
	return os.WriteFile(output, render(lines), 0o666)
}

// step is a command of the session.
type step struct {
	command string
	shown   bool
}

func parse(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{c, true})
		} else if c, ok := strings.CutPrefix(line, "! "); ok {
			steps = append(steps, step{c, false})
		}
	}
	return steps
}

// line is a line of the terminal, and how long after the one before it appeared.
type line struct {
	text    string
	command bool
	wait    time.Duration
}

// play runs the steps in a shell and returns what the terminal showed.
func play(shell *exec.Cmd, steps []step) (lines []line, err error) {
	in, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	shell.Stderr = shell.Stdout
	if err := shell.Start(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(out)
	for _, s := range steps {
		run := s.command
		if s.shown {
			lines = append(lines, line{s.command, true, time.Duration(len(s.command)) * typing})
			if c, ok := strings.CutSuffix(run, "&"); ok {
				run = c + " >/dev/null 2>&1 &"
			}
		}
		if _, err := fmt.Fprintf(in, "%s\nprintf '%s\\n'\n", run, mark); err != nil {
			return nil, err
		}
		said, err := untilMark(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.command, err)
		}
		if s.shown {
			lines = append(lines, said...)
		}
	}
	if err := in.Close(); err != nil {
		return nil, err
	}
	return lines, shell.Wait()
}

// untilMark reads the output of one command.
func untilMark(r *bufio.Reader) (lines []line, err error) {
	last := time.Now()
	for {
		text, err := r.ReadString('\n')
		if err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if text = strings.TrimRight(text, "\n"); text == mark {
			return lines, nil
		}
		now := time.Now()
		lines = append(lines, line{text: expand(text), wait: min(now.Sub(last), longest)})
		last = now
	}
}

// expand replaces tabs by blanks.
func expand(text string) string {
	var b strings.Builder
	column := 0
	for _, r := range text {
		n := 1
		if r == '\t' {
			n = 8 - column%8
			r = ' '
		}
		for range n {
			b.WriteRune(r)
		}
		column += n
	}
	return b.String()
}

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// update writes docs/transcripts in place of comparing them.
var update = flag.Bool("update", false, "write docs/transcripts")

// typed returns a script that shows each line of commands behind "$ ", and runs it. The first that
// fails ends it.
func typed(commands string) string {
	script := "set -e"
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		script += fmt.Sprintf("\necho '$ %s'\n%s", strings.ReplaceAll(line, "'", `'\''`), line)
	}
	return script
}

// installers are commands whose long output is theirs, and not gorxe's.
var installers = regexp.MustCompile(`^\$ (apt-get|podman build|venv/bin/pip|Install gorxe)`)

// transcript keeps what a newcomer saw as docs/transcripts/NAME.txt, or compares it with that.
func transcript(t *testing.T, name, text string) {
	t.Helper()
	var short strings.Builder
	installing := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "$ "):
			installing = installers.MatchString(line)
			short.WriteString(line)
			if installing {
				short.WriteString("[...]\n")
			}
			continue
		case strings.HasPrefix(line, "gorxe v"): // the action has installed it
			installing = false
		}
		if !installing {
			short.WriteString(line)
		}
	}
	file := filepath.Join("../../docs/transcripts", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(short.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := essence(short.String()), essence(string(kept)); !slices.Equal(got, want) {
		t.Errorf("a newcomer does not see what %s has (-update writes it):\n%s\nwant:\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	numbers = regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{4}(:[0-9a-f]{4}){3}\b|\b[0-9a-f]{16}\b|[0-9.]+(?:[mµ]?s\b)?`)
	// of gorxe doctor: other on each machine
	checks = regexp.MustCompile(`^(ok|note|warning|failure) |^→`)
)

// continued is in front of what follows the first line of a check.
const continued = "                "

// essence returns the commands, each with the lines that it says. What differs from run to run is
// taken out: numbers, the order of the lines of two programs, and what gorxe doctor finds.
func essence(text string) []string {
	var all []string
	from := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, continued) {
			continue
		}
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case strings.HasPrefix(line, "$ "):
			slices.Sort(all[from:])
			all = append(all, line)
			from = len(all)
		case strings.HasPrefix(line, "gorxe v"):
			all = append(all, "gorxe v")
		case line != "" && !checks.MatchString(line):
			all = append(all, numbers.ReplaceAllString(line, "N"))
		}
	}
	slices.Sort(all[from:])
	return all
}

// TestEssence: other numbers and another order are the same, and other words are not.
func TestEssence(t *testing.T) {
	const one = "$ gorxe run a 1\nQPN 0x1a, GUID ce51:6aad:7204:21cc\n12.5 Mbit/sec\nok    memory  1 MiB\n$ b\nx\n"
	for text, same := range map[string]bool{
		"$ gorxe run a 1\n7 Mbit/sec\n\nQPN 0xff,  GUID 0e51:6aad:7204:21cd\nnote  memory  little\n                of it\n   → more\n$ b\nx\n": true,
		strings.Replace(one, "Mbit", "Gbit", 1):          false,
		strings.Replace(one, "a 1", "a 2", 1):            false,
		strings.Replace(one, "$ b\nx\n", "x\n$ b\n", 1):  false,
		strings.Replace(one, "12.5", "on port 1\n13", 1): false,
	} {
		if got, want := essence(text), essence(one); slices.Equal(got, want) != same {
			t.Errorf("%q\n%q: the same: %v", got, want, !same)
		}
	}
}

// Package leak fails a test run that leaves something behind. A package calls Main in its
// TestMain.
package leak

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// timeout only ends a run that would otherwise hang.
const timeout = time.Minute

// Check returns an error that says what is left.
type Check func() error

// Main runs the tests and, if they pass, the checks in order. It ends the process.
func Main(m *testing.M, checks ...Check) {
	code := m.Run()
	for _, check := range checks {
		if code != 0 {
			break
		}
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Goroutines finds a goroutine whose stack has one of the names.
func Goroutines(names ...string) Check {
	return func() error {
		var left string
		// A goroutine that has just said that it is done may not have ended yet.
		for start := time.Now(); time.Since(start) < timeout; time.Sleep(time.Millisecond) {
			if left = goroutine(names); left == "" {
				return nil
			}
		}
		return fmt.Errorf("a goroutine is left:\n%s", left)
	}
}

// goroutine returns the stack of a goroutine with one of the names, but not of the one
// that runs the checks.
func goroutine(names []string) string {
	var stacks strings.Builder
	pprof.Lookup("goroutine").WriteTo(&stacks, 1) //nolint:errcheck // never fails
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		named := func(name string) bool { return strings.Contains(stack, name) }
		if slices.ContainsFunc(names, named) && !named("internal/test/leak.goroutine+") {
			return stack
		}
	}
	return ""
}

// Running counts the goroutines with one of the names in their stack, or in that of the function
// that started them.
func Running(names ...string) (n int) {
	var stacks strings.Builder
	pprof.Lookup("goroutine").WriteTo(&stacks, 2) //nolint:errcheck // never fails
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(stack, name) }) {
			n++
		}
	}
	return n
}

// Files finds descriptors that were not open when it was called.
func Files() Check {
	before := OpenFiles()
	return func() error {
		if after := OpenFiles(); len(after) > len(before) {
			return fmt.Errorf("%d descriptors at the start, at the end %d: %v", len(before), len(after), after)
		}
		return nil
	}
}

// OpenFiles returns what the process's descriptors refer to.
func OpenFiles() (list []string) {
	// The runtime opens its own poller at first use.
	if r, w, err := os.Pipe(); err == nil {
		_ = r.Close() // nothing was written
		_ = w.Close()
	}
	links, _ := filepath.Glob("/proc/self/fd/*") // the pattern is well formed
	for _, l := range links {
		to, err := os.Readlink(l)
		if err != nil {
			continue // the one that Glob has closed
		}
		list = append(list, to)
	}
	return list
}

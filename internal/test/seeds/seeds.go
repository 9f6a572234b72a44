// Package seeds has what simulations of seeds share: how many, and how a run ends early.
package seeds

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// failure lets a check deep inside a run end the run.
type failure struct{ error }

// Failf ends a run.
func Failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// OK ends a run if there is an error.
func OK(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Run makes a run, and returns what went wrong.
func Run(run func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	run()
	return nil
}

// Number reads a number from the environment.
func Number(t testing.TB, name string, missing uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return missing
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number from 1 on", name, s)
	}
	return n
}

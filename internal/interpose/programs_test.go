package interpose

import (
	"fmt"
	"os"
)

// runProgram is one of the programs that the tests put behind the filter; each
// writes what it finds, and returns its exit status.
func runProgram(role string, args []string) int {
	f, ok := programs[role]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such program:", role)
		return 2
	}
	if err := f(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		return 1
	}
	return 0
}

var programs = map[string]func(args []string) error{}

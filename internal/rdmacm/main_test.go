package rdmacm

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// TestMain fails the run if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftGoroutine(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "a goroutine is left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftGoroutine returns the stack of a goroutine that a Manager or a Resolver has left. One
// that has just said it is done may not have ended yet.
func leftGoroutine() (left string) {
	for start := time.Now(); time.Since(start) < timeout; runtime.Gosched() {
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1) //nolint:errcheck // never fails
		left = ""
		for _, s := range strings.Split(stacks.String(), "\n\n") {
			for _, name := range []string{"rdmacm.(*", "rdmacm.newSender", "route.(*", "standby.", "gsi.(*"} {
				if strings.Contains(s, name) {
					left = s
				}
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

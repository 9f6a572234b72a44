// Package testenv is for tests that need what a machine may lack: a tool, a right,
// a kernel.
package testenv

import (
	"os"
	"testing"
)

// Missing says what a test lacks, and ends it: as a failure in CI (the environment
// variable CI is set), where everything must be there, and as a skip elsewhere.
// Tests that run a second time without a right just skip what needs it.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

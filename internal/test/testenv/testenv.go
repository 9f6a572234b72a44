// Package testenv is for tests that need something a machine may lack: a tool, a right, a
// kernel.
package testenv

import (
	"os"
	"testing"
)

// Missing ends a test that lacks something. In CI (the environment variable CI is set)
// everything must be there, so the test fails. Elsewhere it is skipped. Tests that run a
// second time without a right skip the part that needs it.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

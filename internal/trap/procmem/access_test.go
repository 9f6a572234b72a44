package procmem

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoAccess(t *testing.T) {
	err := NoAccess(unix.EACCES)
	if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
		t.Errorf("%v", err)
	}
}

// A refusal names the setting that causes it, and what to do.
func TestReason(t *testing.T) {
	for scope, want := range map[string][]string{
		"":  {"another user", "CAP_SYS_PTRACE"},
		"0": {"another user", "CAP_SYS_PTRACE"},
		"1": {"ptrace_scope is 1", "ancestor", "set the value to 0", "CAP_SYS_PTRACE"},
		"2": {"ptrace_scope is 2", "set it to 0 or 1", "CAP_SYS_PTRACE"},
		"3": {"ptrace_scope is 3", "boot"},
	} {
		got := reason(scope)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("scope %q: %q lacks %q", scope, got, w)
			}
		}
		// Neither a right nor a new value helps against 3 (yama_dointvec_minmax,
		// yama_ptrace_access_check).
		if scope == "3" && (strings.Contains(got, "CAP_") || strings.Contains(got, "set it")) {
			t.Errorf("scope 3: %q", got)
		}
	}
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// TestLittleSpace: in too small an address space gorxe says so, and does not start what would die.
func TestLittleSpace(t *testing.T) {
	if race.Enabled {
		return // the race detector needs terabytes of address space
	}
	selfInPath(t)
	t.Setenv("GORXE_SOCKET", filepath.Join(t.TempDir(), "s"))
	for command, code := range map[string]int{"gorxe run true": 125, "gorxe daemon": exitFailed, "gorxe pair true -- true": 125} {
		cmd := exec.Command("sh", "-c", "ulimit -v 2900000; exec "+command)
		cmd.Env = os.Environ()
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != code || !strings.Contains(string(said), "the address space of a process is limited to 2832 MiB, and gorxe needs 3072 MiB") {
			t.Errorf("%s: %v, want exit code %d\n%s", command, err, code, said)
		}
	}
}

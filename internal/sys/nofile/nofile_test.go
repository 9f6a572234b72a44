package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/sys/nofile"
)

// The test is in another package, so that nofile itself still imports nothing.

// TestSoft runs this test again under a shell's limit: the package has to have
// been faster than package syscall.
func TestSoft(t *testing.T) {
	if os.Getenv("NOFILE_CHILD") != "" {
		fmt.Printf("soft=%d\n", nofile.Soft())
		return
	}
	for _, limit := range []string{"64", "256", "777"} {
		cmd := exec.Command("/bin/sh", "-c", "ulimit -S -n "+limit+` && exec "$0" -test.run=TestSoft`, os.Args[0])
		cmd.Env = append(os.Environ(), "NOFILE_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !strings.Contains(string(out), "soft="+limit+"\n") {
			t.Errorf("under ulimit -n %s: %s", limit, out)
		}
	}
}

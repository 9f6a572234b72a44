package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// TestOneRun: pairs of programs that poll, each with a shell as its parent, under one
// `gorxe run`, with the doorbells that users get. Every byte is checked.
func TestOneRun(t *testing.T) {
	need(t, "bash", "ibv_rc_pingpong")
	if native != "" || !selection.takes(core) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rounds := 500
	if race.Enabled {
		rounds = 50
	}
	d := startDaemon(t, newHost(t, "127.0.0.1"), "--device", "rxe0=127.0.0.1", "--doorbells", "auto")
	for _, pairs := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("%d pairs", pairs), func(t *testing.T) {
			var script strings.Builder
			for i := range pairs {
				port := d.host.nextPort()
				tool := []string{"rc", "srq", "uc", "ud"}[i%4]
				fmt.Fprintf(&script, "bash -c '%s=pair %s %d %s ibv_%s_pingpong -d rxe0 -g 1 -p %d -c -n %d -s 1024; exit $?' &\n",
					roleEnv, self, port, d.host.addr, tool, port, rounds/pairs)
			}
			script.WriteString("failed=0; for job in $(jobs -p); do wait $job || failed=$((failed+1)); done; echo failed=$failed\n")
			out := d.run(t, "bash", "-c", script.String()).ok()
			if want := fmt.Sprintf("%d iters in", rounds/pairs); !strings.Contains(out, "failed=0\n") ||
				strings.Count(out, want) != 2*pairs || strings.Contains(out, "invalid data") {
				t.Errorf("%d of %d programs ended well:\n%s", strings.Count(out, want), 2*pairs, out)
			}
		})
	}
}

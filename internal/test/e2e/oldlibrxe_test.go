package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// oldLibrxe is a part of what gorxe says of a librxe before rdma-core 55.
const oldLibrxe = "use rdma-core 55 or newer"

// buildExCQ compiles testdata/excq.c.
func buildExCQ(t *testing.T) string {
	t.Helper()
	return gcc(t, "excq", "-O1", "-Wall", "testdata/excq.c", "-libverbs")
}

// newerLibraries is a launch with the libraries of the newer rdma-core.
func newerLibraries(t *testing.T, run launch) launch {
	t.Helper()
	root, err := filepath.Abs("../../../bin/rdma-core-newer")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".complete")); err != nil {
		testenv.Missing(t, "a newer rdma-core is not there (scripts/setup.sh unpacks it): %v", err)
	}
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	return func(t *testing.T, argv ...string) *proc {
		ld := filepath.Join(lib, "ld-linux-x86-64.so.2")
		drivers := "IBV_DRIVERS=" + filepath.Join(lib, "libibverbs/librxe") + ":" + filepath.Join(lib, "libibverbs/libmlx5")
		return run(t, append([]string{"env", drivers, ld, "--library-path", lib}, argv...)...)
	}
}

// TestOldLibrxe: an event-driven program that polls with ibv_next_poll until ENOENT receives
// everything. That also holds for a librxe that loses completions in this case. gorxe names
// that librxe once, and does not name a newer one.
func TestOldLibrxe(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	bin := buildExCQ(t)
	d := oneDaemon(t)
	here := 0
	if rdmaCoreHere(t) < 55 {
		here = 1
	}
	for _, c := range []struct {
		name string
		run  launch
		said int
	}{
		{"this Debian's", d.run, here},
		{"newer", newerLibraries(t, d.run), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			// One round: nobody looks before the program ends.
			for rounds, received := range map[string]string{"1": "received 1\n", "500": "received 1500\n"} {
				out := c.run(t, bin, "rxe0", rounds).ok()
				if !strings.Contains(out, received) {
					t.Errorf("%s rounds:\n%s", rounds, out)
				}
				if n := strings.Count(out, oldLibrxe); n != c.said {
					t.Errorf("%s rounds: said %d times that librxe is old, want %d:\n%s", rounds, n, c.said, out)
				}
			}
			held := c.run(t, bin, "rxe0", "3", "hold")
			if !until(programLimit, func() bool { return held.ended() || strings.Contains(held.out.String(), "received 6\n") }) || held.ended() {
				t.Fatalf("%s", held.describe())
			}
			status := start(t, d.host, d.env(), gorxe, "status").ok()
			if n := strings.Count(status, oldLibrxe); n != c.said {
				t.Errorf("gorxe status says %d times that librxe is old, want %d:\n%s", n, c.said, status)
			}
			var st struct {
				Sessions []struct {
					Processes []struct {
						Files []struct {
							Old bool `json:"old_librxe"`
						} `json:"files"`
					} `json:"processes"`
				} `json:"sessions"`
			}
			text := start(t, d.host, d.env(), gorxe, "status", "--json").ok()
			if err := json.Unmarshal([]byte(text), &st); err != nil {
				t.Fatal(err)
			}
			if got := st.Sessions[0].Processes[0].Files[0].Old; got != (c.said > 0) {
				t.Errorf("gorxe status --json: old_librxe %v\n%s", got, text)
			}
			held.killTree()
			d.idle()
		})
	}
}

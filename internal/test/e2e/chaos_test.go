package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// mistakes are programs of testdata that rely on more than the specification promises. Each has a
// seed with which chaos shows its mistake, and a sentence that it then prints.
var mistakes = []struct {
	program, says string
	seed          int
}{
	{"mistake_lastbyte", "of message", 7},
	{"mistake_earlyread", "of message", 11},
	{"mistake_earlyreuse", "of message", 1},
	{"mistake_earlylook", "of message", 2},
	{"mistake_smallcq", "", 24}, // the queue pair is in ERR, or a request was flushed
	{"mistake_latereceive", "RNR retry counter exceeded", 9},
}

// TestChaosMistakes runs six programs with a mistake. Each ends well on the plain device, and
// fails with chaos, repeatedly with one seed. Its correct twin ends well with every seed:
// a few here, 1,000 with GORXE_E2E=full.
func TestChaosMistakes(t *testing.T) {
	notNative(t, "chaos")
	d := oneDaemon(t)
	// With trapped doorbells, a call that posts returns after the source was read.
	run := func(t *testing.T, seed int, argv ...string) *proc {
		argv = append([]string{gorxe, "run", "--doorbells=trapped", "--"}, argv...)
		var env []string
		if seed != 0 {
			env = append(env, fmt.Sprint("GORXE_CHAOS=", seed))
		}
		return start(t, d.host, append(d.env(), env...), argv...)
	}
	for i, m := range mistakes {
		if i > 0 && !selection.takes(standard) {
			continue // the mistakes differ in the program: for the race detector one is enough
		}
		t.Run(strings.TrimPrefix(m.program, "mistake_"), func(t *testing.T) {
			bin := compile(t, m.program)
			for range 3 {
				run(t, 0, bin, d.runner().device, "wrong").ok()
			}
			// The seed has the device repeat what it does. The program may be too slow to see it,
			// if others keep the processors busy.
			shown := 0
			for tries := 0; shown < 2 && tries < 10; tries++ {
				p := run(t, m.seed, bin, d.runner().device, "wrong")
				if code := p.wait(); code == 0 {
					continue
				} else if out := p.out.String(); code != 1 || !strings.Contains(out, m.says) ||
					!strings.Contains(out, fmt.Sprintf("to repeat it: gorxe run --chaos %d", m.seed)) {
					t.Fatal(p.describe())
				}
				shown++
			}
			if shown < 2 {
				t.Errorf("seed %d does not show the mistake", m.seed)
			}
			seeds := 3
			if full {
				seeds = 1000
			}
			for seed := 1; seed <= seeds && !t.Failed(); seed++ {
				run(t, seed, bin, d.runner().device, "right").ok()
			}
		})
	}
	d.end(t)
}

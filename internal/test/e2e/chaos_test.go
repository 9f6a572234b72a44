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
	{"mistake_lastbyte", "of message", 1},
	{"mistake_earlyread", "of message", 1},
	{"mistake_earlyreuse", "of message", 1},
	{"mistake_smallcq", "", 1}, // the queue pair is in ERR, or a request was flushed
	{"mistake_latereceive", "RNR retry counter exceeded", 1},
}

// TestChaosMistakes runs five programs with a mistake. Each ends well on the plain device, and
// fails with chaos. The seed repeats the failure. Its correct twin ends well with every seed:
// a few here, 1,000 with GORXE_E2E=full.
func TestChaosMistakes(t *testing.T) {
	if native != "" {
		t.Skip("the kernel's device has no chaos")
	}
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
	for _, m := range mistakes {
		t.Run(strings.TrimPrefix(m.program, "mistake_"), func(t *testing.T) {
			bin := compile(t, m.program)
			for range 3 {
				run(t, 0, bin, d.runner().device, "wrong").ok()
				p := run(t, m.seed, bin, d.runner().device, "wrong")
				if p.wait() != 1 || !strings.Contains(p.out.String(), m.says) ||
					!strings.Contains(p.out.String(), fmt.Sprintf("to repeat it: gorxe run --chaos %d", m.seed)) {
					t.Errorf("seed %d does not show the mistake: %s", m.seed, p.describe())
				}
			}
			seeds := 5
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

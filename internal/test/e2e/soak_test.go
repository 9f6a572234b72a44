package e2e

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soakPrograms is how many programs TestSoak has running at once.
const soakPrograms = 20

// soaked are the programs that TestSoak runs. They wait for a client for ever, or look and
// end.
var soaked = [][]string{
	{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-p", "PORT"},
	{"ib_write_bw", "-d", "rxe0", "-F", "-x", "1", "-p", "PORT"},
	{"ibv_devinfo", "-v"},
	{"rping", "-s", "-p", "PORT"},
	{"ib_send_lat", "-d", "rxe0", "-F", "-x", "1", "-p", "PORT"},
}

// TestSoak: programs of two daemons are started and killed at random, many at a time. In the
// end the daemons have what they had at first, and an exchange succeeds. GORXE_SOAK=DURATION
// goes on for that long.
func TestSoak(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw", "ibv_devinfo", "rping", "ib_send_lat")
	if !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	daemons := []*daemon{startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")}
	long, _ := time.ParseDuration(os.Getenv("GORXE_SOAK")) // none: 0
	began := time.Now()
	warm := make([]int, len(daemons))
	waves := 0
	for ; waves == 0 || time.Since(began) < long; waves++ {
		if waves == 1 {
			for i, d := range daemons {
				warm[i] = d.memory(t)
			}
		}
		var running []*proc
		for i := range soakPrograms {
			d := daemons[i%len(daemons)]
			argv := slices.Clone(soaked[rand.IntN(len(soaked))])
			port := strconv.Itoa(d.host.nextPort())
			for k, arg := range argv {
				argv[k] = strings.ReplaceAll(arg, "PORT", port)
			}
			running = append(running, d.run(t, argv...))
		}
		for _, p := range running {
			// when it is killed is the test
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			killed := func() bool {
				if pids := tree(p.cmd.Process.Pid); len(pids) > 1 && !p.ended() {
					syscall.Kill(pids[len(pids)-1], syscall.SIGKILL) //nolint:errcheck // it may have ended
				}
				return p.ended()
			}
			if !until(programLimit, killed) {
				t.Fatalf("%s", p.describe())
			}
		}
	}
	for i, d := range daemons {
		d.idle()
		if waves > 10 {
			const more = 64 << 10 // KiB
			if now := d.memory(t); now > warm[i]+more {
				t.Errorf("daemon %d has %d KiB after %d waves; it had %d", i, now, waves, warm[i])
			}
		}
		o := topology{server: d.run, client: d.run, host: d.host}
		o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
	}
	t.Logf("%d waves of %d programs", waves, soakPrograms)
}

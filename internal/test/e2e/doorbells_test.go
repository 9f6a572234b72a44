package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
)

// waits starts a program that makes a queue pair and waits for a peer, until the daemon has the
// queue pair.
func (d *daemon) waits(t *testing.T, flags []string, argv ...string) *proc {
	t.Helper()
	argv = append(argv, "ibv_rc_pingpong", "-g", "1", "-p", strconv.Itoa(d.host.nextPort()))
	p := start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run"}, flags, []string{"--"}, argv)...)
	t.Cleanup(p.killTree)
	if !until(programLimit, func() bool { return p.ended() || d.made(func(f bookFile) bool { return len(f.QPs) > 0 }) }) || p.ended() {
		t.Fatalf("%s", p.describe())
	}
	return p
}

// made reports whether a program has opened a device with what is asked for.
func (d *daemon) made(has func(bookFile) bool) bool {
	for _, s := range d.books().Sessions {
		for _, p := range s.Processes {
			if slices.ContainsFunc(p.Files, has) {
				return true
			}
		}
	}
	return false
}

// TestDoorbellsNamed: a status says how the doorbells of each program come, and why not otherwise.
func TestDoorbellsNamed(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong", "strace")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	rxe, adapter := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "mlx5_0=eth0")
	for _, tt := range []struct {
		d         *daemon
		flags     []string
		argv      []string
		how, says string
	}{
		{rxe, []string{"--doorbells", "direct"}, nil, "direct", "direct"},
		{rxe, []string{"--doorbells", "trapped"}, nil, "trapped", "trapped: --doorbells=trapped"},
		{rxe, []string{"--doorbells", "direct"}, []string{"prlimit", "--fsize=1000000"}, "trapped", "trapped: the program has a limit of file sizes"},
		{adapter, nil, nil, "woken", "woken"},
		{adapter, nil, []string{"strace", "-f", "-o", "/dev/null"}, "polled", "polled: a debugger or strace has the program"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			p := tt.d.waits(t, tt.flags, tt.argv...)
			defer p.killTree()
			if !until(programLimit, func() bool { return tt.d.made(func(f bookFile) bool { return f.Doorbells.How == tt.how }) }) {
				t.Errorf("the doorbells are not %s: %+v", tt.how, tt.d.books().Sessions)
			}
			if out := start(t, tt.d.host, tt.d.env(), gorxe, "status").ok(); !strings.Contains(out, tt.says) {
				t.Errorf("no %q in\n%s", tt.says, out)
			}
		})
	}
}

// TestMLX5Idle: the daemon of an adapter whose program has a queue pair and does nothing takes less
// than a thousandth of a processor. Its thread does not look for doorbells, except once in a
// second.
func TestMLX5Idle(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong")
	if native != "" || !selection.takes(standard) {
		return
	}
	const window, most = 1500 * time.Millisecond, 1500 * time.Microsecond
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	d.waits(t, nil)
	var last string
	if !until(programLimit, func() bool {
		time.Sleep(window / 3) // what the last question cost is over
		spent, woke := d.spent(t)
		time.Sleep(window)
		spent2, woke2 := d.spent(t)
		last = fmt.Sprintf("%v, and %d times", spent2-spent, woke2-woke)
		return spent2-spent < most && woke2-woke < 20
	}) {
		t.Errorf("in %v the threads of the daemon ran for %s", window, last)
	}
}

// spent returns how long the daemon's threads have run so far, and how often one has left its
// processor to wait.
func (d *daemon) spent(t *testing.T) (ran time.Duration, waited int) {
	t.Helper()
	for file, text := range d.switches(t) {
		n, err := strconv.Atoi(strings.Fields(text + " 0")[0])
		must.OK(t, err)
		waited += n
		// a thread that has ended
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "schedstat"))
		var ns int64
		if len(stat) > 0 {
			if _, err := fmt.Sscan(string(stat), &ns); err != nil {
				t.Fatal(err)
			}
		}
		ran += time.Duration(ns)
	}
	return ran, waited
}

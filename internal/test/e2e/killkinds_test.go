package e2e

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killsOfEach is how often the tests here kill each kind of process.
var killsOfEach = count("GORXE_KILLS_EACH", (kills+9)/10)

// progress says with -v how far a long test is.
func progress(t *testing.T, done, all int) {
	t.Helper()
	const step = 100
	if done > 0 && done%step == 0 {
		t.Logf("%d of %d kills", done, all)
	}
}

// waiting is a program that holds a queue pair and waits for a client.
type waiting struct {
	*proc
	port string
}

const waitingName = "ibv_rc_pingpong"

func (d *daemon) waiting(t *testing.T) waiting {
	t.Helper()
	port := d.host.nextPort()
	w := waiting{port: strconv.Itoa(port)}
	w.proc = d.run(t, w.argv()...)
	w.listening(port)
	return w
}

func (w waiting) argv() []string {
	return []string{waitingName, "-d", "rxe0", "-g", "1", "-c", "-n", "50", "-p", w.port}
}

// keeper is the child of the front, which `gorxe run` is.
func (p *proc) keeper() int {
	p.t.Helper()
	pids := tree(p.cmd.Process.Pid)
	if len(pids) < 3 {
		p.t.Fatalf("no keeper with a program\n%s", p.describe())
	}
	return pids[1]
}

// gone waits until none of the processes runs.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !until(programLimit, func() bool { return !runs(pid) }) {
			t.Errorf("process %d still runs", pid)
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// wantKilled waits for a run whose program was killed.
func (p *proc) wantKilled() {
	p.t.Helper()
	if code := p.wait(); code != -int(syscall.SIGKILL) {
		p.t.Errorf("gorxe run ended with %d, not like its program\n%s", code, p.out.String())
	}
}

// TestKillIdle kills a program that has no traffic, its keeper, and its front. The daemon then
// holds nothing of it.
func TestKillIdle(t *testing.T) {
	besideOthers(t)
	need(t, waitingName)
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	for _, tt := range []struct {
		kind string
		kill func(t *testing.T, w waiting)
	}{
		{"program", func(_ *testing.T, w waiting) {
			w.killProgram(waitingName)
			w.wantKilled()
		}},
		{"front", func(t *testing.T, w waiting) {
			kill(t, w.cmd.Process.Pid)
			w.wantKilled()
		}},
		{"keeper", func(t *testing.T, w waiting) {
			kill(t, w.keeper())
			// The program goes on, with its device.
			d.run(t, append(w.argv(), d.host.addr)...).ok()
			w.ok()
		}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			for i := range killsOfEach {
				progress(t, i, killsOfEach)
				w := d.waiting(t)
				pids := tree(w.cmd.Process.Pid)
				tt.kill(t, w)
				gone(t, pids)
				d.idle()
			}
		})
	}
}

// TestKillIdleDaemon kills a daemon whose program has no traffic. The program goes on without a
// device. The next daemon takes the socket that is left, and has programs at once.
func TestKillIdleDaemon(t *testing.T) {
	besideOthers(t)
	need(t, waitingName)
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0")
	var ready []time.Duration
	for i := range killsOfEach {
		progress(t, i, killsOfEach)
		w := d.waiting(t)
		pids := tree(w.cmd.Process.Pid)
		kill(t, d.pid())
		d.wait()
		d = restartDaemon(t, d)
		ready = append(ready, d.ready)
		if !until(programLimit, func() bool { return w.ended() || strings.Contains(w.out.String(), "the daemon is gone") }) || w.ended() {
			t.Fatalf("the program without a daemon:\n%s", w.describe())
		}
		w.killProgram(waitingName)
		w.wantKilled()
		gone(t, pids)
	}
	slices.Sort(ready)
	t.Logf("of %d new daemons the median was ready after %v, the slowest after %v", len(ready), ready[len(ready)/2], ready[len(ready)-1])
}

// TestKillKeeper kills the keeper of a program with traffic. The traffic goes on.
func TestKillKeeper(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	for i := range killsOfEach {
		progress(t, i, killsOfEach)
		tr := d.traffic(t, victims[0].argv...)
		pids := tree(tr.client.cmd.Process.Pid)
		keeper := tr.client.keeper()
		kill(t, keeper)
		gone(t, []int{keeper})
		before := d.sent()
		if !until(programLimit, func() bool { return tr.client.ended() || d.sent() > before }) || tr.client.ended() {
			t.Fatalf("no traffic without a keeper\n%s", tr.client.describe())
		}
		tr.client.killProgram(victims[0].argv[0])
		tr.client.wantKilled()
		if code := tr.server.wait(); code == 0 {
			t.Errorf("the other one ended without an error\n%s", tr.server.out.String())
		}
		gone(t, pids)
		d.idle()
	}
}

package e2e

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// pause stops the daemon. It returns when no thread of the daemon runs any more.
func (d *daemon) pause(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGSTOP)
	if !until(programLimit, func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(d.pid()) + "/status")
		return err != nil || strings.Contains(string(text), "\nState:\tT (stopped)\n")
	}) {
		t.Fatal("the daemon does not stop")
	}
}

func (d *daemon) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestDaemonStopped: a daemon that is stopped and continued goes on with its programs' traffic.
func TestDaemonStopped(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	tr := d.traffic(t, victims[0].argv...)
	for range 3 {
		d.pause(t)
		d.signal(t, syscall.SIGCONT)
		before := d.sent()
		if !until(programLimit, func() bool { return tr.client.ended() || d.sent() > before }) || tr.client.ended() {
			t.Fatalf("no traffic after a stop\n%s", tr.client.describe())
		}
	}
	for _, p := range []*proc{tr.client, tr.server} {
		p.killProgram(victims[0].argv[0])
	}
	tr.client.wait()
	tr.server.wait()
	d.idle()
}

// TestPeerStopped: a daemon is stopped for as long as a peer on another host repeats its requests.
// The peer's program learns that from a completion. Continued, the daemon has new connections.
func TestPeerStopped(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	tr := da.trafficFrom(t, db, victims[0].argv...)
	da.pause(t)
	if code, out := tr.client.wait(), tr.client.out.String(); code == 0 || !strings.Contains(out, retryExceeded) {
		t.Errorf("the peer of a stopped daemon ended with %d, and not with %q:\n%s", code, retryExceeded, out)
	}
	da.signal(t, syscall.SIGCONT)
	if code := tr.server.wait(); code == 0 {
		t.Errorf("the server ended without an error\n%s", tr.server.out.String())
	}
	da.idle()
	db.idle()
	o := topology{server: da.run, client: db.run, host: a}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50").good(t)
}

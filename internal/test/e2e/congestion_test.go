package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// limit is how many Mb/s congestion has left of the rate of the one queue pair, or 0 if it has no
// limit. It is false if there is no queue pair.
func (d *daemon) limit() (mbps float64, ok bool) {
	d.t.Helper()
	for _, s := range d.books().Sessions {
		for _, p := range s.Processes {
			for _, f := range p.Files {
				for _, q := range f.QPs {
					return q.RateMbps, true
				}
			}
		}
	}
	return 0, false
}

// pace is how many Mb/s of payload the device sends, over a time in which it sends at least so many
// packets, of 4096 bytes each.
func (d *daemon) pace(packets uint64) float64 {
	d.t.Helper()
	from, at := d.counter("sent_pkts"), time.Now()
	var n uint64
	if !until(programLimit, func() bool { n = d.counter("sent_pkts") - from; return n >= packets }) {
		d.t.Fatalf("the device has sent %d packets", n)
	}
	return float64(n) * 4096 * 8 / 1e6 / time.Since(at).Seconds()
}

func (d *daemon) counter(name string) uint64 {
	d.t.Helper()
	n, ok := d.books().Devices[0].Counters[name]
	if !ok {
		d.t.Fatalf("the device has no counter %s", name)
	}
	return n
}

// portRate is the rate of a device's port in Mb/s, at which a sender without a limit may send.
const portRate = 40_000

// TestCongestion: ib_write_bw runs between two hosts when a rule begins to mark 10 % of its
// packets. The receiver sends CNPs, and the sender gets a limit. The limit ends once the rule is
// removed. How fast a sender is depends on the machine, so rxe/sim compares the rates.
func TestCongestion(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	notNative(t, "fault rules")
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	port := a.nextPort()
	argv := []string{"ib_write_bw", "-d", "rxe0", "-p", strconv.Itoa(port), "-F", "-x", strconv.Itoa(gidIPv4), "-s", "65536", "-D", "1", "--run_infinitely"}
	server := da.run(t, argv...)
	server.listening(port)
	client := db.run(t, append(argv, a.addr)...)

	db.pace(1) // the programs have met
	before := db.pace(2000)
	if mbps, ok := db.limit(); !ok || mbps != 0 {
		t.Fatalf("no packet is marked, and the limit is %.0f Mb/s (%v)", mbps, ok)
	}
	pid := strconv.Itoa(client.cmd.Process.Pid)
	start(t, b, db.env(), gorxe, "fault", "add", "--pid", pid, "packet mark,p=10%,seed=1,direction=out").ok()
	var left float64
	if !until(programLimit, func() bool { left, _ = db.limit(); return left > 0 && left < portRate/2 }) {
		t.Errorf("packets are marked, and the limit is %.0f Mb/s", left)
	}
	during := db.pace(2000)
	start(t, b, db.env(), gorxe, "fault", "remove", "--pid", pid, "1").ok()
	if !until(programLimit, func() bool { left, ok := db.limit(); return ok && left == 0 }) {
		t.Error("no packet is marked any more, and the limit remains")
	}
	after := db.pace(10_000) // more than can be under way, so those with marks have arrived
	marked := da.counter("np_ecn_marked_roce_packets")
	db.pace(2000)
	if n := da.counter("np_ecn_marked_roce_packets"); n != marked {
		t.Errorf("without a rule %d packets were marked", n-marked)
	}
	notes, handled := da.counter("np_cnp_sent"), db.counter("rp_cnp_handled")
	t.Logf("%.0f Mb/s; with marks %.0f Mb/s; then %.0f Mb/s; %d marked, %d CNPs, %d handled", before, during, after, marked, notes, handled)
	if notes == 0 || notes > marked || handled == 0 || handled > notes {
		t.Errorf("%d packets were marked, %d CNPs were sent, and %d handled", marked, notes, handled)
	}
	if server.ended() || client.ended() {
		t.Errorf("a program has ended:\n%s\n%s", server.describe(), client.describe())
	}
	for _, p := range []*proc{server, client} {
		// Each ends too when the other is gone.
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	server.wait()
	client.wait()
	da.end(t)
	db.end(t)
}

// TestCongestionCapture: a capture of marked packets and of the CNPs that answer them has no
// violation.
func TestCongestionCapture(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "ib_write_bw")
	notNative(t, "fault rules")
	a, b := twoHosts(t, 4500)
	file := filepath.Join(t.TempDir(), "server.pcapng")
	da := startDaemon(t, a, "--device", "rxe0=eth0", "--pcap", file)
	db := startDaemon(t, b, "--device", "rxe0=eth0")
	two := topology{host: a, device: "rxe0", server: da.run, client: func(t *testing.T, argv ...string) *proc {
		return start(t, b, db.env(), append([]string{gorxe, "run", "--fault", "packet mark,every=10,direction=out", "--"}, argv...)...)
	}}
	two.exchange(t, perftestArgs("ib_write_bw -s 8192 -n 20")...).good(t)
	if n := da.counter("np_cnp_sent"); n == 0 {
		t.Error("there is no CNP")
	}
	da.end(t)
	db.end(t)
	noViolation(t, file)
}

package e2e

import (
	"net"
	"strings"
	"testing"
)

// TestFilterCounter: packets to no queue pair count in a file of hw_counters that programs of
// root and of the daemon's user read, and others do not.
func TestFilterCounter(t *testing.T) {
	besideOthers(t)
	need(t, "cat")
	if !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-mode", "0666")
	const dir, packets = "/sys/class/infiniband/rxe0/ports/1/hw_counters/", 3
	err := b.net.Do(func() error {
		c, err := net.Dial("udp", net.JoinHostPort(a.addr, "4791"))
		if err != nil {
			return err
		}
		defer c.Close()
		for range packets {
			if _, err := c.Write(make([]byte, 40)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !until(programLimit, func() bool { return d.run(t, "cat", dir+"receive_filter_drop").ok() == "3\n" }) {
		t.Errorf("of %d packets, hw_counters has %s", packets, d.run(t, "cat", dir+"receive_filter_drop").ok())
	}
	if oneUser {
		return
	}
	other := a.as(65534, 65534)
	if p := d.runAs(t, other, "cat", dir+"receive_filter_drop"); p.wait() == 0 || !strings.Contains(p.out.String(), "Permission denied") {
		t.Errorf("another user reads %s", p.out.String())
	}
	if out := d.runAs(t, other, "cat", dir+"receive_queue_drop").ok(); out != "0\n" {
		t.Errorf("receive_queue_drop: %q", out)
	}
	status := start(t, other, d.env(), gorxe, "status", "--json").ok()
	if !strings.Contains(status, `"receive_queue_drop": 0`) || strings.Contains(status, "receive_filter_drop") {
		t.Errorf("another user's status:\n%s", status)
	}
}

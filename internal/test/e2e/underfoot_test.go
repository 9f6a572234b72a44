package e2e

import (
	"errors"
	"strings"
	"testing"
)

// TestNetworkChanges: the default route changes, and the network namespace at the other end of a
// device's cable is deleted, which takes the interface away. Exchanges over another device of
// the daemon succeed meanwhile and afterward.
func TestNetworkChanges(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ibv_devinfo")
	if !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	a.ip(t, "link set lo up")
	d := startDaemon(t, a, "--device", "rxe0=lo", "--device", "rxe1=eth0")
	honest := topology{server: d.run, client: d.run, host: &host{net: a.net, addr: "127.0.0.1"}}
	exchange := func() {
		t.Helper()
		honest.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "300").good(t)
	}
	changed := make(chan error, 1)
	go func() {
		err := errors.Join(a.net.IP("route add default via 10.88.0.2"), a.net.IP("route replace default dev lo"),
			a.net.IP("route del default"))
		b.net.Close()
		if !until(programLimit, func() bool { return a.net.IP("link show eth0") != nil }) {
			err = errors.Join(err, errors.New("eth0 is still there"))
		}
		changed <- err
	}()
	for changing := true; changing; {
		exchange()
		select {
		case err := <-changed:
			if err != nil {
				t.Fatal(err)
			}
			changing = false
		default:
		}
	}
	if !until(programLimit, func() bool { return strings.Contains(d.run(t, "ibv_devinfo", "-d", "rxe1").ok(), "PORT_DOWN") }) {
		t.Error("the port is not down")
	}
	exchange()
}

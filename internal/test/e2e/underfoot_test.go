package e2e

import (
	"errors"
	"strings"
	"testing"
)

// TestRoutesChange: a device's peer is behind the default route, whose gateway changes again and
// again. Exchanges with that peer succeed meanwhile and afterward.
func TestRoutesChange(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	const changes = 30
	a, b := twoHosts(t, 1500)
	b.ip(t, "addr add 10.88.0.3/24 dev eth0")
	b.ip(t, "addr add 10.77.0.1/32 dev eth0")
	a.ip(t, "route add default via 10.88.0.2 metric 10")
	a.ip(t, "route add default via 10.88.0.3 metric 20")
	client := startDaemon(t, a, "--device", "rxe0=10.88.0.1")
	server := startDaemon(t, b, "--device", "rxe0=10.77.0.1")
	far := topology{server: server.run, client: client.run, host: b, peer: a}
	exchange := func() {
		t.Helper()
		far.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "0", "-c", "-n", "300").good(t)
	}
	repeatDuring(t, exchange, func() (err error) {
		for range changes {
			err = errors.Join(err, a.net.IP("route del default via 10.88.0.2"), a.net.IP("route add default via 10.88.0.2 metric 10"))
		}
		return err
	})
	exchange()
}

// TestNetworkChanges: the network namespace at the other end of a device's cable is deleted, which
// takes the interface away. (The daemon's own namespace lives as long as the daemon.) Exchanges
// over another device of the daemon succeed meanwhile and afterward.
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
	repeatDuring(t, exchange, func() error {
		b.net.Close()
		if !until(programLimit, func() bool { return a.net.IP("link show eth0") != nil }) {
			return errors.New("eth0 is still there")
		}
		return nil
	})
	if !until(programLimit, func() bool { return strings.Contains(d.run(t, "ibv_devinfo", "-d", "rxe1").ok(), "PORT_DOWN") }) {
		t.Error("the port is not down")
	}
	exchange()
}

// repeatDuring calls exchange again and again until change, which runs beside it, has returned.
func repeatDuring(t *testing.T, exchange func(), change func() error) {
	t.Helper()
	changed := make(chan error, 1)
	go func() { changed <- change() }()
	for {
		exchange()
		select {
		case err := <-changed:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

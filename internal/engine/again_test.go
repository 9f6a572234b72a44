package engine

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rxe"
)

// Programs hear that the interface of their device was deleted, and that there is one again.
func TestEventsOfInterface(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	var link netlink.Link
	appear := func() {
		t.Helper()
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"})
		for _, name := range []string{"v1", "v0"} {
			if err == nil {
				link, err = netlink.LinkByName(name)
			}
			if err == nil {
				err = netlink.LinkSetUp(link)
			}
		}
		if err == nil {
			err = netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 9, 0, 1), Mask: net.CIDRMask(24, 32)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	appear()
	events := make(chan rxe.EventType, 64)
	e, err := Start(Config{Name: "rxe0", Interface: "v0", OnEvent: func(ev rxe.Event) { events <- ev.Type }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	wait := func(want rxe.EventType, state rxe.PortState) {
		t.Helper()
		for got := range events {
			if got == want {
				break
			}
		}
		if now := e.Device().QueryPort().State; now != state {
			t.Errorf("after the event %v the port is %v", want, now)
		}
	}
	wait(rxe.EventPortActive, rxe.PortActive)
	for range 2 {
		if err := netlink.LinkDel(link); err != nil {
			t.Fatal(err)
		}
		wait(rxe.EventPortErr, rxe.PortDown)
		appear()
		wait(rxe.EventPortActive, rxe.PortActive)
	}
}

package rdmacm

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Datagrams: a service is looked up, and its queue pair is known.
func TestUD(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceUDP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{PrivateData: []byte("ask"), QPN: 0x11}))
		req := l.next(ConnectRequest)
		if d := req.UD.PrivateData; len(d) != 180 || !bytes.HasPrefix(d, []byte("ask\x00")) {
			t.Errorf("private data of the request is %q", d)
		}
		p := l.child(req)
		must.OK(t, p.Accept(&ConnParams{PrivateData: []byte("answer"), QPN: 0x22}))
		ev := u.next(Established).UD
		if d := ev.PrivateData; len(d) != 136 || !bytes.HasPrefix(d, []byte("answer\x00")) {
			t.Errorf("private data of the reply is %q", d)
		}
		if ev.QPN != 0x22 || ev.QKey != 0x01234567 || ev.AH.DGID.Addr() != netip.MustParseAddr("10.0.0.2") {
			t.Errorf("reply is %+v", ev)
		}
		if got := l.names(); got != "" {
			t.Errorf("the passive side hears %s", got)
		}
		must.OK(t, u.Disconnect())
		must.OK(t, p.Disconnect())
		synctest.Wait()
		if got := f.messages(); got != "SIDR_REQ SIDR_REP" {
			t.Errorf("messages are %s", got)
		}
	})
}

// A service of datagrams that does not exist, and one whose queue key changes.
func TestUDErrors(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
		if ev := u.next(Unreachable); ev.Status != 1 {
			t.Errorf("status is %d", ev.Status)
		}
		l := b.listening(wire.PortSpaceUDP, "0.0.0.0:7174")
		v := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		_, _, err := v.QPAttr(rxe.QPInit) // the default key from here on
		must.OK(t, err)
		must.OK(t, v.Connect(&ConnParams{}))
		must.OK(t, l.child(l.next(ConnectRequest)).Accept(&ConnParams{QKey: 0x77}))
		if ev := v.next(AddrError); ev.Status != -22 {
			t.Errorf("status is %d", ev.Status)
		}
	})
}

// Membership of a group: on the network for receivers only, and until the ID leaves.
func TestMulticast(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, _ *host) {
		u := a.user(wire.PortSpaceUDP)
		must.OK(t, u.Bind(at("10.0.0.1:0")))
		mc, err := u.Join(at("239.1.1.1:0"), false)
		must.OK(t, err)
		ev := u.next(MulticastJoin)
		if ev.Multicast != mc || ev.UD.QPN != 0xffffff || ev.UD.QKey != 0x01234567 || ev.UD.AH.HopLimit != 64 ||
			ev.UD.AH.DGID.String() != "0000:0000:0000:0000:0000:ffff:ef01:0101" {
			t.Errorf("event is %+v", ev.UD)
		}
		sender, err := u.Join(at("239.1.1.2:0"), true)
		must.OK(t, err)
		sender.Leave() // before its event was handled, or after
		u.names()
		if len(a.net.groups) != 1 || a.net.groups[0] != "239.1.1.1" {
			t.Errorf("groups are %v", a.net.groups)
		}
		mc.Leave()
		mc.Leave()
		if _, err := u.Join(at("239.1.1.3:0"), false); err != nil {
			t.Error(err)
		}
		u.Destroy()
		if len(a.net.groups) != 0 {
			t.Errorf("groups are left: %v", a.net.groups)
		}
	})
}

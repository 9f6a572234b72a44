package rdmacm

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// world runs a test with two hosts.
func world(t *testing.T, test func(t *testing.T, f *fabric, a, b *host)) {
	bubble(t, func(t *testing.T, f *fabric) {
		a, b := newHost(t, f, "10.0.0.1", "fe80::1"), newHost(t, f, "10.0.0.2", "fe80::2")
		defer a.close()
		defer b.close()
		test(t, f, a, b)
	})
}

// A REQ that nobody answers is sent 16 times, and then the peer is unreachable. Times are
// those of Linux 6.12.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		space wire.PortSpace
		sends string
		after time.Duration
	}{
		{wire.PortSpaceTCP, "REQ", 16 * 4608 * time.Millisecond},
		{wire.PortSpaceUDP, "SIDR_REQ", 16 * 4096 * time.Millisecond},
	} {
		world(t, func(t *testing.T, f *fabric, a, _ *host) {
			u := a.resolved(c.space, "10.0.0.3:7174") // nobody has it
			start := time.Now()
			must.OK(t, u.Connect(&ConnParams{}))
			time.Sleep(c.after - time.Millisecond)
			if got := u.names(); got != "" {
				t.Errorf("after %v the events are %s", time.Since(start), got)
			}
			time.Sleep(2 * time.Millisecond)
			if ev := u.next(Unreachable); ev.Status != -110 {
				t.Errorf("status is %d", ev.Status)
			}
			u.wants(StateConnect)
			if n := bytes.Count([]byte(f.messages()), []byte(c.sends)); n != 16 {
				t.Errorf("%d messages were sent, want 16", n)
			}
		})
	}
}

// What the peer hears when an ID is destroyed, in each state.
func TestDestroy(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")

		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		u.Destroy() // before the reply
		if ev := l.next(Rejected); ev.Status != 4 {
			t.Errorf("status is %d, want that of a timeout", ev.Status)
		}
		p.Destroy()
		f.messages()

		u, p = connected(a, l, "10.0.0.2:7174")
		f.messages()
		u.Destroy()
		l.next(Disconnected)
		p.Destroy()
		synctest.Wait()
		if got := f.messages(); got != "DREQ DREP" {
			t.Errorf("messages are %s", got)
		}
		time.Sleep(minute)
		if got := l.names() + u.names(); got != "" {
			t.Errorf("after the end: %s", got)
		}

		l.Destroy()
		u = a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
		if ev := u.next(Rejected); ev.Status != 8 {
			t.Errorf("after the listener: %d", ev.Status)
		}
	})
}

// The daemon's end destroys all IDs, and their peers hear of it.
func TestClose(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u, _ := connected(a, l, "10.0.0.2:7174")
		b.Close()
		u.next(Disconnected)
		if got := l.names(); got != "" {
			t.Errorf("the closed side hears %s", got)
		}
	})
}

// TimewaitExit comes half a second after the end, once.
func TestTimewait(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u, p := connected(a, b.listening(wire.PortSpaceTCP, "0.0.0.0:7174"), "10.0.0.2:7174")
		must.OK(t, u.Disconnect())
		must.OK(t, p.Disconnect()) // they cross
		if got := u.names() + " " + p.names(); got != "DISCONNECTED DISCONNECTED" {
			t.Errorf("events are %s", got)
		}
		must.OK(t, u.Disconnect()) // agrees
		must.OK(t, p.Disconnect())
		time.Sleep(minute)
		if got := u.names() + " " + p.names(); got != "TIMEWAIT_EXIT TIMEWAIT_EXIT" {
			t.Errorf("then the events are %s", got)
		}
	})
}

// A DREQ that nobody answers: the program hears that the peer is gone.
func TestDisconnectUnanswered(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u, _ := connected(a, b.listening(wire.PortSpaceTCP, "0.0.0.0:7174"), "10.0.0.2:7174")
		f.mu.Lock()
		f.lose = func(wire.CMMessage) bool { return true }
		f.mu.Unlock()
		must.OK(t, u.Disconnect())
		time.Sleep(2 * minute)
		synctest.Wait()
		ev := (*u.events)[0]
		if got := u.names(); got != "DISCONNECTED TIMEWAIT_EXIT" || ev.Status != -110 {
			t.Errorf("events are %s, status %d", got, ev.Status)
		}
	})
}

// A lost RTU: the program reports what its queue pair has seen.
func TestNotify(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		f.lose = func(m wire.CMMessage) bool { return m.CMAttribute() == wire.AttrRTU }
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		must.OK(t, p.Accept(&ConnParams{}))
		u.next(ConnectResponse)
		must.OK(t, u.EstablishActive())
		synctest.Wait()
		must.OK(t, p.Notify(rxe.EventCommEst))
		l.next(Established)
		is(t, p.Notify(rxe.EventCommEst), unix.EISCONN)
	})
}

// A device that goes away: one event for each ID that is bound to it. Wildcard listeners
// stay, and listen on later devices.
func TestDeviceRemoval(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		wild := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		bound := b.listening(wire.PortSpaceTCP, "10.0.0.2:7175")
		u, p := connected(a, wild, "10.0.0.2:7174")
		b.RemoveDevice(b.dev)
		b.RemoveDevice(b.dev)
		bound.next(DeviceRemoval)
		wild.next(DeviceRemoval) // of the connection
		u.next(Disconnected)
		p.wants(StateDeviceRemoval)
		wild.wants(StateListen)
		if bound.Device() != nil {
			t.Error("a removed device is still there")
		}
		is(t, p.Disconnect(), unix.EINVAL)
		is(t, bound.Listen(), unix.EINVAL)
		p.Destroy()
		u.Destroy()

		again := b.f.newPort(3, "10.0.0.3")
		b.add("rxe1", again)
		b.net.index = 3
		connected(a, wild, "10.0.0.3:7174")
		is(t, b.AddDevice(&Device{GUID: guids}), unix.EEXIST)
	})
}

// A device that one program loses: its IDs have the events, those of another program work on.
// The device comes back.
func TestRemoveFrom(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		lost := false
		loser, other := *b.owner, b.owner
		loser.Lacks = func(d *Device) bool { return lost && d == b.dev }
		b.owner = &loser
		wild := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		bound := b.listening(wire.PortSpaceTCP, "10.0.0.2:7175")
		u, p := connected(a, wild, "10.0.0.2:7174")
		b.owner = other
		rest := b.listening(wire.PortSpaceTCP, "10.0.0.2:7176")

		b.mu.Lock()
		lost = true
		b.mu.Unlock()
		b.RemoveFrom(b.dev)
		b.RemoveFrom(b.dev)
		bound.next(DeviceRemoval)
		wild.next(DeviceRemoval) // of the connection
		u.next(Disconnected)
		p.wants(StateDeviceRemoval)
		wild.wants(StateListen)
		rest.wants(StateListen)
		asks := func(l *user, dst string, qpn wire.QPN) {
			v := a.resolved(wire.PortSpaceTCP, dst)
			must.OK(t, v.Connect(&ConnParams{QPN: qpn}))
			l.child(l.next(ConnectRequest))
		}
		asks(rest, "10.0.0.2:7176", 0x33)
		b.owner = &loser
		late := b.user(wire.PortSpaceTCP)
		is(t, late.Bind(at("10.0.0.2:7177")), unix.ENODEV)

		b.mu.Lock()
		lost = false
		b.mu.Unlock()
		b.Restore(b.dev)
		b.Restore(b.dev)
		asks(wild, "10.0.0.2:7174", 0x44)
		must.OK(t, late.Bind(at("10.0.0.2:7177")))
	})
}

// An address that goes away: no event, as in Linux, and no new connection.
func TestAddressRemoval(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u, _ := connected(a, l, "10.0.0.2:7174")
		v := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		a.port.set(func(p *rocev2.PortInfo) { p.GIDs = []wire.GID{{}, p.GIDs[1]} })
		is(t, v.Connect(&ConnParams{}), unix.EINVAL)
		if got := u.names() + l.names(); got != "" {
			t.Errorf("events are %s", got)
		}
	})
}

// The IDs and the counters say what there is.
func TestStatus(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		_, p := connected(a, l, "10.0.0.2:7174")
		if len(b.ids) != 2 || l.State() != StateListen || p.State() != StateConnect || p.Device().Name != "rxe0" || p.qpn != 0x22 ||
			l.owner != b.owner || p.RemoteAddr().Addr().String() != "10.0.0.1" {
			t.Errorf("%d ids, the connection is %+v", len(b.ids), p.ID)
		}
		if c := a.dev.Counters(); c.TxMsgs.Of(wire.AttrREQ) != 1 {
			t.Errorf("counters are %+v", c)
		}
	})
}

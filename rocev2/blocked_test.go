package rocev2

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// trap is a Receiver. A packet of one length blocks its call until that is freed;
// others go to its sink.
type trap struct {
	*sink
	blocked chan chan struct{} // one for each blocked call, which ends with it
}

const trapLen = 666

func newTrap(t testing.TB) *trap { return &trap{newSink(t), make(chan chan struct{}, 64)} }

func (tr *trap) receive(batch []wire.Datagram) {
	traps := 0
	var rest []wire.Datagram
	for _, d := range batch {
		if len(d.Data) == trapLen-icrcLen {
			traps++
		} else {
			rest = append(rest, d)
		}
	}
	tr.sink.receive(rest)
	for range traps {
		free := make(chan struct{})
		tr.blocked <- free
		<-free
	}
}

// send sends one packet of each size, and waits until it has been received.
func (tr *trap) send(t *testing.T, from *Port, route *wire.Route, sizes ...int) {
	t.Helper()
	for _, size := range sizes {
		must.OK(t, from.Send([]wire.Burst{burst(route, 1, size, 0)}))
		if got := tr.wait(1); len(got) != 1 || len(got[0].Data) != size-icrcLen {
			t.Fatalf("received %d packets", len(got))
		}
	}
}

func (tr *trap) block(t *testing.T, from *Port, route *wire.Route) (free chan struct{}) {
	t.Helper()
	must.OK(t, from.Send([]wire.Burst{burst(route, 1, trapLen, 0)}))
	return <-tr.blocked
}

// noReaders waits until the readers of closed ports have ended: those of freed calls need a moment.
func noReaders(t *testing.T) {
	t.Helper()
	must.Eventually(t, "the readers of closed ports end", func() bool { return leak.Running("rocev2.(*reader).run") == 0 })
}

func TestOthersContinueWhenACallBlocks(t *testing.T) {
	src, dst, other := netip.MustParseAddr("127.0.15.1"), netip.MustParseAddr("127.0.15.2"), netip.MustParseAddr("127.0.15.3")
	tr := newTrap(t)
	rx, tx := open(t, Config{Address: dst, Receiver: tr.receive}), open(t, Config{Address: src, Receiver: discard})
	tx2 := open(t, Config{Address: other, Receiver: discard})
	route, route2 := &wire.Route{Src: src, Dst: dst}, &wire.Route{Src: other, Dst: dst}
	tr.send(t, tx, route, 64, 65)

	var blocked []chan struct{}
	for i := range 5 {
		blocked = append(blocked, tr.block(t, tx, route))
		// From the same peer and from another one, several times.
		tr.send(t, tx, route, 100+i, 200+i)
		tr.send(t, tx2, route2, 300+i)
	}
	// On a busy machine a call that stood still counts as blocked, too.
	if n := rx.Counters().ReceiverTakeovers.Load(); n < 5 {
		t.Errorf("%d takeovers, want 5 or more", n)
	}
	for _, free := range blocked {
		close(free)
	}
	tr.send(t, tx, route, 64)
	for _, p := range []*Port{rx, tx, tx2} {
		must.OK(t, p.Close())
	}
	noReaders(t)
}

func TestCloseWhileBlocked(t *testing.T) {
	src, dst := netip.MustParseAddr("127.0.16.1"), netip.MustParseAddr("127.0.16.2")
	tr := newTrap(t)
	rx, tx := open(t, Config{Address: dst, Receiver: tr.receive}), open(t, Config{Address: src, Receiver: discard})
	route := &wire.Route{Src: src, Dst: dst}
	rx.closeTimeout = time.Nanosecond
	first := tr.block(t, tx, route)
	tr.send(t, tx, route, 64) // by the second reader
	last := tr.block(t, tx, route)

	// Close waits neither for the reader that was replaced nor for the last one, and
	// the address is free at once.
	must.OK(t, rx.Close())
	tr2 := newTrap(t)
	again := open(t, Config{Address: dst, Receiver: tr2.receive})
	tr2.send(t, tx, route, 64)

	// The blocked calls do no harm when they continue, even if they send.
	if err := rx.Send([]wire.Burst{burst(&wire.Route{Src: dst, Dst: src}, 1, 64, 0)}); err == nil {
		t.Error("a closed port sends")
	}
	close(first)
	close(last)
	must.OK(t, again.Close())
	must.OK(t, tx.Close())
	noReaders(t)
}

// TestTakeoversUnderTraffic frees blocked calls at any moment while packets
// arrive; under the race detector it shows that readers share nothing.
func TestTakeoversUnderTraffic(t *testing.T) {
	src, dst := netip.MustParseAddr("127.0.17.1"), netip.MustParseAddr("127.0.17.2")
	tr := newTrap(t)
	open(t, Config{Address: dst, Receiver: tr.receive})
	tx := open(t, Config{Address: src, Receiver: discard})
	route := &wire.Route{Src: src, Dst: dst}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case free := <-tr.blocked:
				// About when the takeover happens: before it, after it, or at once.
				time.AfterFunc(standby.CallLimit*standby.UnconfirmedFactor, func() { close(free) })
			case <-stop:
				return
			}
		}
	})
	for i := range 10 {
		must.OK(t, tx.Send([]wire.Burst{burst(route, 1, trapLen, 0), burst(route, 3, 128, 0)}))
		for got := 0; got < 3; {
			got += len(tr.wait(1))
		}
		tr.send(t, tx, route, 64+i)
	}
	close(stop)
	wg.Wait()
}

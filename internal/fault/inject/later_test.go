package inject

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/wire"
)

// purse is a payer with room for left bytes.
type purse struct {
	mu   sync.Mutex
	left int64
	used int64
}

func (p *purse) TakeBytes(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.left-p.used {
		return false
	}
	p.used += n
	return true
}

func (p *purse) GiveBytes(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
}

func (p *purse) taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// paidSet makes a set with one rule, which p pays for.
func paidSet(t *testing.T, p fault.Payer, text string) *fault.Set {
	t.Helper()
	r, err := fault.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	set := fault.NewSet(time.Now)
	set.PaidBy(p)
	if _, err := set.Add(r); err != nil {
		t.Fatal(err)
	}
	return set
}

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
)

// tiny is a SEND of two bytes over UC, with room for its ICRC.
func tiny() wire.Burst {
	h := wire.Headers{Opcode: wire.UCSendOnly, DestQP: 0x22, PKey: wire.DefaultPKey, Pad: 2}
	buf := append(h.Append(nil), make([]byte, 4+wire.ICRCLen)...)
	return wire.Burst{Route: &wire.Route{Src: here, Dst: there, SrcQP: 0x11}, Buf: buf, Seg: len(buf)}
}

// packetOf is a burst's packet as rules see it.
func packetOf(b *wire.Burst) *fault.Packet {
	p := &fault.Packet{Src: b.Route.Src, Dst: b.Route.Dst, Mine: fault.Out}
	p.Put(b.Buf[:len(b.Buf)-wire.ICRCLen], b.Route.SrcQP, 0x22)
	return p
}

// losses counts what a link loses.
type losses struct{ n int }

func (l *losses) Send([]wire.Burst)      {}
func (l *losses) SendLater([]wire.Burst) {}
func (l *losses) Lose(b []wire.Burst)    { l.n += len(b) }

// newLaterLink makes a link that only keeps packets.
func newLaterLink(t *testing.T, send func([]wire.Burst)) (*Link, *losses) {
	t.Helper()
	lost := new(losses)
	l := &Link{next: lost}
	l.later.Store(startLater(send, nil))
	t.Cleanup(func() { l.later.Load().close() })
	return l, lost
}

// pass lets n packets meet the rules of a set.
func (l *Link) passTiny(t *testing.T, set *fault.Set, n int) {
	t.Helper()
	for range n {
		b := tiny()
		p := packetOf(&b)
		hits, _ := set.Packet(p, false, nil)
		if len(hits) == 0 {
			t.Fatal("no rule fires")
		}
		l.hit(hits, p, &b, b.Buf, new(out))
	}
}

// inUse returns the bytes in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestDelayedPaid: a rule's owner pays for the packets that it keeps, with what they really take,
// up to a bound. Others have room all the same. At the end of the owner its packets go on at once,
// and nothing is left.
func TestDelayedPaid(t *testing.T) {
	for _, text := range []string{
		"packet delay,time=1h", "packet reorder,time=1h", "packet shape,rate=1kbit,queue=100000", "packet shape,latency=1h",
	} {
		t.Run(text, func(t *testing.T) {
			sent := make(chan int, 1)
			l, lost := newLaterLink(t, func(b []wire.Burst) { sent <- len(b) })
			rich, poor := &purse{left: 1 << 40}, &purse{left: 1 << 40}
			set, other := paidSet(t, rich, text), paidSet(t, poor, "packet delay,time=1h")
			const some = 1000
			before := inUse()
			l.passTiny(t, set, some)
			if took := inUse() - before; took > rich.taken() {
				t.Errorf("%d packets take %d bytes, and %d are paid for", some, took, rich.taken())
			}
			rich.mu.Lock()
			rich.left = rich.used + 10*(lateBytes+heldBytes+100)
			rich.mu.Unlock()
			l.passTiny(t, set, some)
			report := set.Status()[0]
			if report.NoRoom < some/2 || int(report.NoRoom) != lost.n || rich.taken() > rich.left {
				t.Errorf("%d packets found no room, %d were lost, and %d of %d bytes are paid for", report.NoRoom, lost.n, rich.taken(), rich.left)
			}
			l.passTiny(t, other, some)
			if s := other.Status()[0]; s.NoRoom != 0 || poor.taken() == 0 {
				t.Errorf("another user's packets: %+v, paid %d", s, poor.taken())
			}
			paid := poor.taken()
			end := func(set *fault.Set, kept int) {
				set.Close()
				l.later.Load().end(set)
				for kept > 0 {
					kept -= <-sent
				}
			}
			end(set, 2*some-lost.n)
			if rich.taken() != 0 || !l.heldOut.none() || poor.taken() != paid {
				t.Errorf("after the end %d bytes are paid for, and held is empty: %v", rich.taken(), l.heldOut.none())
			}
			end(other, some)
			if q := l.later.Load(); q.bytes != 0 || len(q.shares) != 0 || len(q.of) != 0 || len(q.queue) != 0 {
				t.Errorf("left: %d bytes, %d shares, %d sets, %d packets", q.bytes, len(q.shares), len(q.of), len(q.queue))
			}
		})
	}
}

// TestDelayedShare: one payer has a part of what there is for a device, also with many sets.
func TestDelayedShare(t *testing.T) {
	l, _ := newLaterLink(t, nil)
	p := &purse{left: 1 << 40}
	sets := []*fault.Set{paidSet(t, p, "packet delay,time=1h"), paidSet(t, p, "packet delay,time=1h")}
	for i := 0; sets[0].Status()[0].NoRoom == 0 || sets[1].Status()[0].NoRoom == 0; i++ {
		l.passTiny(t, sets[i%2], 1000)
	}
	if p.taken() > laterShare || p.taken() < laterShare*9/10 || laterShare > laterBytes/4 {
		t.Errorf("%d bytes of %d are taken", p.taken(), laterShare)
	}
	other := paidSet(t, &purse{left: 1 << 40}, "packet delay,time=1h")
	if l.passTiny(t, other, 1000); other.Status()[0].NoRoom != 0 {
		t.Error("another user finds no room")
	}
}

// TestRuleRemoved: packets that a rule keeps go on when it is removed.
func TestRuleRemoved(t *testing.T) {
	gone := make(chan int, 10)
	l, _ := newLaterLink(t, func(b []wire.Burst) { gone <- len(b) })
	p := &purse{left: 1 << 40}
	set := paidSet(t, p, "packet delay,time=1h")
	l.passTiny(t, set, 10)
	if _, err := set.Remove(1); err != nil {
		t.Fatal(err)
	}
	l.later.Load().end(set)
	for n := 0; n < 10; {
		n += <-gone
	}
	if p.taken() != 0 {
		t.Errorf("%d bytes are paid for", p.taken())
	}
}

// TestHeldBound: few packets of a flow are held at a time, because each that passes is compared
// with all.
func TestHeldBound(t *testing.T) {
	l, lost := newLaterLink(t, nil)
	set := paidSet(t, nil, "packet reorder,by=1024,time=1h")
	l.passTiny(t, set, maxHeld+10)
	if n := l.heldOut.n.Load(); n != maxHeld || lost.n != 10 || set.Status()[0].NoRoom != 10 {
		t.Errorf("%d are held, and %d lost: %+v", n, lost.n, set.Status()[0])
	}
}

package fault

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// shaped is a link of a rule, with a clock.
type shaped struct {
	t   *testing.T
	now time.Time
	set *Set
}

func newShaped(t *testing.T, text string) *shaped {
	t.Helper()
	s := &shaped{t: t, now: time.Unix(1000, 0)}
	s.set = NewSet(func() time.Time { return s.now })
	r, err := Parse(text)
	if err == nil {
		_, err = s.set.Add(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pass sends a packet of 1000 bytes with all its headers.
func (s *shaped) pass(back bool) Passage {
	s.t.Helper()
	p := packet(wire.RCSendOnly, 2, 3, Either)
	p.Data = append(p.Data[:wire.BTHLen:wire.BTHLen], make([]byte, 1000-wire.BTHLen-wire.ICRCLen-28)...)
	p.Src, p.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	if back {
		p.Src, p.Dst = p.Dst, p.Src
	}
	h, ok := s.set.first(p, false)
	if !ok {
		s.t.Fatal("the rule does not fire")
	}
	return h.Passage()
}

func (s *shaped) want(what string, got, want Passage) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// A packet of 1000 bytes takes 1 ms at 8 Mb/s. Packets wait for those before them, in one
// direction, until the link is idle again. The queue's end loses packets, and its part beyond ecn
// marks them.
func TestShape(t *testing.T) {
	s := newShaped(t, "packet shape,rate=8mbit,latency=10ms,queue=4,ecn=2")
	const ms = time.Millisecond
	s.want("first", s.pass(false), Passage{Wait: 11 * ms})
	s.want("second", s.pass(false), Passage{Wait: 12 * ms})
	s.want("third", s.pass(false), Passage{Wait: 13 * ms, Mark: true})
	s.want("the other direction", s.pass(true), Passage{Wait: 11 * ms})
	s.want("fourth", s.pass(false), Passage{Wait: 14 * ms, Mark: true})
	s.want("fifth", s.pass(false), Passage{Lost: true})
	s.now = s.now.Add(1500 * time.Microsecond)
	s.want("when one has left", s.pass(false), Passage{Wait: 13500 * time.Microsecond, Mark: true})
	s.now = s.now.Add(time.Second)
	s.want("when all have left", s.pass(false), Passage{Wait: 11 * ms})
}

// Without a rate there is no queue.
func TestShapeLatency(t *testing.T) {
	s := newShaped(t, "packet shape,latency=3ms")
	for range 2 * defaultQueue {
		s.want("each", s.pass(false), Passage{Wait: 3 * time.Millisecond})
	}
}

// A link loses its share of the packets, and a seed decides which.
func TestShapeLoss(t *testing.T) {
	run := func(seed string) (lost int, which [1000]bool) {
		s := newShaped(t, "packet shape,loss=10%,seed="+seed)
		for i := range which {
			if which[i] = s.pass(false).Lost; which[i] {
				lost++
			}
		}
		return lost, which
	}
	n, one := run("1")
	_, again := run("1")
	_, two := run("2")
	if n < 70 || n > 130 || one != again || one == two {
		t.Errorf("%d of 1000 are lost, as before: %v, as with another seed: %v", n, one == again, one == two)
	}
}

// The rate is kept over a long time, whatever the length of the queue, and its memory stays.
func TestShapeRate(t *testing.T) {
	s := newShaped(t, "packet shape,rate=8mbit,queue=100")
	sent := 0
	for range 10_000 {
		s.now = s.now.Add(100 * time.Microsecond)
		if !s.pass(false).Lost {
			sent++
		}
	}
	if sent < 1000 || sent > 1100 {
		t.Errorf("%d packets passed in a second, want 1000 and a queue of 100", sent)
	}
	if w := &s.set.all[0].link.ways[0]; cap(w.leaves) > 1000 {
		t.Errorf("the queue of 100 uses the memory of %d", cap(w.leaves))
	}
}

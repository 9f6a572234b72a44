package segment

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/segment/ether"
)

// Segment is a switch. The zero value has no stations.
type Segment struct {
	members atomic.Pointer[members]
	taps    atomic.Pointer[Tap]

	mu      sync.RWMutex // a leaf lock
	learned map[place]port
}

// members are those to which a segment brings frames. A value never changes.
type members struct {
	stations []*Station
	trunks   []*Trunk
}

// port is where a frame leaves a segment: a *Station or a *Trunk. It has no method that takes a
// frame, because each frame would then need memory of its own.
type port interface{ isPort() }

func (*Station) isPort() {}
func (*Trunk) isPort()   {}

// Tap gets each frame that a station sends, before it arrives anywhere, and those that come from a
// network or another segment. It must not block.
type Tap interface{ Frame(b []byte) }

// Capture gives frames to a tap; nil: to none.
func (s *Segment) Capture(t Tap) {
	if t == nil {
		s.taps.Store(nil)
		return
	}
	s.taps.Store(&t)
}

func (s *Segment) capture(f *ether.Frame) {
	if t := s.taps.Load(); t != nil {
		(*t).Frame(f.Data)
	}
}

// address is that of a station: a MAC address.
type address [6]byte

// place is where a switch looks for a station: an address of a VLAN.
type place struct {
	addr address
	vlan uint16 // 0: the frame has no tag
}

// toMany: a broadcast or multicast address.
func (a address) toMany() bool { return a[0]&1 != 0 }

func (s *Segment) list() members {
	if l := s.members.Load(); l != nil {
		return *l
	}
	return members{}
}

// change replaces the members.
func (s *Segment) change(f func(*members)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.list()
	m.stations, m.trunks = slices.Clone(m.stations), slices.Clone(m.trunks)
	f(&m)
	s.members.Store(&m)
}

// forget removes what was learned about a port that has left.
func (s *Segment) forget(p port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, learned := range s.learned {
		if learned == p {
			delete(s.learned, at)
		}
	}
}

// learn notes where the source of a frame is. It forgets everything when it has learned too much.
func (s *Segment) learn(p place, from port) {
	if p.addr.toMany() {
		return
	}
	s.mu.RLock()
	known := s.learned[p] == from
	s.mu.RUnlock()
	if known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned == nil || len(s.learned) >= maxLearned {
		s.learned = make(map[place]port)
	}
	s.learned[p] = from
}

// bring gives a frame to the stations that have its destination as their own address, or else to
// the port where that was learned, or else to all.
func (s *Segment) bring(f *ether.Frame, to place, as *sending) {
	list, found := s.list(), false
	if !to.addr.toMany() {
		for _, st := range list.stations {
			if st.mac == to.addr {
				found = true
				st.take(f, as)
			}
		}
		if found {
			return
		}
		s.mu.RLock()
		p := s.learned[to]
		s.mu.RUnlock()
		switch p := p.(type) {
		case *Station:
			p.take(f, as)
			return
		case *Trunk:
			p.take(f, as)
			return
		}
	}
	for _, st := range list.stations {
		st.take(f, as)
	}
	for _, t := range list.trunks {
		t.take(f, as)
	}
}

// places returns where a frame goes, and where it comes from.
func places(f *ether.Frame) (dst, src place) {
	dst, src = place{addr: address(f.Data[:6])}, place{addr: address(f.Data[6:12])}
	if f.Tagged {
		dst.vlan = f.VLAN & vlanMask
		src.vlan = dst.vlan
	}
	return dst, src
}

// forward brings a frame of a station to others, and to the station itself: the queue pairs of a
// device reach each other.
func (s *Segment) forward(f *ether.Frame, from *Station, as *sending) {
	dst, src := places(f)
	if src.addr != from.mac {
		s.learn(src, from)
	}
	s.capture(f)
	s.bring(f, dst, as)
}

const vlanMask = 1<<12 - 1 // of the control information, the number

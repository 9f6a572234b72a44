package segment

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/ether"
)

// Segment is a switch. The zero value has no stations.
type Segment struct {
	stations atomic.Pointer[[]*Station]
	taps     atomic.Pointer[Tap]

	mu      sync.RWMutex // a leaf lock
	learned map[place]*Station
}

// Tap gets each frame that a station sends, before it arrives anywhere, and those that come from a
// network. It must not block.
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

func (s *Segment) list() []*Station {
	if l := s.stations.Load(); l != nil {
		return *l
	}
	return nil
}

func (s *Segment) join(st *Station) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append(slices.Clone(s.list()), st)
	s.stations.Store(&list)
}

func (s *Segment) leave(st *Station) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.list()), func(o *Station) bool { return o == st })
	s.stations.Store(&list)
	for p, at := range s.learned {
		if at == st {
			delete(s.learned, p)
		}
	}
}

// learn notes where the source of a frame is. It forgets everything when it has learned too much.
func (s *Segment) learn(p place, from *Station) {
	if p.addr.toMany() || p.addr == from.mac {
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
		s.learned = make(map[place]*Station)
	}
	s.learned[p] = from
}

// bring gives a frame to the stations that have its destination as their own address, or else to
// the one where that was learned, or else to all.
func (s *Segment) bring(f *ether.Frame, to place, from *Station, sender Receiver) {
	list, found := s.list(), false
	if !to.addr.toMany() {
		for _, st := range list {
			if st.mac == to.addr {
				found = true
				st.take(f, from, sender)
			}
		}
		if found {
			return
		}
		s.mu.RLock()
		st := s.learned[to]
		s.mu.RUnlock()
		if st != nil {
			st.take(f, from, sender)
			return
		}
	}
	for _, st := range list {
		st.take(f, from, sender)
	}
}

// forward brings a frame of a station to others, and to the station itself: the queue pairs of a
// device reach each other.
func (s *Segment) forward(f *ether.Frame, from *Station, sender Receiver) {
	dst, src := place{addr: address(f.Data[:6])}, place{addr: address(f.Data[6:12])}
	if f.Tagged {
		dst.vlan = f.VLAN & vlanMask
		src.vlan = dst.vlan
	}
	s.learn(src, from)
	s.capture(f)
	s.bring(f, dst, from, sender)
}

const vlanMask = 1<<12 - 1 // of the control information, the number

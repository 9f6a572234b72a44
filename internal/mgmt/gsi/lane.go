package gsi

import (
	"net/netip"
	"sync"
)

// A flood of forged requests must not displace what established connections need. So
// there are two lanes, each with a goroutine: one for datagrams of exchanges under way,
// and one for all others. In the latter no sender can take all the room.

// lane is a bounded queue of datagrams.
type lane chan *datagram

// put adds a datagram. It reports false if the lane is full.
func (l lane) put(d *datagram) bool {
	select {
	case l <- d:
		return true
	default:
		return false
	}
}

// shares counts how many datagrams of each sender wait in a lane. It remembers no more
// senders than the lane has room for.
type shares struct {
	most int // of one sender

	mu      sync.Mutex // a leaf lock
	waiting map[netip.Addr]int
}

// newShares lets one sender have half of a lane.
func newShares(room int) shares {
	return shares{most: (room + 1) / 2, waiting: make(map[netip.Addr]int)}
}

// take counts one more datagram of a sender. It reports false if the sender has its share.
func (s *shares) take(src netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[src] >= s.most {
		return false
	}
	s.waiting[src]++
	return true
}

// give counts one less.
func (s *shares) give(src netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[src]--; s.waiting[src] <= 0 {
		delete(s.waiting, src)
	}
}

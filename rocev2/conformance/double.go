package conformance

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

// A packet that is seen twice was sent again, or was doubled by the network or the
// capture. The IPv4 identification tells, if the sender gives each packet its own.
// One that has the kernel cut its packets (UDP_SEGMENT) does not: there it counts
// from 0 in each batch, whatever the packets are.

// doubledWithin is how far apart a packet and its double may be. A sender of
// millions of packets a second uses an IPv4 identification again soon after.
const doubledWithin = 10 * int64(time.Millisecond)

// backState is the last time that the requester went back.
type backState struct {
	on     bool
	packet int      // the first since
	psn    wire.PSN // of the last since
}

// doubled reports whether a request that is what was sent before is that very
// packet, not sent again.
func (r *requests) doubled(old *record, s *subject) bool {
	switch {
	case s.IP.Version != 4 || s.IP.ID == 0 || s.IP.ID != old.id:
		return false
	case s.at-old.at > doubledWithin || old.at-s.at > doubledWithin:
		return false
	case r.back.on && old.last < r.back.packet && r.back.psn.Less(s.psn):
		return false // it has its turn in what is sent again
	}
	const batch = 64 // packets, at most
	for i := range uint32(batch) {
		for _, psn := range [...]wire.PSN{s.psn.Sub(i + 1), s.psn.Add(i + 1)} {
			if e := r.at(psn, s.Number); e != nil && e.id == s.IP.ID {
				return false
			}
		}
	}
	return true
}

// goBack notes a packet that is not new, nor the double of one.
func (r *requests) goBack(s *subject) {
	if b := &r.back; !b.on || !b.psn.Less(s.psn) {
		b.on, b.packet = true, s.Number
	}
	r.back.psn = s.psn
}

// doubled reports whether a response is the one before it once more, by the rules of
// requests.doubled.
func (r *responses) doubled(id responseID, s *subject) bool {
	if s.IP.Version != 4 || id.id == 0 || !r.last.on || id.id != r.last.id {
		return false
	}
	if id != r.last {
		r.sameIDs = true
	}
	return !r.sameIDs && s.at-r.lastAt <= doubledWithin && r.lastAt-s.at <= doubledWithin
}

package conformance

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

// A packet that is seen twice was sent again, or the network or the capture doubled it.
// The IPv4 identification shows which, if the sender gives each packet a different
// one. A sender that uses UDP_SEGMENT does not: the kernel then counts from 0 in each
// batch.

// doubledWithin is how far apart a packet and its double may be. At millions of packets
// a second, a sender uses an IPv4 identification again soon.
const doubledWithin = 10 * int64(time.Millisecond)

// backState is the last time that the requester went back.
type backState struct {
	on     bool
	packet int      // the first since
	psn    wire.PSN // of the last since
}

// doubled reports whether a request with the contents of an earlier one is the same
// packet, and was not sent again.
func (r *requests) doubled(old *record, s *subject) bool {
	switch {
	case s.IP.Version != 4 || s.IP.ID == 0 || s.IP.ID != old.id:
		return false
	case s.at-old.at > doubledWithin || old.at-s.at > doubledWithin:
		return false
	case r.back.on && old.last < r.back.packet && r.back.psn.Less(s.psn):
		return false // it continues a run of retransmissions
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

// goBack records a packet that is neither new nor a double.
func (r *requests) goBack(s *subject) {
	if b := &r.back; !b.on || !b.psn.Less(s.psn) {
		b.on, b.packet = true, s.Number
	}
	r.back.psn = s.psn
}

// doubled reports whether a response is the same packet as the one before it, by the
// rules of requests.doubled.
func (r *responses) doubled(id responseID, s *subject) bool {
	if s.IP.Version != 4 || id.id == 0 || !r.last.on || id.id != r.last.id {
		return false
	}
	if id != r.last {
		r.sameIDs = true
	}
	return !r.sameIDs && s.at-r.lastAt <= doubledWithin && r.lastAt-s.at <= doubledWithin
}

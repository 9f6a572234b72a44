package rxe

import "github.com/gorxe/gorxe/wire"

// The rate that a reaction point allows holds for all data of a queue pair: its requests, and
// its responses to READs. Acknowledgements and CNPs pass. A queue pair that got no CNP has no
// limit, and pays for one comparison with 0.

// limited reports whether there is a rate. The compiler inlines it where others would be calls.
func (r *reaction) limited() bool { return r.rate != 0 }

// rateWait returns how long the requester must wait for its rate. The queue pair has a rate.
func (q *QP) rateWait(now Time) Time {
	_, wait := q.rate.allow(q.mtu(), now)
	return wait
}

// allowed returns n, or how many packets may be sent before the requester or the responder looks
// at the rate again. It is called after one that may go on. The queue pair has a rate.
func (q *QP) allowed(n uint32, now Time) uint32 {
	packets, _ := q.rate.allow(q.mtu(), now)
	return min(n, uint32(max(packets, 1)))
}

// countRate counts data against the rate.
func (q *QP) countRate(packets uint32, bytes int) {
	q.rate.count(bytes + int(packets)*wire.BTHLen)
}

// ackEvery returns after how many bytes, n at most, the requester wants an acknowledgement. At a
// low rate it wants one earlier, because the peer's answer must come before the local ACK timeout.
func (q *QP) ackEvery(n int) int {
	if q.rate.rate == 0 {
		return n
	}
	return min(n, int(q.rate.rate*int64(paceQuantum)/second))
}

// responsesAllowed returns how many of n packets of READ responses may be sent now. If none, it
// sets the time to go on.
func (r *responder) responsesAllowed(q *QP, n int, now Time) int {
	if q.rate.rate == 0 {
		return n
	}
	packets, wait := q.rate.allow(q.mtu(), now)
	if packets == 0 {
		r.pace.until = now + wait
	}
	return min(n, packets)
}

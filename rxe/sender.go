package rxe

import "github.com/gorxe/gorxe/wire"

// sender is the position of a QP's sending side. Four roles share it by name:
//
//   - the send queue (sendqueue.go) holds the work requests;
//   - the requester (requester.go) moves cur and psn forward;
//   - the completer (completer.go) moves una forward, and cur and psn back;
//   - the timers (timer.go) wake the requester at the four deadlines.
//
// The PSNs are in order: una <= psn <= limit. Packets from una up to psn are
// outstanding. Packets from psn up to limit were sent before and will be sent
// again.
type sender struct {
	una   wire.PSN // the oldest that has not been answered
	psn   wire.PSN // of the next packet
	limit wire.PSN // one past the highest PSN ever sent
	cur   uint32   // index of the work request that psn belongs to

	window    int32  // packets outstanding at most, adapted to loss
	maxWindow int32  // what window grows to while nothing is lost
	readChunk uint32 // packets that one READ request asks for at most

	retransmitAt Time // the local ACK timeout expires; 0: never
	rnrUntil     Time // the requester waits after an RNR NAK; 0: it does not
	pausedUntil  Time // the requester waits (flow.go, pacing_ecn.go); 0: it does not
	// the oldest work request, which is done, completes (WorkFault); 0: there is none such
	completeAt Time

	reads readRing // READs and atomics outstanding
}

// start sizes the window when the QP enters RTS.
func (s *sender) start(mtu int) {
	mtu = max(mtu, int(minMTU))
	s.maxWindow = int32(min(windowBytes/mtu, windowPackets))
	s.readChunk = uint32(roundToBursts(int(s.maxWindow)/readChunks, mtu))
	if s.window == 0 {
		s.window = s.maxWindow
	}
}

// shrink reacts to a loss.
func (s *sender) shrink() { s.window = max(s.window/2, minWindow) }

// grow reacts to n acknowledgements.
func (s *sender) grow(n uint32) {
	for ; n > 0 && s.window < s.maxWindow; n-- {
		s.window = min(s.window+1+s.window/windowGrowth, s.maxWindow)
	}
}

// clearDeadlines turns the sending side's deadlines off.
func (s *sender) clearDeadlines() {
	s.retransmitAt, s.rnrUntil, s.pausedUntil, s.completeAt = 0, 0, 0, 0
}

// abandonRequests forgets the requester's position: the send queue is empty.
func (q *QP) abandonRequests() {
	s := &q.send
	s.cur = q.sq.prod
	s.psn = s.limit
	s.reads.n = 0
	q.req.sinceAckReq = 0
}

// readRing holds the PSN ranges of the outstanding requests that use one of the
// responder's resources (max_rd_atomic), oldest first.
type readRing struct {
	ring []psnRange // its length is a power of two
	head uint32
	n    int
}

type psnRange struct{ first, last wire.PSN }

func (r *readRing) push(p psnRange) {
	if r.n == len(r.ring) {
		r.grow()
	}
	*r.at(r.n) = p
	r.n++
}

// at returns entry i, of those that there are room for; 0 is the oldest.
func (r *readRing) at(i int) *psnRange { return &r.ring[(int(r.head)+i)&(len(r.ring)-1)] }

// grow doubles the room.
func (r *readRing) grow() {
	ring := make([]psnRange, max(2*len(r.ring), readRingMin))
	for i := range r.n {
		ring[i] = *r.at(i)
	}
	r.ring, r.head = ring, 0
}

// release drops the ranges that end before una.
func (r *readRing) release(una wire.PSN) {
	for r.n > 0 && r.at(0).last.Less(una) {
		r.head++
		r.n--
	}
}

// revoke drops the ranges that the requester will ask for again, from psn on.
func (r *readRing) revoke(psn wire.PSN) {
	for r.n > 0 && !r.at(r.n-1).last.Less(psn) {
		r.n--
	}
}

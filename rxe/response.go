package rxe

import (
	"math"

	"github.com/gorxe/gorxe/wire"
)

// Responses wait in PSN order. Only READ responses delay others. They are sent in
// quanta, with pauses that grow when the peer asks for the same data again, so that
// a peer with small buffers is not overrun (pacing_read.go). A request that changes
// memory waits until all earlier READs are answered (responder_defer.go).

type responseKind uint8

const (
	respondRead   responseKind = iota // READ responses
	respondAtomic                     // ATOMIC ACKNOWLEDGE
	respondEmpty                      // a READ response without data: ATOMIC WRITE, FLUSH
	respondAck                        // ACKNOWLEDGE: NAKs, and ACKs that are due
	respondEnd                        // the QP fails: a NAK, if the fault has one
)

// response is the answer to one request.
type response struct {
	kind     responseKind
	syndrome wire.Syndrome // of respondAck
	fault    fault         // of respondEnd
	replay   bool          // a READ that the peer has asked for again
	began    bool          // READ: the FIRST has been sent
	psn      wire.PSN      // PSN of the next packet
	msn      wire.MSN
	rkey     wire.RKey
	left     uint32 // READ: bytes to be sent
	total    uint32 // READ: bytes in all
	va       uint64 // READ: address of the next byte
	pd       *PD    // READ: of rkey
	orig     uint64 // atomics: the value before
	asked    Time   // replay: when the peer asked last
}

// restart goes back to the first packet of a READ.
func (resp *response) restart(mtu int) {
	if resp.kind != respondRead || !resp.began {
		return
	}
	sent := resp.total - resp.left
	// only whole packets: the last one would have ended it
	resp.psn = resp.psn.Sub(sent / uint32(mtu))
	resp.va -= uint64(sent)
	resp.left, resp.began = resp.total, false
}

// respond queues a response in PSN order. Responses that it overtakes start again,
// because the peer accepts nothing out of order.
func (r *responder) respond(q *QP, resp response) {
	at := len(r.queue)
	for at > 0 && resp.psn.Less(r.queue[at-1].psn) {
		at--
		r.queue[at].restart(q.mtu())
	}
	r.queue = append(r.queue, response{})
	copy(r.queue[at+1:], r.queue[at:])
	r.queue[at] = resp
}

// cancelNAK removes a NAK that has not been sent: the missing packet has arrived.
func (r *responder) cancelNAK() {
	if n := len(r.queue); n > 0 && r.queue[n-1].kind == respondAck {
		r.queue = r.queue[:n-1]
	}
}

func (r *responder) pop() {
	n := copy(r.queue, r.queue[1:])
	r.queue = r.queue[:n]
}

// emitSmall sends responses up to the first READ.
func (r *responder) emitSmall(q *QP, st *step) {
	if len(r.queue) > 0 {
		r.held.release(q, st)
	}
	for len(r.queue) > 0 && r.queue[0].kind != respondRead {
		r.emitFirst(q, st)
	}
}

// emitFirst sends the first response, which is of one packet.
func (r *responder) emitFirst(q *QP, st *step) {
	if resp := r.queue[0]; resp.kind == respondEnd {
		r.terminate(q, resp.fault, resp.psn, resp.msn, st)
		return
	}
	r.queue[0].emit(q, st)
	r.pop()
}

// sendResponses sends what waits. It stops when pacing demands a pause, or when this
// step has sent its share of READ responses: the clock's thread then goes on.
func (r *responder) sendResponses(q *QP, st *step) {
	if len(r.queue) == 0 {
		return
	}
	for len(r.queue) > 0 && r.pace.until == 0 {
		r.flushPayload(q, st)
		if q.attr.State == QPErr {
			return
		}
		budget := min(r.pace.quantum(q.mtu()), st.readData/q.mtu())
		if r.emitSmall(q, st); len(r.queue) > 0 && budget <= 0 {
			r.pace.until = st.now + 1 // later than what is due now, so that others have their turn
			return
		}
		if len(r.queue) > 0 {
			if budget = r.responsesAllowed(q, budget, st.now); budget == 0 {
				return
			}
		}
		r.emitQuantum(q, st, r.wholeReads(q, budget))
		r.pace.quantumSent(st.now)
		next := st.now + r.pace.pause
		if st.now = q.dev.cfg.Clock.Now(); len(r.queue) > 0 && next > st.now {
			r.pace.until = next
		}
	}
	if len(r.queue) == 0 && q.attr.State != QPErr {
		r.emitACK(q, st)
	}
}

// emitQuantum sends responses with up to budget packets of data.
func (r *responder) emitQuantum(q *QP, st *step, budget int) {
	for len(r.queue) > 0 && budget > 0 {
		resp := &r.queue[0]
		if resp.kind != respondRead {
			r.emitFirst(q, st)
			continue
		}
		n, err := q.gather(r, uint32(budget), math.MaxInt, st)
		if err != nil && resp.replay {
			// The key has been revoked since. A packet that the network delayed
			// for that long must not end the connection.
			r.dropStale(q)
			r.pop()
		} else if err != nil {
			// Later requests were executed, but the peer takes the NAK for the
			// end (IBA 9.7.5.2.8).
			f := faultRemoteAccess.inMemory(err)
			f.count(&q.dev.counters)
			r.terminate(q, f, resp.psn, resp.msn, st)
			return
		}
		budget -= int(n)
	}
}

// wholeReads returns budget, or as many packets as let a READ end with it. Without that, the fourth
// READ of 64 KiB would be divided for four packets, and would need two calls.
func (r *responder) wholeReads(q *QP, budget int) int {
	if r.pace.limit > 0 || q.rate.limited() {
		return budget
	}
	burst := packetsInBurst(q.mtu())
	if q.peerIsLocal() {
		burst = min(groupBytes/q.mtu(), groupPackets)
	}
	packets := 0
	for i := range r.queue {
		if packets >= budget {
			break
		}
		packets += int(readPackets(r.queue[i].left, q.mtu()))
	}
	if packets < budget+burst {
		return max(budget, packets)
	}
	return budget
}

// emitACK sends the acknowledgement that is owed, once no response is before it. It
// names the last packet that came in order, and so acknowledges all of them (IBA
// 9.7.5.1.2).
func (r *responder) emitACK(q *QP, st *step) {
	if !r.ack.owed || len(r.queue) > 0 {
		return
	}
	resp := response{kind: respondAck, psn: r.psn.Sub(1), msn: r.msn, syndrome: wire.SyndromeACK}
	if r.ack.dup {
		resp.psn = r.ack.psn
	} else if r.held.hold(q, &resp, st.now) {
		r.ack = acking{}
		return
	}
	r.ack = acking{}
	r.held.leftAlone(st.now)
	resp.emit(q, st)
}

// emit sends a response of one packet.
func (resp *response) emit(q *QP, st *step) {
	h := resp.headers(q, q.opcode(wire.RCAck))
	switch resp.kind {
	case respondAtomic:
		h.Opcode, h.AtomicOrig = q.opcode(wire.RCAtomicAck), resp.orig
	case respondEmpty:
		h.Opcode = q.opcode(wire.RCReadResponseOnly)
	default:
		h.Syndrome = resp.syndrome
	}
	h.Put(st.packet(q.route, h.Len(), h.Len()))
	q.countSent(1, 0, st)
	st.countSent(h.Opcode, 1)
}

func (resp *response) headers(q *QP, op wire.Opcode) wire.Headers {
	return wire.Headers{Opcode: op, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: resp.psn, Syndrome: wire.SyndromeACK, MSN: resp.msn}
}

// fill implements role.
func (r *responder) fill(q *QP, i int, m *message) {
	resp := &r.queue[i]
	*m = message{
		h: resp.headers(q, 0), ops: &q.facts.answers, route: q.route, mtu: q.mtu(),
		packets: readPackets(resp.left, q.mtu()), size: int(resp.left), begins: !resp.began, ends: true,
		alone: resp.began || resp.replay, reads: true, rkey: resp.rkey, va: resp.va, pd: resp.pd,
	}
}

// joins implements role.
func (r *responder) joins(_ *QP, i int) (size uint32, ok bool) {
	if i >= len(r.queue) {
		return 0, false
	}
	resp := &r.queue[i]
	return resp.left, resp.kind == respondRead && !resp.began && !resp.replay
}

// sent implements role.
func (r *responder) sent(q *QP, packets uint32, st *step) uint32 {
	resp := &r.queue[0]
	n := min(packets, readPackets(resp.left, q.mtu()))
	size, begins := min(int(resp.left), int(n)*q.mtu()), !resp.began
	if begins {
		r.pace.begin(resp.psn, st.now)
	}
	resp.advance(n, size)
	st.readData -= size
	q.countSent(n, size, st)
	st.sent.addMessage(&q.facts.answers, begins, resp.left == 0, n, &q.dev.opcodes.sent)
	if resp.left == 0 {
		if !resp.replay {
			r.pace.faster()
		}
		r.pop()
	}
	return n
}

// advance moves on by n packets of size bytes in all.
func (resp *response) advance(n uint32, size int) {
	resp.began = true
	resp.psn = resp.psn.Add(n)
	resp.va += uint64(size)
	resp.left -= uint32(size)
}

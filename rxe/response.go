package rxe

import "github.com/gorxe/gorxe/wire"

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
	orig     uint64 // atomics: the value before
	asked    Time   // replay: when the peer asked last
}

// restart goes back to the first packet of a READ.
func (resp *response) restart(mtu int) {
	if resp.kind != respondRead || !resp.began {
		return
	}
	sent := resp.total - resp.left
	resp.psn = resp.psn.Sub(sent / uint32(mtu)) // only whole packets: the last one would have ended it
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
func (r *responder) emitSmall(q *QP, o *outbox) {
	if len(r.queue) > 0 {
		r.held.release(q, o)
	}
	for len(r.queue) > 0 && r.queue[0].kind != respondRead {
		r.emitFirst(q, o)
	}
}

// emitFirst sends the first response, which is of one packet.
func (r *responder) emitFirst(q *QP, o *outbox) {
	if resp := r.queue[0]; resp.kind == respondEnd {
		r.terminate(q, resp.fault, resp.psn, resp.msn, o)
		return
	}
	r.queue[0].emit(q, o)
	r.pop()
}

// sendResponses sends what waits. It stops when pacing demands a pause, or when this
// step has sent its share of READ responses: the clock's thread then goes on.
func (r *responder) sendResponses(q *QP, o *outbox) {
	if len(r.queue) == 0 {
		return
	}
	for len(r.queue) > 0 && r.pace.until == 0 {
		r.flushPayload(q, o)
		if q.attr.State == QPErr {
			return
		}
		budget := min(r.pace.quantum(q.mtu()), o.readData/q.mtu())
		if r.emitSmall(q, o); len(r.queue) > 0 && budget <= 0 {
			r.pace.until = o.now + 1 // later than what is due now, so that others have their turn
			return
		}
		if len(r.queue) > 0 {
			if budget = r.responsesAllowed(q, budget, o.now); budget == 0 {
				return
			}
		}
		r.emitQuantum(q, o, r.wholeReads(q, budget))
		r.pace.quantumSent(o.now)
		next := o.now + r.pace.pause
		if o.now = q.dev.cfg.Clock.Now(); len(r.queue) > 0 && next > o.now {
			r.pace.until = next
		}
	}
	if len(r.queue) == 0 && q.attr.State != QPErr {
		r.emitACK(q, o)
	}
}

// emitQuantum sends responses with up to budget packets of data.
func (r *responder) emitQuantum(q *QP, o *outbox, budget int) {
	o.reads.forget()
	o.answered = 0
	for len(r.queue) > 0 && budget > 0 {
		if n := r.emitSeveral(q, budget, o); n > 0 {
			budget -= n
			continue
		}
		resp := &r.queue[0]
		if resp.kind != respondRead {
			r.emitFirst(q, o)
			continue
		}
		for done := false; !done && budget > 0; {
			if !resp.began {
				r.pace.begin(resp.psn, o.now)
				if q.dev.cfg.CostlyMemory {
					r.gatherReads(q, budget, o)
				}
			}
			n, f := resp.emitRead(q, budget, o)
			if f != faultNone && resp.replay {
				// The key has been revoked since. A packet that the network delayed
				// for that long must not end the connection.
				r.dropStale(q)
				resp.left = 0
				break
			}
			if f != faultNone {
				// Later requests were executed, but the peer takes the NAK for the
				// end (IBA 9.7.5.2.8).
				f.count(&q.dev.counters)
				r.terminate(q, f, resp.psn, resp.msn, o)
				return
			}
			budget -= n
			done = resp.left == 0
		}
		if resp.left == 0 {
			if !resp.replay {
				r.pace.faster()
			}
			r.pop()
			o.answered++
		}
	}
}

// emitACK sends the acknowledgement that is owed, once no response is before it. It
// names the last packet that came in order, and so acknowledges all of them (IBA
// 9.7.5.1.2).
func (r *responder) emitACK(q *QP, o *outbox) {
	if !r.ack.owed || len(r.queue) > 0 {
		return
	}
	resp := response{kind: respondAck, psn: r.psn.Sub(1), msn: r.msn, syndrome: wire.SyndromeACK}
	if r.ack.dup {
		resp.psn = r.ack.psn
	} else if r.held.hold(q, &resp, o.now) {
		r.ack = acking{}
		return
	}
	r.ack = acking{}
	r.held.leftAlone(o.now)
	resp.emit(q, o)
}

// emit sends a response of one packet.
func (resp *response) emit(q *QP, o *outbox) {
	h := resp.headers(q, wire.RCAck)
	switch resp.kind {
	case respondAtomic:
		h.Opcode, h.AtomicOrig = wire.RCAtomicAck, resp.orig
	case respondEmpty:
		h.Opcode = wire.RCReadResponseOnly
	default:
		h.Syndrome = resp.syndrome
	}
	h.Put(o.packet(q.route, h.Len(), h.Len()))
	q.countSent(1, 0, o)
	o.countSent(h.Opcode, 1)
}

func (resp *response) headers(q *QP, op wire.Opcode) wire.Headers {
	return wire.Headers{Opcode: op, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: resp.psn, Syndrome: wire.SyndromeACK, MSN: resp.msn}
}

// emitRead sends the next group of READ response packets, budget at most, and
// returns their number. If the data cannot be read it sends nothing and leaves resp
// unchanged.
func (resp *response) emitRead(q *QP, budget int, o *outbox) (n int, f fault) {
	mtu := q.mtu()
	size := int(min(resp.left, uint32(min(resp.gathered(q), budget)*mtu)))
	packets := readPackets(uint32(size), mtu)
	room := size + int(packets)*(responseBytes+wire.AETHLen) + wire.PadLen(size)
	ref, why := q.remoteAccess(resp.rkey, resp.va, uint64(size), AccessRemoteRead)
	if why != keyOK {
		return 0, faultRemoteAccess
	}
	begins := !resp.began
	var err error
	if packets > 1 && q.sendsSuperPackets() {
		err = resp.emitSuperPacket(q, ref, packets, size, o)
	} else {
		err = resp.emitPackets(q, ref, packets, room, o)
	}
	if err != nil {
		return 0, faultRemoteAccess.inMemory(err)
	}
	o.readData -= size
	q.countSent(packets, size, o)
	o.sent.addMessage(&readOps, begins, resp.left == 0, packets, &q.dev.opcodes.sent)
	return int(packets), faultNone
}

// gathered returns how many packets are gathered at once. For the network these are as many as fill a burst, and the first
// and last packet of the READ. They have an AETH, and so begin bursts of their own.
func (resp *response) gathered(q *QP) int {
	n := q.group(responseBytes)
	if q.peerIsLocal() {
		return n
	}
	if !resp.began {
		n++
	}
	if int(resp.left) <= (n+1)*q.mtu() {
		n++
	}
	return n
}

// emitPackets builds the next n READ response packets, which need room bytes.
func (resp *response) emitPackets(q *QP, ref regionRef, n uint32, room int, o *outbox) error {
	o.reserve(room, q.reservesWide(resp.total))
	before, mark := *resp, o.mark()
	h := resp.headers(q, 0)
	for range n {
		resp.readPacket(q, &h, &ref, o)
	}
	err := o.in.read()
	if err != nil {
		o.rewind(mark)
		*resp = before
	}
	return err
}

// readPacket builds one READ response whose payload is gathered later. The
// reference ref goes with the first piece.
func (resp *response) readPacket(q *QP, h *wire.Headers, ref *regionRef, o *outbox) {
	n := min(int(resp.left), q.mtu())
	h.Opcode = readOps.at(!resp.began, int(resp.left) == n)
	h.PSN, h.Pad = resp.psn, uint8(wire.PadLen(n))
	hl := h.Len()
	b := o.packet(q.route, hl, hl+n+int(h.Pad))
	h.Put(b)
	clear(b[hl+n:])
	if resp.takeReady(b[hl:hl+n], o) {
		ref.release()
		*ref = regionRef{}
	} else if n > 0 {
		o.in.add(*ref, b[hl:hl+n])
		*ref = regionRef{mem: ref.mem, va: ref.va + uint64(n)} // the first piece keeps the region in use
	}
	resp.advance(1, n)
}

// takeReady copies the next part of the data to b, if it was read ahead.
func (resp *response) takeReady(b []byte, o *outbox) bool {
	ready, ok := o.reads.payload(o.answered)
	if ok {
		copy(b, ready[resp.total-resp.left:])
	}
	return ok
}

// advance moves on by n packets of size bytes in all.
func (resp *response) advance(n uint32, size int) {
	resp.began = true
	resp.psn = resp.psn.Add(n)
	resp.va += uint64(size)
	resp.left -= uint32(size)
}

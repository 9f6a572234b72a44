package rxe

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Responses wait in PSN order. Only READ responses can make others wait: they
// are sent in portions, with pauses that grow when the peer asks for the same
// data again, so that a peer whose buffers are small is not overrun. A request
// that changes memory lets all earlier READs finish first.

const (
	readQuantumBytes   = 256 << 10 // READ responses per portion, at most
	readQuantumPackets = 1024      // likewise
	readQuantumMin     = 16        // packets in the smallest portion
	readPauseMin       = Time(20 * time.Microsecond)
	readPauseFirstMax  = Time(time.Millisecond) // at most after a first loss
	readPauseMax       = Time(5 * time.Millisecond)

	// Responses come faster after as many portions that nothing was lost of, and
	// after as long as the peer took to say that something was, or that long.
	speedUpQuanta   = 8
	speedUpDelayMax = Time(50 * time.Millisecond)

	// responseBytes is what a MIDDLE has besides payload and pad.
	responseBytes = wire.BTHLen + wire.ICRCLen
)

// readPacing is the size of the portions of READ responses, and the pause between
// them. A slow peer loses what comes behind the first packet that it has no room
// for, and asks again from there, which says how fast it is.
type readPacing struct {
	pause     Time // 0: no pause
	limit     int  // packets in a portion; 0: as many as may be
	quanta    int  // portions since the last change
	lossDelay Time // that the peer took to ask again
	changedAt Time // of the last change

	streamPSN   wire.PSN // the stream of responses that goes out, or went out last: its first
	streamStart Time     // and when that was sent
}

// quantum is how many packets go out at once.
func (p *readPacing) quantum(mtu int) int {
	most := roundToBursts(min(readQuantumBytes/mtu, readQuantumPackets), mtu)
	if p.limit > 0 {
		most = min(most, p.limit)
	}
	return most
}

func (p *readPacing) begin(psn wire.PSN, now Time) { p.streamPSN, p.streamStart = psn, now }

// slower is for a peer that asks again from psn on.
func (p *readPacing) slower(psn wire.PSN, now Time) {
	p.quanta, p.changedAt, p.lossDelay = 0, now, min(now-p.streamStart, speedUpDelayMax)
	least, most := max(4*p.pause, readPauseMin), min(8*p.pause, readPauseMax)
	if p.pause == 0 {
		most = readPauseFirstMax
	}
	if p.limit == 0 {
		p.limit = readQuantumPackets
	}
	p.pause = least
	p.limit = max(p.limit/2, readQuantumMin)
	if taken := int(psn.Diff(p.streamPSN)); taken > readQuantumMin && now > p.streamStart {
		p.limit = max(min(p.limit, taken/4), readQuantumMin)
		p.pause = max((now-p.streamStart)*Time(p.limit)/Time(taken), least/2)
	}
	p.pause = min(p.pause, most)
}

func (p *readPacing) faster() {
	if p.pause /= 2; p.pause < readPauseMin {
		p.pause, p.limit = 0, 0
	}
}

// quantumSent is that another portion went out, and nothing was asked for again.
func (p *readPacing) quantumSent(now Time) {
	if p.quanta++; p.quanta >= speedUpQuanta && now-p.changedAt > p.lossDelay {
		p.quanta, p.changedAt = 0, now
		p.faster()
	}
}

type responseKind uint8

const (
	respondRead   responseKind = iota // READ responses
	respondAtomic                     // ATOMIC ACKNOWLEDGE
	respondEmpty                      // a READ response without data: ATOMIC WRITE, FLUSH
	respondAck                        // ACKNOWLEDGE: the NAKs, and ACKs that are due
)

// response is what one request gets back.
type response struct {
	kind     responseKind
	syndrome wire.Syndrome // of respondAck
	replay   bool          // a READ that was asked for again
	began    bool          // READ: the FIRST is on its way
	psn      wire.PSN      // of the next packet
	msn      wire.MSN
	rkey     wire.RKey
	left     uint32 // READ: bytes to be sent
	total    uint32 // READ: bytes in all
	va       uint64 // READ: of the next byte
	orig     uint64 // atomics: what was there before
}

// restart goes back to the first packet of a READ.
func (resp *response) restart(mtu int) {
	if resp.kind != respondRead || !resp.began {
		return
	}
	sent := resp.total - resp.left
	resp.psn = resp.psn.Sub(sent / uint32(mtu)) // whole packets: the last one ends it
	resp.va -= uint64(sent)
	resp.left, resp.began = resp.total, false
}

// resource is a READ or atomic that may be asked for again (IBA 9.4.4, 9.4.5).
type resource struct {
	response // as it was before the first packet
	opcode   wire.Opcode
	last     wire.PSN
}

// resources are the latest of them.
type resources struct {
	ring []resource
	next int // the oldest, to be overwritten
	n    int
}

func (h *resources) clear() { h.next, h.n = 0, 0 }

func (h *resources) add(e resource) {
	if len(h.ring) == 0 {
		return
	}
	h.ring[h.next] = e
	h.next = (h.next + 1) % len(h.ring)
	h.n = min(h.n+1, len(h.ring))
}

// at returns the entry that i others are newer than.
func (h *resources) at(i int) *resource {
	return &h.ring[(h.next-1-i+2*len(h.ring))%len(h.ring)]
}

// find returns the newest entry that has psn, nil if there is none.
func (h *resources) find(psn wire.PSN, op wire.Opcode) *resource {
	for i := range h.n {
		if e := h.at(i); !psn.Less(e.psn) && !e.last.Less(psn) {
			if e.opcode == op {
				return e
			}
			return nil
		}
	}
	return nil
}

// before returns the last PSN at or after psn that an ACK may name without
// claiming that a READ or atomic was answered which the peer may still wait
// for; next is the PSN expected.
func (h *resources) before(psn, next wire.PSN) wire.PSN {
	limit := next
	for i := range h.n {
		if e := h.at(i); psn.Less(e.psn) && e.psn.Less(limit) {
			limit = e.psn
		}
	}
	return limit.Sub(1)
}

// resize makes room for max_dest_rd_atomic requests. A peer that rounds the
// number up to a power of two, as rdma_rxe does, must find room too.
func (r *responder) resize(_ *QP, maxDestRdAtomic int) {
	slots := 1
	for slots < maxDestRdAtomic+2 {
		slots *= 2
	}
	if slots == len(r.history.ring) {
		return
	}
	next := resources{ring: make([]resource, slots)}
	for i := min(r.history.n, slots) - 1; i >= 0; i-- {
		next.add(*r.history.at(i))
	}
	r.history = next
	queue := make([]response, len(r.queue), max(2*slots+1, len(r.queue)))
	copy(queue, r.queue)
	r.queue = queue
}

// resourcesFull says whether as many requests wait for their response as may: replays
// take at most half of the queue.
func (r *responder) resourcesFull(q *QP, o *outbox) bool {
	if len(r.queue) < 2*len(r.history.ring) {
		return false
	}
	if r.settle(q, o) {
		r.emitSmall(q, o)
	}
	return len(r.queue) >= 2*len(r.history.ring)
}

// queueRead accepts a READ; the data is read when its turn to be sent comes.
func (r *responder) queueRead(q *QP, pkt wire.Packet, o *outbox) fault {
	n := pkt.DMALen()
	if len(pkt.Payload()) != 0 || n > MaxMessage {
		return faultLength
	}
	ref, why := q.remoteAccess(pkt.RKey(), pkt.VA(), uint64(n), AccessRemoteRead)
	if why != keyOK {
		return faultRemoteAccess
	}
	ref.release()
	if !r.settle(q, o) {
		return faultRemoteAccess
	}
	packets := readPackets(n, q.mtu())
	resp := response{kind: respondRead, psn: pkt.PSN(), rkey: pkt.RKey(), va: pkt.VA(), left: n, total: n}
	r.psn = r.psn.Add(packets)
	r.msn = (r.msn + 1) & wire.MSNMask
	resp.msn = r.msn
	r.history.add(resource{response: resp, opcode: pkt.Opcode(), last: r.psn.Sub(1)})
	r.ack = acking{} // implied by the response
	r.respond(q, resp)
	return faultNone
}

// readPackets is how many responses a READ of n bytes has, one at least.
func readPackets(n uint32, mtu int) uint32 {
	if n == 0 {
		return 1
	}
	return (n-1)/uint32(mtu) + 1
}

// duplicateRequest handles a request from before the expected PSN: what changed
// something is not done again, only answered again (IBA 9.7.5.1; C9-105).
func (r *responder) duplicateRequest(q *QP, pkt wire.Packet, o *outbox) {
	q.dev.counters.DuplicateRequest.Add(1)
	q.stats.Duplicates.Add(1)
	if !r.settle(q, o) {
		return
	}
	switch info := pkt.Info(); {
	case info.Has(messageKind):
		if !r.ack.owed {
			r.ack = acking{dup: true, owed: true, psn: r.history.before(pkt.PSN(), r.psn)}
		} else if r.ack.dup {
			r.ack.psn = r.history.before(pkt.PSN(), r.psn)
		}
	case info.Has(wire.OpRead):
		r.replayRead(q, pkt, o.now)
	default:
		r.replay(q, pkt)
	}
}

// dropStale counts a duplicate that nothing is kept of; the peer gets no answer.
func (r *responder) dropStale(q *QP) {
	q.dev.counters.StaleRequest.Add(1)
	q.stats.Dropped.Add(1)
}

// replay answers an atomic again with the result that it had.
func (r *responder) replay(q *QP, pkt wire.Packet) {
	e := r.history.find(pkt.PSN(), pkt.Opcode())
	if e == nil || len(r.queue) >= len(r.history.ring) {
		r.dropStale(q)
		return
	}
	if r.waits(e.psn) {
		return // the first answer is not even sent
	}
	r.ack = acking{}
	r.respond(q, e.response)
}

// waits tells whether the response that begins at psn is still to be sent.
func (r *responder) waits(psn wire.PSN) bool {
	return slices.ContainsFunc(r.queue, func(resp response) bool {
		return resp.kind != respondAck && resp.psn == psn && !resp.began
	})
}

// replayRead answers a READ again, or the rest of it: the request must lie
// inside the one it repeats. The key is checked again when data is read.
func (r *responder) replayRead(q *QP, pkt wire.Packet, now Time) {
	e := r.history.find(pkt.PSN(), pkt.Opcode())
	if e == nil {
		r.dropStale(q)
		return
	}
	skip := uint64(pkt.PSN().Diff(e.psn)) * uint64(q.mtu())
	n := pkt.DMALen()
	inside := skip+uint64(n) <= uint64(e.total) && (n > 0 || e.total == 0)
	if !inside || len(pkt.Payload()) != 0 || (n > 0 && (pkt.RKey() != e.rkey || pkt.VA() != e.va+skip)) {
		r.dropStale(q)
		return
	}
	resp := e.response
	resp.psn, resp.va, resp.left, resp.total, resp.replay = pkt.PSN(), pkt.VA(), n, n, true
	r.ack = acking{}
	if r.pendingRead(q, &resp, e, now) {
		return
	}
	if len(r.queue) >= len(r.history.ring) {
		r.dropStale(q)
		return
	}
	r.pace.slower(resp.psn, now)
	r.respond(q, resp)
}

// pendingRead deals with a repeated READ whose responses are still being sent:
// what is to come anyway needs nothing, what was lost is sent again from there.
func (r *responder) pendingRead(q *QP, resp *response, e *resource, now Time) bool {
	for i := range r.queue {
		waiting := &r.queue[i]
		if waiting.kind != respondRead || waiting.psn.Less(e.psn) || e.last.Less(waiting.psn) {
			continue
		}
		if !resp.psn.Less(waiting.psn) && resp.left <= waiting.left {
			return true
		}
		*waiting = *resp
		r.pace.slower(resp.psn, now)
		for j := i + 1; j < len(r.queue); j++ {
			r.queue[j].restart(q.mtu())
		}
		return true
	}
	return false
}

// respond queues a response in PSN order. What it overtakes starts again: the
// peer takes nothing that comes before its turn.
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

// cancelNAK takes back a NAK that is not sent: what it asks for has come.
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
	for len(r.queue) > 0 && r.queue[0].kind != respondRead {
		r.queue[0].emit(q, o)
		r.pop()
	}
}

// drain sends all responses that wait, whatever the pace. It reports false if
// the QP failed.
func (r *responder) drain(q *QP, o *outbox) bool {
	for len(r.queue) > 0 {
		r.emitQuantum(q, o, MaxMessage)
	}
	return q.attr.State != QPErr
}

// resume sends the next portion of READ responses and returns when to call
// again; 0 is never.
func (r *responder) resume(q *QP, o *outbox, now Time) (next Time) {
	if len(r.queue) == 0 || !r.settle(q, o) {
		return 0
	}
	r.emitQuantum(q, o, r.pace.quantum(q.mtu()))
	r.pace.quantumSent(now)
	if len(r.queue) == 0 {
		r.emitACK(q, o)
		return 0
	}
	return max(now+r.pace.pause, 1)
}

// emitQuantum sends responses of up to budget packets of data.
func (r *responder) emitQuantum(q *QP, o *outbox, budget int) {
	for len(r.queue) > 0 && budget > 0 {
		resp := &r.queue[0]
		if resp.kind != respondRead {
			resp.emit(q, o)
			r.pop()
			continue
		}
		for done := false; !done && budget > 0; {
			if !resp.began {
				r.pace.begin(resp.psn, o.now)
			}
			n, f := resp.emitRead(q, budget, o)
			if f != faultNone && resp.replay {
				// The key was taken back since. A packet that the network
				// held back for that long must not end the connection.
				r.dropStale(q)
				resp.left = 0
				break
			}
			if f != faultNone {
				// What follows was executed, but the peer takes the NAK for
				// the end (IBA 9.7.5.2.8).
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
		}
	}
}

// emitACK sends the acknowledgement that is owed, once no response is before
// it: the last packet that came in order answers for all (IBA 9.7.5.1.2).
func (r *responder) emitACK(q *QP, o *outbox) {
	if !r.ack.owed || len(r.queue) > 0 {
		return
	}
	psn := r.psn.Sub(1)
	if r.ack.dup {
		psn = r.ack.psn
	}
	r.ack = acking{}
	resp := response{kind: respondAck, psn: psn, msn: r.msn, syndrome: wire.SyndromeACK}
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
	h.Put(o.packet(q.route, h.Len()))
	q.countSent(1, 0, o)
}

func (resp *response) headers(q *QP, op wire.Opcode) wire.Headers {
	return wire.Headers{Opcode: op, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: resp.psn, Syndrome: wire.SyndromeACK, MSN: resp.msn}
}

// emitRead sends the next group of READ response packets, budget at most, and
// returns how many they are. When the data cannot be read nothing is sent, and a is
// as before.
func (resp *response) emitRead(q *QP, budget int, o *outbox) (n int, f fault) {
	mtu := q.mtu()
	size := int(min(resp.left, uint32(min(q.group(responseBytes), budget)*mtu)))
	packets := readPackets(uint32(size), mtu)
	room := size + int(packets)*(responseBytes+wire.AETHLen) + 3
	ref, why := q.remoteAccess(resp.rkey, resp.va, uint64(size), AccessRemoteRead)
	if why != keyOK {
		return 0, faultRemoteAccess
	}
	var err error
	if packets > 1 && q.sendsSuperPackets() {
		err = resp.emitSuperPacket(q, ref, packets, size, o)
	} else {
		err = resp.emitPackets(q, ref, packets, room, o)
	}
	if err != nil {
		return 0, faultRemoteAccess.inMemory(err)
	}
	q.countSent(packets, size, o)
	return int(packets), faultNone
}

// emitPackets builds the next n READ response packets, which need room bytes.
func (resp *response) emitPackets(q *QP, ref regionRef, n uint32, room int, o *outbox) error {
	o.reserve(room)
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
// grant goes with the first piece.
func (resp *response) readPacket(q *QP, h *wire.Headers, ref *regionRef, o *outbox) {
	n := min(int(resp.left), q.mtu())
	h.Opcode = readOps.at(!resp.began, int(resp.left) == n)
	h.PSN, h.Pad = resp.psn, uint8(wire.PadLen(n))
	hl := h.Len()
	b := o.packet(q.route, hl+n+int(h.Pad))
	h.Put(b)
	clear(b[hl+n:])
	if n > 0 {
		o.in.add(*ref, b[hl:hl+n])
		*ref = regionRef{mem: ref.mem, va: ref.va + uint64(n)} // the region is held already
	}
	resp.advance(1, n)
}

// advance moves on by n packets of size bytes in all.
func (resp *response) advance(n uint32, size int) {
	resp.began = true
	resp.psn = resp.psn.Add(n)
	resp.va += uint64(size)
	resp.left -= uint32(size)
}

// hostWord is eight bytes of payload as the number that memory holds when they
// lie there in this order.
func hostWord(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

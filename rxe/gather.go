package rxe

import (
	"errors"
	"math"

	"github.com/gorxe/gorxe/wire"
)

// Payload leaves a program's memory here, and nowhere else. SENDs and WRITEs of the requester and
// READ responses of the responder are messages. A plan says how many of them are sent now, and
// where their bytes go:
//
//   - into packets in the outbox, or
//   - within a device, into items, each of which is a super-packet (superpacket.go).
//
// Headers are built first, and then one ReadV puts all payloads into their places. If a payload
// cannot be read, everything is taken back, and fewer messages are sent. So the message at fault is
// alone in the end, and fails in its turn.
//
// Several messages share a ReadV only if that takes a system call (Config.CostlyMemory).

// plan is what one ReadV reads.
type plan struct {
	messages int // how many
	// how many of each are sent at most; fewer than a message has only if it is alone
	packets uint32
	asItems bool
	items   [itemsAtOnce]*inboxItem

	// What the packets take up in the outbox, and which memory it should have: burstBytes within
	// the device, outboxBytes, or wideBytes.
	bytes, bursts, memory int
}

// role has messages to send: the requester, and the responder. Message 0 is the next one.
type role interface {
	// fill describes what is left of message i. For i > 0, m describes the message before it.
	fill(q *QP, i int, m *message)
	// joins returns the length of message i > 0, in bytes, if it can be sent together with those
	// before it.
	joins(q *QP, i int) (size uint32, ok bool)
	// sent notes that message 0 was sent, or so many packets of it. It returns how many.
	sent(q *QP, packets uint32, st *step) uint32
}

// errRefused is for a payload that a key does not allow to be read.
var errRefused = errors.New("a key does not allow it")

// gather sends the next messages of a role, with room packets at most. It may send more than one
// message while they have turn bytes. It returns how many packets were sent: none if the payload of
// the first message cannot be read.
func (q *QP) gather(r role, room uint32, turn int, st *step) (packets uint32, err error) {
	m := &st.message
	r.fill(q, 0, m)
	p := q.plan(r, m, room, turn, st)
	if !p.asItems {
		st.reserve(p.bytes, p.bursts, p.memory)
	}
	refused := q.refused
	for {
		var n int
		if n, err = q.read(r, &p, st); err == nil {
			break
		}
		if p.messages == 1 {
			return 0, err
		}
		q.refused = refused
		r.fill(q, 0, m)
		if p.messages = max(n, 1); p.messages == 1 {
			p.packets = m.part(m.packets, p.local())
		}
	}
	for _, item := range p.items[:p.numItems()] {
		q.dev.deliverSuperPacket(q.attr.DestQPN, item, st)
	}
	for range p.messages {
		packets += r.sent(q, p.packets, st)
	}
	return packets, nil
}

// local reports whether the packets stay within the device.
func (p *plan) local() bool { return p.memory == burstBytes }

func (p *plan) numItems() int {
	if p.asItems {
		return p.messages
	}
	return 0
}

// plan says what is sent, beginning with m.
func (q *QP) plan(r role, m *message, room uint32, turn int, st *step) plan {
	n := min(m.packets, room)
	local := q.typ == QPUD && q.dev.localGID(m.route.Dst) || q.typ != QPUD && q.peerIsLocal()
	p := plan{messages: 1, packets: n, memory: outboxBytes, asItems: n > 1 && local && q.sendsSuperPackets()}
	long := m.size > aheadMessage
	switch {
	case local:
		p.memory = burstBytes // one burst is delivered without a copy (deliverWhole)
	case long && q.reliable:
		// A UC queue pair looks at its inbox between two sends (flow.go), so it sends less at once.
		p.memory = wideBytes
	}
	if q.dev.cfg.CostlyMemory && !m.alone && n == m.packets && (!long || q.reliable) {
		p.add(q, r, m, room, turn, st)
	}
	if p.messages == 1 {
		p.packets = m.part(n, local)
		p.bytes, p.bursts = outboxRoom(p.packets, min(m.size, int(p.packets)*m.mtu))
	} else {
		p.packets = math.MaxUint32
	}
	return p
}

// add adds messages that follow m, as far as there is room. All are short, or all are long. Short
// ones do not wait for so many others, because their receiver would have less to do meanwhile.
func (p *plan) add(q *QP, r role, m *message, room uint32, turn int, st *step) {
	size, packets, most := m.size, m.packets, aheadMessages
	if p.asItems {
		most = itemsAtOnce
	}
	free, freeBursts := st.free(p.memory), maxBursts-len(st.bursts)
	super := p.asItems || p.local() && q.typ != QPUD && q.sendsSuperPackets()
	for n := 0; ; {
		bytes, bursts := outboxRoom(packets, size)
		switch fits := bytes <= free && bursts <= freeBursts; {
		case p.asItems:
			if packets > uint32(groupBytes/m.mtu) {
				return
			}
		case n == 0 && !fits: // reserve flushes
			if free, freeBursts = p.memory, maxBursts; bytes > free {
				return
			}
		case !fits:
			return
		}
		n, room, turn = n+1, room-packets, turn-size-int(packets)*wire.BTHLen
		free, freeBursts = free-bytes, freeBursts-bursts
		p.messages, p.bytes, p.bursts = n, p.bytes+bytes, p.bursts+bursts
		if n == most || turn <= 0 {
			return
		}
		next, joins := r.joins(q, n)
		size, packets = int(next), readPackets(next, m.mtu)
		if !joins || packets > room || (size > aheadMessage) != (m.size > aheadMessage) || super && (packets > 1) != p.asItems {
			return
		}
	}
}

// outboxRoom returns an upper bound on what packets take up in an outbox: bytes, and bursts. Each
// burst may begin behind a gap.
func outboxRoom(packets uint32, size int) (bytes, bursts int) {
	bursts = min(int(packets), messageBursts+int(packets)/burstPackets+size/burstBytes)
	return int(packets)*(maxHeader+wire.ICRCLen) + size + bursts*lineBytes, bursts
}

// read builds what p says, and reads the payloads. After an error nothing is left of it, and n
// messages may be sent without one.
func (q *QP) read(r role, p *plan, st *step) (n int, err error) {
	mark, m := st.mark(), &st.message
	for n < p.messages && err == nil {
		if n > 0 {
			st.in.endPart() // of one address space
			r.fill(q, n, m)
		}
		m.cut(p.packets)
		if err = p.build(q, n, m, st); err == nil {
			n++
		}
	}
	if err == nil {
		if err = st.in.read(); err == nil {
			return n, nil
		}
		n = 1
	}
	st.in.drop()
	st.rewind(mark)
	for i, item := range p.items {
		if item != nil {
			item.free()
			p.items[i] = nil
		}
	}
	return n, err
}

// build builds a message. Its payload is read later.
func (p *plan) build(q *QP, i int, m *message, st *step) error {
	ok := true
	if p.asItems {
		p.items[i], ok = m.superPacket(q, st)
	} else {
		ok = m.buildPackets(q, st)
	}
	if !ok {
		return errRefused
	}
	return nil
}

// message is consecutive packets of a SEND, a WRITE or a READ response.
type message struct {
	h       wire.Headers // of the next packet, except what depends on its place in the message
	ops     *messageOps
	route   *wire.Route
	mtu     int
	packets uint32
	size    int  // bytes
	begins  bool // the first packet begins the message
	ends    bool // the last packet ends it
	// solicits: its last packet asks for an event.
	solicits bool
	alone    bool // others are not sent together with it
	acks     ackPace

	// The payload is inline, or in the scatter/gather list, or what the peer's key names.
	inline []byte
	sgl    []SGE
	from   cursor
	reads  bool
	rkey   wire.RKey
	va     uint64
	pd     *PD // of rkey
}

// cut leaves n packets at most.
func (m *message) cut(n uint32) {
	if n < m.packets {
		m.packets, m.size, m.ends = n, int(n)*m.mtu, false
	}
}

// part returns how many of n packets are gathered at once. For the network these are as many as
// fill a burst. The first packet of a WRITE, and of a READ response, is longer than the next ones
// and begins a burst anyway. So it comes on top of these, and so does a last one that would be
// alone.
func (m *message) part(n uint32, local bool) uint32 {
	if local {
		return min(n, groupPackets, uint32(groupBytes/m.mtu))
	}
	burst := uint32(packetsInBurst(m.mtu))
	if m.begins && (m.reads || m.ops[opFirst].Info().RETH != 0) {
		burst++
	}
	if m.packets <= burst+1 {
		burst++
	}
	return min(n, burst)
}

// buildPackets builds the packets, except for their payload. It reports false if a key does not
// allow that to be read.
func (m *message) buildPackets(q *QP, st *step) bool {
	for i := range m.packets {
		size, ends := min(m.size, m.mtu), m.ends && i == m.packets-1
		h := &m.h
		h.Opcode, h.Pad = m.ops.at(m.begins && i == 0, ends), uint8(wire.PadLen(size))
		h.AckReq, h.Solicited = m.acks.next(ends, size), ends && m.solicits
		hl := h.Len()
		b := st.packet(m.route, hl, hl+size+int(h.Pad))
		h.Put(b)
		clear(b[hl+size:])
		if !m.cover(q, b[hl:hl+size], st) {
			return false
		}
		h.PSN = h.PSN.Next()
		m.size -= size
	}
	return true
}

// superPacket builds the super-packet of the message, except for its payload. It reports false if a
// key does not allow that to be read.
func (m *message) superPacket(q *QP, st *step) (item *inboxItem, ok bool) {
	f := superPacket{count: m.packets, mtu: m.mtu, ops: m.ops, acks: m.acks}
	h := &m.h
	h.Opcode, h.AckReq, h.Solicited = m.ops.at(m.begins, m.ends), false, m.ends && m.solicits
	left := m.size
	for i := range m.packets {
		size := min(left, m.mtu)
		h.AckReq = m.acks.next(m.ends && i == m.packets-1, size) || h.AckReq
		left -= size
	}
	item = newItem(superPacketBytes(m.size))
	item.beginSuperPacket(m.route, h, f, m.size)
	h.PSN = h.PSN.Add(m.packets)
	return item, m.cover(q, item.superPacketPayload(m.size), st)
}

// cover has the next len(b) bytes of the payload put into b. It reports false if a key does not
// allow that.
func (m *message) cover(q *QP, b []byte, st *step) bool {
	switch {
	case len(b) == 0:
		return true
	case m.inline != nil:
		m.inline = m.inline[copy(b, m.inline):]
		return true
	case !m.reads:
		return st.in.cover(q, m.sgl, &m.from, b, 0)
	}
	left := SGE{Addr: m.va, Length: uint32(m.size), LKey: wire.LKey(m.rkey)}
	m.va += uint64(len(b))
	return st.in.extend(uint32(m.rkey), left.Addr, b) || st.in.check(q, m.pd, left, b, AccessRemoteRead)
}

// placesTogether reports whether the payloads of several messages are written to memory with
// one call, and their completions follow it. Chaos places each payload at its own time.
func (q *QP) placesTogether() bool { return q.dev.cfg.CostlyMemory && q.chaos == nil }

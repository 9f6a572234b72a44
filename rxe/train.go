package rxe

import "github.com/gorxe/gorxe/wire"

// Between two QPs of one device a message need not be cut into packets.
// Consecutive packets of a message travel as a train: one packet with all their
// payload, as if the path MTU were that much larger, gathered from the sender's
// memory straight into the parcel that lies in the receiver's inbox, and
// scattered from there. PSNs, counters and acknowledgements go on by as many
// packets as it stands for.
//
// The receiver takes a train as a whole if nothing can be wrong with any packet
// of it. Else it cuts the train into the packets that it stands for, so that
// errors, retries and whatever is unusual have one implementation, that of
// packets. Single packets, acknowledgements among them, are never anything else;
// and with a tap, which wants to see packets, there are no trains.

// train is what a QP receives: a packet, or one that stands for n of them.
type train struct {
	wire.Packet
	n uint32
}

// trainForm is how a train is made, and so how it is cut.
type trainForm struct {
	n    uint32 // packets; 0: the parcel holds packets
	mtu  int    // of the sender
	ops  *messageOps
	acks ackPace // of the first packet
}

// messageOps is the BTH opcode by position in the message.
type messageOps [4]wire.Opcode

const (
	opFirst = iota
	opMiddle
	opLast
	opOnly
)

// at is the opcode of the packet that begins or ends the message.
func (m *messageOps) at(begins, ends bool) wire.Opcode {
	switch {
	case begins && ends:
		return m[opOnly]
	case begins:
		return m[opFirst]
	case ends:
		return m[opLast]
	default:
		return m[opMiddle]
	}
}

// groupBytes and groupPackets bound what is gathered and left for a QP of this
// device at once.
const (
	groupBytes   = 64 << 10
	groupPackets = 256
)

// group is how many full packets of a connected QP are gathered at once, each
// with up to head bytes besides its payload: for the network as many as one
// burst takes.
func (q *QP) group(head int) int {
	mtu := q.mtu()
	if q.local() {
		return min(groupBytes/mtu, groupPackets)
	}
	return perBurst(mtu, head)
}

// perBurst is how many full packets one burst takes, each with head bytes
// besides its payload.
func perBurst(mtu, head int) int { return min(burstBytes/(mtu+head), burstPackets) }

// wholeBursts is n packets of READ responses, or as many fewer as fill whole
// bursts.
func wholeBursts(n, mtu int) int {
	burst := perBurst(mtu, responseBytes)
	return n / burst * burst
}

// local says whether the peer of a connected QP is on this device.
func (q *QP) local() bool {
	if t := q.dev.gids.Load(); q.gids != t {
		q.gids, q.near = t, t.has(q.route.Dst)
	}
	return q.near
}

// straight says whether packets for the peer may be trains: it is on this
// device, and another QP, which takes nothing before this one is done.
func (q *QP) straight() bool {
	return q.dev.cfg.Tap == nil && q.local() && q.attr.DestQPN != q.qpn
}

// newTrain begins a train whose payload has n bytes, to be filled in.
func newTrain(r *wire.Route, h *wire.Headers, f trainForm, n int) (t *parcel, payload []byte) {
	h.Pad = uint8(wire.PadLen(n))
	hl := h.Len()
	size := hl + n + int(h.Pad)
	t = newParcel(size)
	t.from = datagramOn(r)
	t.form = f
	t.buf = t.buf[:size]
	h.Put(t.buf)
	clear(t.buf[hl+n:])
	return t, t.buf[hl : hl+n]
}

// leaveTrain puts a train into the inbox of the QP that it is for, behind what
// was sent before.
func (d *Device) leaveTrain(dest wire.QPN, t *parcel, o *outbox) {
	o.flush()
	if q := d.lookupQP(dest); q != nil {
		q.leave(t)
		return
	}
	d.counters.BadQPN.Add(uint64(t.count()))
	t.free()
}

// sendTrain leaves n packets of w, from packet number index on, for the peer.
// It reports false when the payload cannot be read.
func (q *QP) sendTrain(w *sendWQE, index, n uint32, o *outbox) bool {
	mtu := q.mtu()
	off := int(index) * mtu
	size := min(int(w.length)-off, int(n)*mtu)
	h := q.dataHeaders(w, index, n)
	f := trainForm{n: n, mtu: mtu, ops: q.messageOps(w.op), acks: q.ackPace()}
	acks := f.acks
	for i := range n {
		ends := index+i == w.packets-1
		h.AckReq = acks.next(ends, min(mtu, int(w.length)-off-int(i)*mtu)) || h.AckReq
	}
	t, payload := newTrain(q.route, &h, f, size)
	from := seek(w.sgl, uint32(off))
	if !q.payload(w, off, payload, &from, o) || o.in.read() != nil {
		o.in.drop()
		t.free()
		return false
	}
	q.req.noAck = acks.since
	q.dev.leaveTrain(h.DestQP, t, o)
	return true
}

// emitTrain leaves the next n packets of a READ response, size bytes in all,
// for the peer, unless the data cannot be read; the grant is used up.
func (a *response) emitTrain(q *QP, g grant, n uint32, size int, o *outbox) error {
	ends := int(a.left) == size
	h := a.headers(q, readOps.at(!a.began, ends))
	t, payload := newTrain(q.route, &h, trainForm{n: n, mtu: q.mtu(), ops: &readOps}, size)
	o.in.add(g, payload)
	if err := o.in.read(); err != nil {
		t.free()
		return err
	}
	a.advance(n, size)
	q.dev.leaveTrain(h.DestQP, t, o)
	return nil
}

// takeTrain handles a train as a whole, if it can be.
func (q *QP) takeTrain(l *parcel, o *outbox) bool {
	p, err := wire.Parse(l.buf)
	t := train{p, l.form.n}
	switch {
	case err != nil || l.form.mtu != q.mtu():
		return false
	case q.refusal(p, &l.from) != nil:
		return false
	case p.Info().Has(wire.OpRequest) && !q.resp.takes(q, t):
		return false
	case !p.Info().Has(wire.OpRequest) && !q.comp.takes(q, t):
		return false
	}
	q.dev.counters.RcvdPkts.Add(uint64(t.n))
	q.received(t, &l.from, o)
	return true
}

// takes says whether every packet of a request is in order.
func (r *responder) takes(q *QP, t train) bool {
	info := t.Info()
	if t.PSN() != r.psn || !r.inSequence(info) || !q.permits(t.Packet) {
		return false
	}
	n := uint64(len(t.Payload()))
	if info.Has(wire.OpSend) {
		if info.Has(wire.OpRecv) && r.takeRecv(q) != faultNone {
			return false
		}
		v := &r.recv
		return v.bytes+n <= MaxMessage && q.mayAccess(v.wqe.SGL, v.at, n, AccessLocalWrite)
	}
	w := r.writing(t)
	if w.total > MaxMessage || n > uint64(w.left) || info.Has(wire.OpEnd) != (n == uint64(w.left)) {
		return false
	}
	g, why := q.remoteAccess(w.rkey, w.va, uint64(w.left), AccessRemoteWrite)
	g.release()
	return why == keyOK && (!info.Has(wire.OpRecv) || r.takeRecv(q) == faultNone)
}

// takes says whether every packet of a READ response is in order.
func (c *completer) takes(q *QP, t train) bool {
	first, last := t.PSN(), t.PSN().Add(t.n-1)
	if first != c.una || last.Diff(q.req.limit) >= 0 {
		return false
	}
	w := c.oldest(q)
	if w == nil || w.op != WRRead || w.last.Less(last) {
		return false
	}
	index := uint32(first.Diff(w.first))
	return q.expectedData(w, index, t) &&
		q.mayAccess(w.sgl, seek(w.sgl, index*uint32(q.mtu())), uint64(len(t.Payload())), AccessLocalWrite)
}

// mayAccess checks n bytes of a list from the cursor on, all keys and ranges.
func (q *QP) mayAccess(sgl []SGE, at cursor, n uint64, need Access) bool {
	for n > 0 {
		rest, ok := at.rest(sgl)
		if !ok {
			return false
		}
		rest.Length = uint32(min(n, uint64(rest.Length)))
		g, why := q.localAccess(rest, need)
		g.release()
		if why != keyOK {
			return false
		}
		at.off += rest.Length
		n -= uint64(rest.Length)
	}
	return true
}

// cut makes the packets that a train stands for.
func (l *parcel) cut() *parcel {
	cut := newParcel(largeParcel)
	cut.from = l.from
	p, err := wire.Parse(l.buf)
	if err != nil {
		return cut // newTrain makes no such thing
	}
	f := &l.form
	data, acks := p.Payload(), f.acks
	begins, ends := p.Info().Has(wire.OpStart), p.Info().Has(wire.OpEnd)
	for i := range f.n {
		last := i == f.n-1
		size := min(f.mtu, len(data))
		h := p.Headers()
		h.Opcode = f.ops.at(begins && i == 0, ends && last)
		h.PSN = h.PSN.Add(i)
		h.Pad = uint8(wire.PadLen(size))
		h.Solicited = h.Solicited && last
		h.AckReq = acks.next(ends && last, size)
		cut.buf = h.Append(cut.buf)
		cut.buf = append(cut.buf, data[:size]...)
		cut.buf = append(cut.buf, make([]byte, h.Pad)...)
		cut.ends = append(cut.ends, int32(len(cut.buf)))
		data = data[size:]
	}
	return cut
}

package rxe

import "github.com/gorxe/gorxe/wire"

// Between two QPs of one device a message need not be cut into packets. Consecutive
// packets of a message travel as a super-packet, as GSO does it with UDP: one
// packet with all their payload, as if the path MTU were that much larger. The
// payload is gathered from the sender's memory straight into the receiver's inbox,
// and scattered from there. PSNs, counters and acknowledgements advance by as many
// packets as it stands for.
//
// The receiver takes a super-packet whole if nothing can be wrong with any of its
// packets. Otherwise it segments it first, so that errors and retries have one
// implementation, that of packets. Single packets, acknowledgements among them, are
// never super-packets. With a tap or an interceptor, both of which want
// packets, there are none.

// packet is what a QP receives: a plain packet, or a super-packet that stands for
// count packets.
type packet struct {
	wire.Packet
	count uint32
}

// superPacket says how a super-packet was made, and so how to segment it.
type superPacket struct {
	count uint32 // packets; 0: the item holds plain packets
	mtu   int    // of the sender
	ops   *messageOps
	acks  ackPace // of the first packet
}

// packetsInBurst returns how many full packets one burst takes.
func packetsInBurst(mtu int) int { return min(burstBytes/(mtu+responseBytes), burstPackets) }

// roundToBursts rounds n packets of READ responses down to whole bursts.
func roundToBursts(n, mtu int) int {
	burst := packetsInBurst(mtu)
	return n / burst * burst
}

// peerIsLocal reports whether the peer of a connected QP is on this device.
func (q *QP) peerIsLocal() bool {
	if t := q.dev.gids.Load(); q.peerGIDs != t {
		q.peerGIDs, q.peerLocal = t, t.has(q.route.Dst)
	}
	return q.peerLocal
}

// sendsSuperPackets reports whether packets for the peer may be super-packets. The
// peer must be another QP of this device, so that it receives nothing before this
// one is unlocked.
func (q *QP) sendsSuperPackets() bool {
	return !q.dev.tapped() && q.peerIsLocal() && q.attr.DestQPN != q.qpn && !q.intercepted()
}

// The headers of a super-packet end where the first line of an item's memory ends, and the payload
// begins there (align.go).
const superPacketHead = lineBytes

// superPacketBytes is the memory for a super-packet with n bytes of payload.
func superPacketBytes(n int) int { return superPacketHead + n + wire.PadLen(n) }

// superPacketPayload is where n bytes of payload are in an item, which has room for them.
func (item *inboxItem) superPacketPayload(n int) []byte {
	return item.store[superPacketHead : superPacketHead+n : superPacketHead+n]
}

// beginSuperPacket writes the headers of a super-packet with n bytes of payload.
func (item *inboxItem) beginSuperPacket(r *wire.Route, h *wire.Headers, f superPacket, n int) {
	h.Pad = uint8(wire.PadLen(n))
	item.from = datagramFor(r)
	item.super = f
	item.buf = item.store[superPacketHead-h.Len() : superPacketBytes(n)]
	h.Put(item.buf)
	clear(item.store[superPacketHead+n : superPacketBytes(n)])
}

// deliverSuperPacket puts a super-packet into the inbox of its QP, behind what was
// sent before.
func (d *Device) deliverSuperPacket(dest wire.QPN, item *inboxItem, st *step) {
	st.flush()
	d.enqueueLocal(dest, item)
}

// receiveSuperPacket handles a super-packet whole. It reports false when that is
// not possible.
func (q *QP) receiveSuperPacket(item *inboxItem, st *step) bool {
	whole, err := wire.Parse(item.buf)
	pkt := packet{whole, item.super.count}
	switch {
	case err != nil || item.super.mtu != q.mtu():
		return false
	case q.refusal(whole, &item.from) != nil:
		return false
	case pkt.Info().Has(wire.OpRequest) && !q.resp.acceptsWhole(q, pkt, st):
		return false
	case !pkt.Info().Has(wire.OpRequest) && !q.comp.acceptsWhole(q, pkt):
		return false
	}
	q.dev.counters.RcvdPkts.Add(uint64(pkt.count))
	st.rcvd.addMessage(item.super.ops, pkt.Info().Has(wire.OpStart), pkt.Info().Has(wire.OpEnd), pkt.count, &q.dev.opcodes.rcvd)
	q.received(pkt, &item.from, st)
	return true
}

// acceptsWhole reports whether every packet of a request is in order.
func (r *responder) acceptsWhole(q *QP, pkt packet, st *step) bool {
	info := pkt.Info()
	if pkt.PSN() != r.psn || !r.checkOpSeq(info) || !q.checkOpValid(pkt.Packet) {
		return false
	}
	if info.Has(wire.HasXRCETH) && r.chooseSRQ(q, pkt.Packet, st) != faultNone {
		return false
	}
	n := uint64(len(pkt.Payload()))
	if info.Has(wire.OpSend) {
		if info.Has(wire.OpRecv) && r.getRecvWQE(q) != faultNone {
			return false
		}
		recv := &r.recv
		return recv.bytes+n <= q.maxMessage && q.mayAccess(q.recvPD(), recv.wqe.SGL, recv.at, n, AccessLocalWrite)
	}
	w := r.inboundWrite(pkt)
	if uint64(w.total) > q.maxMessage || n > uint64(w.left) || info.Has(wire.OpEnd) != (n == uint64(w.left)) {
		return false
	}
	ref, why := q.remoteAccess(q.pd, w.rkey, w.va, uint64(w.left), AccessRemoteWrite)
	ref.release()
	return why == keyOK && (!info.Has(wire.OpRecv) || r.getRecvWQE(q) == faultNone)
}

// acceptsWhole reports whether every packet of a READ response is in order.
func (c *completer) acceptsWhole(q *QP, pkt packet) bool {
	first, last := pkt.PSN(), pkt.PSN().Add(pkt.count-1)
	if first != q.send.una || last.Diff(q.send.limit) >= 0 {
		return false
	}
	wqe := c.oldest(q)
	if wqe == nil || wqe.op != WRRead || wqe.last.Less(last) {
		return false
	}
	index := uint32(first.Diff(wqe.first))
	return q.expectedData(wqe, index, pkt) &&
		q.mayAccess(q.pd, wqe.sgl, seek(wqe.sgl, index*uint32(q.mtu())), uint64(len(pkt.Payload())), AccessLocalWrite)
}

// mayAccess checks keys and ranges of n bytes of a list, from the cursor on. For pd see
// localAccess.
func (q *QP) mayAccess(pd *PD, sgl []SGE, at cursor, n uint64, need Access) bool {
	for n > 0 {
		rest, ok := at.rest(sgl)
		if !ok {
			return false
		}
		rest.Length = uint32(min(n, uint64(rest.Length)))
		ref, why := q.localAccess(pd, rest, need)
		ref.release()
		if why != keyOK {
			return false
		}
		at.off += rest.Length
		n -= uint64(rest.Length)
	}
	return true
}

// segment makes the packets that a super-packet stands for.
func (item *inboxItem) segment() *inboxItem {
	cut := newItem(largeItemBytes)
	cut.from = item.from
	pkt, err := wire.Parse(item.buf)
	if err != nil {
		return cut // message.superPacket makes none that does not parse
	}
	f := &item.super
	data, acks := pkt.Payload(), f.acks
	begins, ends := pkt.Info().Has(wire.OpStart), pkt.Info().Has(wire.OpEnd)
	for i := range f.count {
		last := i == f.count-1
		size := min(f.mtu, len(data))
		h := pkt.Headers()
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

package rxe

import "github.com/gorxe/gorxe/wire"

// Several long messages to another device leave with one system call (wideBytes). So their payloads are read with one call, too. The
// packets of all of them are built before that, each with the place for its payload.

// severalRoom returns the room for several long messages without a flush.
func (o *outbox) severalRoom() int {
	if o.wide() && len(o.bursts) > 0 {
		return severalBytes - len(o.buf)
	}
	return severalBytes
}

// sendSeveral sends the requester's next messages if they are long, and have no more than room packets. It reports false, and sends nothing, if
// there is just one, or if a payload cannot be read. The requester then sends the first of them by itself.
func (q *QP) sendSeveral(room uint32, o *outbox) bool {
	n, size := q.several(room, o)
	if n < 2 {
		return false
	}
	o.reserve(size, true)
	mark, refused := o.mark(), q.refused
	psn, acks := q.send.psn, q.ackPace()
	built := true
	for i := uint32(0); i < n && built; i++ {
		wqe := q.sq.at(q.send.cur + i)
		wqe.begin(psn, readPackets(wqe.length, q.mtu()))
		psn = psn.Add(wqe.packets)
		built = q.buildPackets(wqe, 0, wqe.packets, &acks, o)
	}
	if !built || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		for i := uint32(1); i < n; i++ {
			q.sq.at(q.send.cur + i).started = false
		}
		q.refused = refused
		return false
	}
	q.req.sinceAckReq = acks.since
	for range n {
		wqe := q.sq.at(q.send.cur)
		q.countMessage(wqe, 0, wqe.packets, o)
		q.advance(wqe, wqe.packets)
	}
	return true
}

// several returns how many messages sendSeveral may send, and how many bytes they take in the outbox.
func (q *QP) several(room uint32, o *outbox) (n uint32, size int) {
	if !q.dev.cfg.CostlyMemory || q.typ != QPRC || q.attr.State != QPRTS || q.peerIsLocal() || q.rate.limited() || q.chaos != nil ||
		q.send.psn != q.send.limit || q.sq.at(q.send.cur).first != q.send.psn {
		return 0, 0
	}
	free := o.severalRoom()
	for i := q.send.cur; i != q.sq.prod && n < severalMessages; i++ {
		wqe := q.sq.at(i)
		packets := readPackets(wqe.length, q.mtu())
		bytes := int(packets)*(maxHeader+wire.ICRCLen) + int(wqe.length) + groupBursts*lineBytes
		if n == 0 && bytes > free {
			free = severalBytes // reserve flushes
		}
		if !wqe.isLong() || wqe.fault != nil || packets > room || bytes > free ||
			i != q.send.cur && (wqe.started || wqe.flags&SendFence != 0) {
			break
		}
		n, size = n+1, size+bytes
		room, free = room-packets, free-bytes
	}
	return n, size
}

package rxe

// The requester also gathers long messages ahead for a queue pair of this device. Each payload goes straight into the
// item that will carry it, so it is not copied once more. One call for four messages takes a tenth less than a call for each.

// itemsAhead are items with the payloads of messages that a QP comes to next. It is part of an outbox, and belongs to one run of
// a requester.
type itemsAhead struct {
	first uint32 // the index of its work request in the send queue
	n     uint32
	items [longAhead]*inboxItem // nil if it was taken
}

// has reports whether the message with that index was gathered.
func (a *itemsAhead) has(index uint32) bool {
	i := index - a.first
	return i < a.n && a.items[i] != nil
}

// take returns the item of a message, nil if it was not gathered.
func (a *itemsAhead) take(index uint32) (item *inboxItem) {
	if a.has(index) {
		item, a.items[index-a.first] = a.items[index-a.first], nil
	}
	return item
}

// free gives back the items that were not taken.
func (a *itemsAhead) free() {
	for _, item := range a.items[:a.n] {
		if item != nil {
			item.free()
		}
	}
	a.n, a.items = 0, [longAhead]*inboxItem{}
}

// gatherLong fills o.long for the requester's next messages, if there are several, of no more than n packets. It stops before a
// message whose payload cannot be read: the requester finds out when it comes to that one.
func (q *QP) gatherLong(n uint32, o *outbox) {
	a := &o.long
	if a.has(q.send.cur) || q.sq.prod-q.send.cur < 2 {
		return
	}
	a.free()
	a.first = q.send.cur
	refused := q.refused
	sent := o.sinceYield
	for i := a.first; i != q.sq.prod && a.n < longAhead && sent < yieldBytes; i++ {
		wqe := q.sq.at(i)
		packets := readPackets(wqe.length, q.mtu())
		if !wqe.isLong() || packets > n || i != a.first && wqe.flags&SendFence != 0 {
			break
		}
		n, sent = n-packets, sent+int(wqe.length)
		item := newItem(superPacketBytes(int(wqe.length)))
		if ok, kept := o.in.coverMessage(q, wqe, item.superPacketPayload(int(wqe.length))); !ok {
			item.free()
			if !kept {
				a.free()
			}
			break
		}
		a.items[a.n] = item
		a.n++
	}
	q.refused = refused
	if a.n < 2 {
		o.in.drop()
		a.free()
	} else if o.in.read() != nil {
		a.free()
	}
}

// gatheredItem returns the item with the payload of n packets of wqe, nil if they were not gathered ahead.
func (q *QP) gatheredItem(wqe *sendEntry, n uint32, o *outbox) *inboxItem {
	if n != wqe.packets {
		return nil
	}
	return o.long.take(q.send.cur)
}

// isLong reports whether gatherLong reads the payload of a work request: one super-packet carries the message, which is too
// long for gatherAhead.
func (wqe *sendEntry) isLong() bool {
	return wqe.status == WCSuccess && !wqe.isLocalOp() && !wqe.needsResponse() && wqe.flags&SendInline == 0 &&
		wqe.length > aheadMessage && wqe.length <= groupBytes
}

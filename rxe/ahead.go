package rxe

// Reading the memory of another process takes a system call. So the requester gathers
// the payloads of several small messages with one call, before it sends the first of
// them (Config.GatherAhead). Each message then copies its own.

const (
	aheadMessages = 64
	aheadBytes    = 32 << 10 // of payload; more would not stay in the processor's cache
)

// ahead is the payload of work requests that the requester comes to next. It is part
// of an outbox, and belongs to one run of a requester.
type ahead struct {
	first uint32  // index of the first one in the send queue
	ends  []int32 // of each payload in buf
	buf   []byte
}

// forget ends the run.
func (a *ahead) forget() { a.ends = a.ends[:0] }

// payload returns the payload of a work request, by its index in the send queue.
func (a *ahead) payload(index uint32) (b []byte, ok bool) {
	i := index - a.first
	if i >= uint32(len(a.ends)) {
		return nil, false
	}
	from := int32(0)
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.buf[from:a.ends[i]], true
}

// gatherAhead fills o.ahead for the requester's next n messages or fewer, if there are
// several. It stops before a message whose payload cannot be read: the requester finds
// out when it comes to that one.
func (q *QP) gatherAhead(n uint32, o *outbox) {
	a := &o.ahead
	if _, ok := a.payload(q.send.cur); ok || min(n, q.sq.prod-q.send.cur) < 2 {
		return
	}
	if a.buf == nil {
		a.buf = make([]byte, aheadBytes)
	}
	a.first, a.ends = q.send.cur, a.ends[:0]
	refused, total := q.refused, 0
	for i := q.send.cur; i != q.sq.prod && len(a.ends) < int(min(n, aheadMessages)); i++ {
		wqe := q.sq.at(i)
		size := q.sizeAhead(wqe)
		if size < 0 || total+size > aheadBytes || i != a.first && wqe.flags&SendFence != 0 {
			break
		}
		from, pieces := cursor{}, len(o.in.spans)
		if size > 0 && !o.in.cover(q, wqe.sgl, &from, a.buf[total:total+size], 0) {
			if len(o.in.spans) < pieces { // there were two address spaces
				a.forget()
			}
			o.in.spans = o.in.spans[:min(pieces, len(o.in.spans))]
			break
		}
		total += size
		a.ends = append(a.ends, int32(total))
	}
	q.refused = refused
	if len(a.ends) < 2 {
		a.forget()
		o.in.drop()
	} else if o.in.read() != nil {
		a.forget()
	}
}

// sizeAhead returns how many bytes gatherAhead reads for a work request: none if they are
// inline. It is negative for one that takes another way, or more than one packet.
func (q *QP) sizeAhead(wqe *sendEntry) int {
	switch {
	case wqe.status != WCSuccess || wqe.isLocalOp() || wqe.needsResponse() || int(wqe.length) > q.payloadMTU():
		return -1
	case wqe.flags&SendInline != 0:
		return 0
	default:
		return int(wqe.length)
	}
}

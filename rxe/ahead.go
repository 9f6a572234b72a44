package rxe

// Reading the memory of another process takes a system call. So the requester gathers
// the payloads of several small messages with one call, before it sends the first of
// them (Config.CostlyMemory). The responder does so for the answers to several READs.
// Each message then copies its own.

// ahead is the payload of messages that a QP comes to next. It is part of an outbox, and
// belongs to one run of a requester, or to one quantum of a responder.
type ahead struct {
	first uint32  // number of the first one
	ends  []int32 // of each payload in buf
	buf   []byte
}

// forget ends the run.
func (a *ahead) forget() { a.ends = a.ends[:0] }

// begin makes the message with that number the first one.
func (a *ahead) begin(first uint32) {
	if a.buf == nil {
		a.buf = make([]byte, aheadBytes)
	}
	a.first, a.ends = first, a.ends[:0]
}

// used returns how many bytes of buf the payloads take.
func (a *ahead) used() int {
	if len(a.ends) == 0 {
		return 0
	}
	return lineUp(int(a.ends[len(a.ends)-1]))
}

// full reports whether there is no room for a payload of size bytes.
func (a *ahead) full(size int) bool {
	return len(a.ends) == aheadMessages || a.used()+size > aheadBytes
}

// add returns the place of the next payload.
func (a *ahead) add(size int) []byte {
	from := a.used()
	a.ends = append(a.ends, int32(from+size))
	return a.buf[from : from+size]
}

// gather reads the payloads into their places. It forgets them if that fails, and also if
// there is just one.
func (a *ahead) gather(in *spanBatch) {
	if len(a.ends) < 2 {
		a.forget()
		in.drop()
	} else if in.read() != nil {
		a.forget()
	}
}

// payload returns the payload of a message, by its number: the index of its work request
// in the send queue, or how many READs the responder answered before it.
func (a *ahead) payload(index uint32) (b []byte, ok bool) {
	i := index - a.first
	if i >= uint32(len(a.ends)) {
		return nil, false
	}
	from := 0
	if i > 0 {
		from = lineUp(int(a.ends[i-1]))
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
	a.begin(q.send.cur)
	refused := q.refused
	packets := uint32(0)
	for i := q.send.cur; i != q.sq.prod && packets < n; i++ {
		wqe := q.sq.at(i)
		size := q.sizeAhead(wqe)
		packets += readPackets(wqe.length, q.payloadMTU())
		if size < 0 || a.full(size) || i != a.first && wqe.flags&SendFence != 0 {
			break
		}
		b := a.add(size)
		if ok, kept := o.in.coverMessage(q, wqe, b); !ok {
			a.ends = a.ends[:len(a.ends)-1]
			if !kept {
				a.forget()
			}
			break
		}
	}
	q.refused = refused
	a.gather(&o.in)
}

// sizeAhead returns how many bytes gatherAhead reads for a work request: none if they are
// inline. It is negative for one that takes another way, or is long.
func (q *QP) sizeAhead(wqe *sendEntry) int {
	switch {
	case wqe.status != WCSuccess || wqe.isLocalOp() || wqe.needsResponse():
		return -1
	case wqe.length > aheadMessage || q.typ == QPUD && int(wqe.length) > q.payloadMTU():
		return -1
	case wqe.flags&SendInline != 0:
		return 0
	default:
		return int(wqe.length)
	}
}

// gatherReads fills o.reads for the READs that the responder answers next, if there are several. It
// stops behind n packets.
func (r *responder) gatherReads(q *QP, n int, o *outbox) {
	a := &o.reads
	if _, ok := a.payload(o.answered); ok || len(r.queue) < 2 {
		return
	}
	a.begin(o.answered)
	refused := q.refused
	for i := range r.queue {
		resp := &r.queue[i]
		size := int(resp.total)
		if resp.kind != respondRead || resp.began || n <= 0 || size > aheadMessage || a.full(size) {
			break
		}
		n -= int(readPackets(resp.total, q.mtu()))
		ref, why := q.remoteAccess(resp.rkey, resp.va, uint64(size), AccessRemoteRead)
		if why != keyOK {
			break
		}
		if size > 0 && !o.in.fits(ref.mem) {
			ref.release()
			break
		}
		if b := a.add(size); size > 0 {
			o.in.add(ref, b)
		}
	}
	q.refused = refused
	a.gather(&o.in)
}

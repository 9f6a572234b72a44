package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
)

// post is a work request that is under way.
type post struct {
	id       uint64
	op       rxe.WROpcode
	at       *Stack
	signaled bool
	inline   bool
	pieces   []piece // of its gather list
	remote   uint64
	rkey     uint32
	// hash is of the message as it was posted. With hashed unset it is not compared: the message is
	// inline, the device writes to it, or it could not be read.
	hash   uint64
	hashed bool
	length uint64 // of the remote range
	done   bool   // it is not under way any more
	// arrived says that the peer has the message. hash was compared then.
	arrived bool
	// unseen is how many requests in a row it stands for of which nothing else is known: there was
	// no room to watch them. number is that of the first.
	unseen int

	number   uint64 // see mark
	tells    news   // of an atomic: to the next one on its word; once executed, to its own process
	executed bool   // of an atomic
	// tellsOwner: of a WRITE of a flag that has not come. tells is for the owner of the memory.
	tellsOwner bool
}

// watched reports whether p is one request that is known, and not several without room.
func (p *post) watched() bool { return p.unseen == 0 }

// piece is a range of a region, in the program's address space.
type piece struct {
	key    uint32
	start  uint64
	length uint64
	memory rxe.Memory
}

func (p *post) uses(key uint32) bool {
	if p.inline {
		return false
	}
	for i := range p.pieces {
		if p.pieces[i].key == key {
			return true
		}
	}
	return false
}

// Posting notes that a thread is about to post to a queue pair; nil: it is not known where.
func (f *File) Posting(q *rxe.QP, at *Stack) {
	if at != nil {
		f.look(at)
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.byQP[q]; o != nil {
		o.posting, o.near, o.stopped, o.passed = at, nil, true, 0
	}
}

// Rang notes that all work requests of that doorbell are posted. The next ones may come without
// one.
func (f *File) Rang(q *rxe.QP) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.byQP[q]; o != nil {
		o.stopped = false
	}
}

// postedAt returns where the program posts, or where it did the last time that anybody saw. s.mu is
// held.
func (o *object) postedAt() *Stack {
	if o.stopped || o.posting == nil || o.posting.Near {
		return o.posting
	}
	if o.near == nil {
		near := *o.posting
		near.Near = true
		o.near = &near
	}
	return o.near
}

// sends reports whether the operation reads the gather list.
func sends(op rxe.WROpcode) bool {
	switch op {
	case rxe.WRSend, rxe.WRSendImm, rxe.WRSendInv, rxe.WRWrite, rxe.WRWriteImm, rxe.WRAtomicWrite:
		return true
	default:
		return false
	}
}

// Posted implements rxe.Observer.
func (f *File) Posted(q *rxe.QP, wr rxe.SendWR) {
	p := &post{id: wr.ID, op: wr.Op, inline: wr.Flags&rxe.SendInline != 0, remote: wr.RemoteAddr, rkey: uint32(wr.RKey)}
	f.place(q, p, wr.SGL)
	if p.hashed {
		p.hash, p.hashed = p.sum()
	}
	f.lookAt(q)
	if judge := f.posted(q, p, &wr); judge != nil {
		judge()
	}
}

// posted is Posted with the request's memory known. The caller does what it returns, without s.mu.
func (f *File) posted(q *rxe.QP, p *post, wr *rxe.SendWR) (judge func()) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.byQP[q]
	if o == nil {
		return nil
	}
	p.length = remoteLength(wr)
	fenced := wr.Flags&rxe.SendFence != 0
	f.s.numbered(o, p, fenced)
	if p.signaled = o.QP.SignalAll || wr.Flags&rxe.SendSignaled != 0; p.signaled {
		o.silent = 0
	}
	if f.s.posts >= maxPosts {
		p.pieces, p.hashed = nil, false
		f.s.unseen++
		f.tell(o, p)
		o.pass(p)
		return nil
	}
	p.at = o.postedAt()
	o.posts = append(o.posts, p)
	f.s.posts++
	f.meets(o, p, fenced)
	f.overReceives(o, p)
	f.race(o, p)
	f.tell(o, p)
	f.connected(o, p)
	f.strays(o, p, wr)
	if p.signaled {
		return f.signaled(o, p)
	}
	f.unsignaled(o, p)
	return nil
}

// pass notes a request that there is no room to watch.
func (o *object) pass(p *post) {
	if n := len(o.posts); n > 0 && !o.posts[n-1].watched() {
		o.posts[n-1].unseen++
		return
	}
	o.posts = append(o.posts, &post{unseen: 1, number: p.number})
}

// take takes the oldest request, and reports whether it was watched.
func (o *object) take() (p *post, watched bool) {
	p = o.posts[0]
	if p.unseen > 1 {
		p.unseen--
		p.number++
		return &post{number: p.number - 1}, false
	}
	o.posts[0] = nil
	o.posts = o.posts[1:]
	o.arrived = max(o.arrived-1, 0)
	return p, p.watched()
}

// underWay is how many requests have not completed.
func (o *object) underWay() (n int) {
	for _, p := range o.posts {
		n += max(p.unseen, 1)
	}
	return n
}

// remoteLength is how many bytes of the peer's memory a request names.
func remoteLength(wr *rxe.SendWR) (n uint64) {
	if isAtomic(wr.Op) || wr.Op == rxe.WRAtomicWrite {
		return atomicBytes
	}
	for _, e := range wr.SGL {
		n += uint64(e.Length)
	}
	return max(n, uint64(len(wr.Inline)))
}

// pieces returns the ranges of a gather list whose regions are known. s.mu is held.
func (f *File) pieces(list []rxe.SGE) (pieces []piece) {
	for _, e := range list {
		if o := f.region(uint32(e.LKey)); o != nil && e.Length > 0 {
			pieces = append(pieces, piece{uint32(e.LKey), o.Region.inProgram(e.Addr), uint64(e.Length), o.Region.Memory})
		}
	}
	return pieces
}

// span is a range of a program's memory.
type span struct{ start, length uint64 }

// meets reports whether pieces have memory in common with a range.
func (s *span) meets(pieces []piece) bool {
	return slices.ContainsFunc(pieces, func(c piece) bool { return s.start < c.start+c.length && c.start < s.start+s.length })
}

// extent says where the message is.
func (p *post) extent() string {
	total, first := uint64(0), uint64(0)
	for i := len(p.pieces) - 1; i >= 0; i-- {
		total, first = total+p.pieces[i].length, p.pieces[i].start
	}
	return fmt.Sprintf("%s at %#x", plural.Of(total, "byte"), first)
}

// oldest takes the oldest work request of a queue pair.
func (f *File) oldest(q *rxe.QP, pushed bool) (*object, *post) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.byQP[q]
	if o == nil || len(o.posts) == 0 {
		if o != nil && pushed {
			f.notes(o.QP.SendCQ, news{slot: -1})
		}
		return o, nil
	}
	p, watched := o.take()
	p.done = true
	if watched {
		f.s.posts--
	}
	if c := f.objects[o.QP.SendCQ]; pushed && p.signaled && c != nil {
		c.signaled--
	}
	if pushed {
		f.notes(o.QP.SendCQ, o.completed(p))
	}
	return o, p
}

// unsignaled counts a request that makes no completion, and looks whether so many in a row fill the
// send queue. s.mu is held.
func (f *File) unsignaled(o *object, p *post) {
	if o.silent++; o.silent == o.QP.Depth+1 {
		f.find(noSignal, Finding{
			What: fmt.Sprintf("%d work requests in a row of %s are unsignaled, and its send queue has %d entries: no completion says that one is free again",
				o.silent, o, o.QP.Depth),
			Objects: []string{o.name()},
			Places:  []Place{{What: "the last one was posted", Stack: p.at}, {What: "the queue pair was made", Stack: o.made}}})
	}
}

// signaled counts a request that makes a completion, and looks whether that has room. s.mu is held.
// The caller does what it returns when s.mu is free.
func (f *File) signaled(o *object, p *post) (judge func()) {
	c := f.objects[o.QP.SendCQ]
	if c == nil || c.CQ == nil {
		return nil
	}
	c.signaled++
	signaled, waiting := c.signaled, c.CQ.Waiting()
	if c.saidSmall || !f.s.selected[cqTooSmall] || signaled+waiting <= c.CQ.Entries() {
		return nil
	}
	if c.CQ.Behind == nil {
		f.tooSmall(c, o, p, signaled, waiting)
		return nil
	}
	look := c.CQ.Behind()
	return func() {
		waiting := look()
		f.s.mu.Lock()
		defer f.s.mu.Unlock()
		f.tooSmall(c, o, p, signaled, waiting)
	}
}

// tooSmall finds out whether a completion queue has room for what is under way. s.mu is held.
func (f *File) tooSmall(c, o *object, p *post, signaled, waiting int) {
	entries := c.CQ.Entries()
	if c.saidSmall || signaled+waiting <= entries {
		return
	}
	c.saidSmall = true
	f.find(cqTooSmall, Finding{
		What: fmt.Sprintf("%d signaled work requests are under way and %d completions are not polled, but the completion queue has %d entries",
			signaled, waiting, entries),
		Objects: []string{c.name(), o.name()},
		Places:  []Place{{What: "the last one was posted", Stack: p.at}, {What: "the completion queue was made", Stack: c.made}}})
}

// Accessed implements rxe.Observer. Where the device itself writes, a message may change.
func (f *File) Accessed(q *rxe.QP, key uint32, va, n uint64, need rxe.Access) {
	atomic := f.s.races && need&rxe.AccessRemoteAtomic != 0
	flag := f.s.races && need&rxe.AccessRemoteWrite != 0 && n <= flagBytes
	written := (f.s.selected[sendBufferChanged] || f.s.selected[recvBufferTouched]) && need&(rxe.AccessLocalWrite|rxe.AccessRemoteWrite|rxe.AccessRemoteAtomic) != 0
	if !atomic && !written && !flag {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.byQP[q]; atomic && o != nil {
		f.executed(o, key, va)
	} else if flag && o != nil {
		f.flagged(o, key, va)
	}
	if written {
		f.wrote(key, va, n)
	}
}

// Completed implements rxe.Observer.
func (f *File) Completed(q *rxe.QP, wc rxe.WC, pushed bool) {
	if wc.Opcode&rxe.WCRecv != 0 {
		if wc.Status == rxe.WCSuccess {
			f.arrive(q, &wc)
		}
		f.received(q, &wc)
		return
	}
	if o, p := f.oldest(q, pushed); p != nil && wc.Status == rxe.WCSuccess {
		f.unchanged(o, p)
	}
}

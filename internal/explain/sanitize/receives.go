package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
)

// receives are those that wait in a receive queue. Nothing tells that one was posted. So a queue is
// looked at in trapped calls, and when the engine comes to it.
type receives struct {
	next    uint64 // the index of the first that was not seen
	waiting []receive
	looked  *Stack // the last trapped call before the queue was looked at, or in which it was
}

// receive is a posted receive.
type receive struct {
	index  uint64
	pieces []piece
	after  *Stack // a trapped call of the program, after which it was posted
	before *Stack // the same, before which it was posted; nil: not known
	knows  clock  // what the process knew when it was posted, or later
	// hash is of its memory when it was seen. With hashed unset it is not compared: the device may
	// have written there, or it could not be read.
	hash   uint64
	hashed bool
}

// sees reports whether a check needs to know what waits.
func (s *Session) sees() bool {
	return s.selected[overlappingReceives] || s.selected[recvBufferTouched] || s.races
}

// look looks at all receive queues of the process, in a trapped call.
func (f *File) look(at *Stack) {
	if !f.s.sees() {
		return
	}
	f.s.mu.Lock()
	f.called = at
	var list []*object
	for _, o := range f.objects {
		if o.Receives != nil {
			list = append(list, o)
		}
	}
	f.s.mu.Unlock()
	slices.SortFunc(list, func(a, b *object) int { return a.number - b.number })
	for _, o := range list {
		f.lookInto(o, o.Receives(), at)
	}
}

// lookAt looks at the receive queue of a queue pair, which is locked.
func (f *File) lookAt(q *rxe.QP) {
	if !f.s.sees() {
		return
	}
	f.s.mu.Lock()
	o := f.byQP[q].receiver()
	f.s.mu.Unlock()
	if o != nil && o.Receives != nil {
		f.lookInto(o, o.Receives(), nil)
	}
}

// Receiving implements rxe.Observer.
func (f *File) Receiving(q *rxe.QP) {
	f.lookAt(q)
	f.touched(q)
	if !f.s.races {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	// Of a shared queue, another queue pair may take it.
	if o := f.byQP[q]; o != nil && o.Receives != nil {
		o.head = nil
		if w := o.recv.waiting; len(w) > 0 && w[0].index == o.Receives().Popped() {
			head := w[0]
			o.head = &head
		}
	}
}

// looking is a look for new receives in a queue.
type looking struct {
	from          uint64 // the index of the first that was not seen
	after, before *Stack // see receive
	now           *Stack // the last trapped call
	most          int    // how many are noted
	bytes         uint64 // how many of their memory are hashed
}

// lookInto looks for new receives in a queue: for all in a trapped call, and else for the oldest. A
// thread of the engine serves other users, too.
func (f *File) lookInto(o *object, ring rxe.WaitingRing, at *Stack) {
	l := looking{before: at, most: receivesAtOnce, bytes: hashedBytes}
	if at != nil {
		l.most, l.bytes = maxReceives, maxReceives*hashedBytes
	}
	f.s.mu.Lock()
	l.from, l.after, l.now = o.recv.next, o.recv.looked, f.called
	f.s.mu.Unlock()
	for f.lookFrom(o, ring, &l) && at != nil && l.most > 0 {
	}
}

// lookFrom looks for those that a queue shows at once, and reports whether there were some.
func (f *File) lookFrom(o *object, ring rxe.WaitingRing, l *looking) bool {
	var found []receive
	var lists [][]rxe.SGE
	next := ring.Waits(l.from, func(index uint64, w *rxe.RecvWQE) {
		if len(found) < l.most {
			found = append(found, receive{index: index, after: l.after, before: l.before})
			lists = append(lists, slices.Clone(w.SGL))
		}
	})
	if n := len(found); n == l.most {
		next = found[n-1].index + 1
	}
	f.hashes(found, lists, &l.bytes)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o.recv.looked = l.now
	f.taken(o)
	by := f.s.processes[f.pid]
	if by != nil && f.s.races && len(found) > 0 {
		f.s.look(by)
	}
	for i := range found {
		if r := &found[i]; r.index >= o.recv.next && f.s.receives < maxReceives {
			r.pieces = f.pieces(lists[i])
			f.overlaps(o, r)
			if by != nil && f.s.races {
				r.knows = by.keep()
			}
			o.recv.waiting = append(o.recv.waiting, *r)
			f.s.receives++
		}
	}
	o.recv.next = max(o.recv.next, next)
	more := next > l.from
	l.from, l.most = next, l.most-max(len(found), 1)
	return more
}

// hashes reads the memory of new receives, up to a number of bytes.
func (f *File) hashes(found []receive, lists [][]rxe.SGE, left *uint64) {
	if !f.s.selected[recvBufferTouched] {
		return
	}
	for i := range found {
		f.s.mu.Lock()
		pieces, writes := f.pieces(lists[i]), f.writes
		f.s.mu.Unlock()
		n := uint64(0)
		for _, p := range pieces {
			n = min(n+p.length, hashedBytes)
		}
		if n > *left {
			return
		}
		*left -= n
		hash, ok := sumOf(pieces)
		f.s.mu.Lock()
		found[i].hash, found[i].hashed = hash, ok && writes == f.writes && !f.isWritten(pieces)
		f.s.mu.Unlock()
	}
}

// isWritten reports whether the device was about to write there. s.mu is held.
func (f *File) isWritten(pieces []piece) bool {
	return slices.ContainsFunc(f.written[:], func(w span) bool { return w.meets(pieces) })
}

// touched finds out whether the program has changed the memory of the receive that a message is
// about to take.
func (f *File) touched(q *rxe.QP) {
	if !f.s.selected[recvBufferTouched] {
		return
	}
	f.s.mu.Lock()
	o := f.byQP[q].receiver()
	var r receive
	if o != nil && len(o.recv.waiting) > 0 {
		r = o.recv.waiting[0]
	}
	f.s.mu.Unlock()
	if !r.hashed {
		return
	}
	hash, ok := sumOf(r.pieces)
	if !ok || hash == r.hash {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if w := o.recv.waiting; len(w) == 0 || w[0].index != r.index || !w[0].hashed || gone(o, &r) {
		return // a message has come meanwhile, or the device writes there
	}
	f.find(recvBufferTouched, Finding{
		What:    fmt.Sprintf("the program changed the memory of a receive of %s, %s at %#x, before a message came", o, plural.Of(r.pieces[0].length, "byte"), r.pieces[0].start),
		Objects: []string{o.name()},
		Places:  r.posted("the receive"),
	})
}

// taken forgets the receives that have left a queue. s.mu is held.
func (f *File) taken(o *object) {
	popped, n := o.Receives().Popped(), 0
	for n < len(o.recv.waiting) && o.recv.waiting[n].index < popped {
		n++
	}
	f.s.receives -= n
	o.recv.waiting = slices.Delete(o.recv.waiting, 0, n)
}

// forget forgets all receives of a queue. s.mu is held.
func (f *File) forget(o *object) {
	f.s.receives -= len(o.recv.waiting)
	o.recv.waiting, o.recv.next = nil, 0
}

// unregistered notes that the device will refuse receives with a key: it does not write to their
// memory. s.mu is held.
func (f *File) unregistered(key uint32) {
	for _, o := range f.objects {
		for i := range o.recv.waiting {
			r := &o.recv.waiting[i]
			r.pieces = slices.DeleteFunc(r.pieces, func(p piece) bool { return p.key == key })
		}
	}
}

// overlaps compares a new receive of a queue with all that is under way. s.mu is held. What waited
// before and waits still is under way now: another thread may have taken it meanwhile, and its
// memory may be in use again. So each queue is asked what it has left.
func (f *File) overlaps(o *object, r *receive) {
	if !f.s.selected[overlappingReceives] {
		return
	}
	for _, other := range f.objects {
		if other.Receives == nil || len(other.recv.waiting) == 0 {
			continue
		}
		for i := range other.recv.waiting {
			x := &other.recv.waiting[i]
			if c := r.meets(x.pieces); c != nil && !gone(other, x) && !gone(o, r) {
				who := fmt.Sprintf("a receive of %s and one of %s", other, o)
				if other == o {
					who = fmt.Sprintf("two receives of %s", o)
				}
				f.find(overlappingReceives, Finding{
					What:    fmt.Sprintf("%s share %s, and both wait for a message", who, c),
					Objects: []string{o.name(), other.name()},
					Places:  slices.Concat(r.posted("the later receive"), x.posted("the earlier receive")),
				})
				break
			}
		}
	}
	for _, q := range f.byQP {
		for _, p := range q.posts {
			f.over(o, r, q, p)
		}
	}
}

// overReceives compares a new work request with all receives that wait. s.mu is held.
func (f *File) overReceives(q *object, p *post) {
	if !f.s.selected[overlappingReceives] || len(p.pieces) == 0 {
		return
	}
	for _, o := range f.objects {
		for i := range o.recv.waiting {
			f.over(o, &o.recv.waiting[i], q, p)
		}
	}
}

// over compares a receive of o with a work request of q.
func (f *File) over(o *object, r *receive, q *object, p *post) {
	c := r.meets(p.pieces)
	if c == nil || gone(o, r) || !sends(p.op) && !returns(p.op) {
		return
	}
	f.find(overlappingReceives, Finding{
		What:    fmt.Sprintf("%s (wr_id %#x) of %s and a receive of %s share %s, and neither has completed", an(p.op), p.id, q, o, c),
		Objects: []string{q.name(), o.name()},
		Places:  append([]Place{{What: fmt.Sprintf("the %v was posted", p.op), Stack: p.at}}, r.posted("the receive")...),
	})
}

func gone(o *object, r *receive) bool { return r.index < o.Receives().Popped() }

// meets returns what a receive shares with pieces; nil: nothing. A thread of the engine may do this
// with maxReceives times as many.
func (r *receive) meets(pieces []piece) *span {
	for i := range min(len(r.pieces), maxPieces) {
		for k := range min(len(pieces), maxPieces) {
			a, b := &r.pieces[i], &pieces[k]
			if first, end := max(a.start, b.start), min(a.start+a.length, b.start+b.length); first < end {
				return &span{first, end - first}
			}
		}
	}
	return nil
}

func (s *span) String() string { return fmt.Sprintf("%s at %#x", plural.Of(s.length, "byte"), s.start) }

// posted says between which calls a receive was posted. No call is made for it, so no line is
// known.
func (r *receive) posted(what string) []Place {
	places := []Place{{What: what + " was posted after this call", Stack: r.after}}
	if r.before != nil {
		places = append(places, Place{What: "and before this call", Stack: r.before})
	}
	return places
}

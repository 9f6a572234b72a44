package sanitize

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Made describes an object that a program has made.
type Made struct {
	Kind   string // as "queue pair"
	Number uint32 // of a queue pair, or the key of a region or window
	Region *Region
	QP     *QP
	CQ     *CQ
	// Receives returns what waits in a queue pair's own receive queue, or in a shared one; nil:
	// nobody can look.
	Receives func() rxe.WaitingRing
}

// Region is a memory region.
type Region struct {
	Start, Length uint64 // in the program's address space
	Base          uint64 // of the addresses that work requests and peers name
	Memory        rxe.Memory
	Shared        *Shared // nil: it is the process's own, or this is not known
}

// inProgram returns where in the program the memory is that requests name with an address.
func (r *Region) inProgram(addr uint64) uint64 { return r.Start + addr - r.Base }

// QP is a queue pair.
type QP struct {
	QP        *rxe.QP
	SendCQ    any    // of Made
	RecvCQ    any    // likewise
	Depth     uint32 // of its send queue, as the program knows it
	SignalAll bool
	SRQ       any // of Made; nil: none
}

// CQ is a completion queue.
type CQ struct {
	Entries func() int
	Waiting func() int // how many completions are not polled
	// Behind, if it is not nil, says that Waiting may be too many. It returns a function that looks
	// how many of the completions of now are not polled, which may block.
	Behind func() (look func() int)
}

// object is an object with its history.
type object struct {
	Made
	file      *File
	number    int // order of making
	made      *Stack
	endedBy   *Stack // the call that ended it, or that was refused
	endedAt   time.Time
	modified  *Stack
	posting   *Stack // of the post_send in hand, or of the last one
	stopped   bool   // the program waits in that post_send
	passed    uint   // messages since the last stop
	near      *Stack // of later posts; nil: not made yet
	posts     []*post
	arrived   int    // how many of posts, the oldest, the peer has
	silent    uint32 // requests since the last signaled one
	signaled  int    // of a CQ: signaled requests under way
	saidSmall bool
	settings  settings // of a QP
	qkey      queueKey // likewise
	fresh     int      // of a QP: step of the session in which it was made, or reset
	recv      receives // of a QP or an SRQ
	order
}

func (o *object) String() string {
	switch o.Kind {
	case kindQP, kindMW, kindMR:
		return o.name()
	}
	return "the " + o.Kind
}

// name is the object for Finding.Objects.
func (o *object) name() string {
	switch o.Kind {
	case kindQP, kindMW, kindMR:
		return fmt.Sprintf("%s %#x", o.Kind, o.Number)
	}
	return o.Kind
}

// The kinds of objects that checks know.
const (
	kindQP = "queue pair"
	kindMR = "memory region"
	kindMW = "memory window"
	kindCQ = "completion queue"
)

// Made notes an object, by an id that is compared.
func (f *File) Made(id any, m Made, at *Stack) {
	f.look(at)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.objects >= maxObjects {
		f.s.unseen++
		return
	}
	f.s.objects++
	o := &object{Made: m, file: f, made: at, number: f.s.objects}
	o.recv.looked = at
	f.objects[id] = o
	f.ordered(o)
	f.windows = f.windows || m.Kind == kindMW
	switch {
	case m.Region != nil:
		f.s.regions[keyName{f.device, m.Number}] = o
	case m.QP != nil:
		o.fresh = f.s.step()
		f.byQP[m.QP.QP] = o
		f.s.qps[qpName{f.device, wire.QPN(m.Number)}] = o
	}
}

// Changed notes what a region is after reregistration.
func (f *File) Changed(id any, m Made, at *Stack) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.objects[id]
	if o == nil || o.Region == nil {
		return
	}
	delete(f.s.regions, keyName{f.device, o.Number})
	o.Made, o.modified = m, at
	f.s.regions[keyName{f.device, o.Number}] = o
}

// Ended notes that the program has destroyed an object.
func (f *File) Ended(id any, at *Stack) {
	f.look(at)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.objects[id]
	if o == nil {
		return
	}
	f.forget(o)
	delete(f.objects, id)
	f.unordered(o)
	f.s.objects--
	o.endedBy, o.endedAt = at, f.s.now()
	switch {
	case o.Region != nil:
		f.endRegion(o)
	case o.QP != nil:
		f.endQP(o)
	}
}

// endQP forgets a queue pair, and looks whether a request was under way. s.mu is held.
func (f *File) endQP(o *object) {
	if i := slices.IndexFunc(o.posts, (*post).watched); i >= 0 {
		p, which := o.posts[i], "the oldest"
		if i > 0 {
			which = "one of them"
		}
		f.find(destroyedWhilePosted, Finding{
			What: fmt.Sprintf("%s was destroyed while %s of it had not completed, %s %s (wr_id %#x)", o, plural.Of(o.underWay(), "work request"),
				which, an(p.op), p.id),
			Objects: []string{o.name()},
			Places: []Place{
				{What: "the queue pair was destroyed", Stack: o.endedBy},
				{What: "the work request was posted", Stack: p.at},
				{What: "the queue pair was made", Stack: o.made},
			}})
	}
	delete(f.byQP, o.QP.QP)
	delete(f.s.qps, qpName{f.device, wire.QPN(o.Number)})
	f.drop(o)
}

// Kept notes that the program could not destroy an object, because others use it.
func (f *File) Kept(id any, at *Stack) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.objects[id]; o != nil {
		o.endedBy = at
	}
}

// Unacknowledged notes that the only thread of a process is in the call that ends an object, which
// waits until the program has acknowledged the events that it has read. n of them are not.
func (f *File) Unacknowledged(id any, n uint32, at *Stack) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.objects[id]
	if o == nil {
		return
	}
	f.find(eventsUnacknowledged, Finding{
		What:    fmt.Sprintf("%s is destroyed, and the program has not acknowledged %s of it: the call waits for ever, as there is no other thread", o, plural.Of(n, "event")),
		Objects: []string{o.name()},
		Places:  slices.Concat([]Place{{What: "it was destroyed", Stack: at}}, o.history("it was made")),
	})
}

// Unread notes that the program destroys a shared receive queue, and has not read n events of it.
// It had asked for them (srq_limit).
func (f *File) Unread(id any, n uint32, at *Stack) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.objects[id]; o != nil {
		f.find(eventIgnored, Finding{
			What:    fmt.Sprintf("%s is destroyed, and the program has not read %s of it: few receives were left, and nobody posted more", o, plural.Of(n, "event")),
			Objects: []string{o.name()},
			Places:  slices.Concat([]Place{{What: "it was destroyed", Stack: at}}, o.history("it was made")),
		})
	}
}

// endRegion remembers a region whose key may still be used. s.mu is held.
func (f *File) endRegion(o *object) {
	delete(f.s.regions, keyName{f.device, o.Number})
	o.Region.Memory = nil
	if f.s.ended = append(f.s.ended, o); len(f.s.ended) > maxEnded {
		f.s.ended = slices.Delete(f.s.ended, 0, 1)
	}
	f.unregistered(o.Number)
	for _, q := range f.byQP {
		for _, p := range q.posts {
			if !p.uses(o.Number) {
				continue
			}
			f.find(freedWhilePosted, Finding{
				What:    fmt.Sprintf("%s of %s was deregistered while %s (wr_id %#x) of %s uses it", o.extent(), o, an(p.op), p.id, q),
				Objects: []string{o.name(), q.name()},
				Places: []Place{
					{What: "the region was deregistered", Stack: o.endedBy},
					{What: "the work request was posted", Stack: p.at},
					{What: "the region was registered", Stack: o.made},
				}})
			return
		}
	}
}

func (o *object) extent() string {
	return fmt.Sprintf("%s at %#x", plural.Of(o.Region.Length, "byte"), o.Region.Start)
}

// drop forgets the work requests of a queue pair that were not executed. s.mu is held.
func (f *File) drop(o *object) {
	for _, p := range o.posts {
		p.done = true
		if p.watched() {
			f.s.posts--
		}
	}
	if c := f.objects[o.QP.SendCQ]; c != nil {
		for _, p := range o.posts {
			if p.signaled {
				c.signaled--
			}
		}
	}
	o.posts, o.arrived, o.silent = nil, 0, 0
	f.s.stopped(o)
	f.s.arrivesNoMore(o)
}

func (f *File) left(o *object) {
	what, places := "%s was not destroyed", []Place{{What: "it was made", Stack: o.made}}
	if o.endedBy != nil {
		what += ": it was in use by objects that must be destroyed first, and that call failed (EBUSY)"
		places = append(places, Place{What: "this call failed", Stack: o.endedBy})
	}
	f.find(leak, Finding{What: fmt.Sprintf(what, o), Objects: []string{o.name()}, Places: places})
}

// Left notes that a process has closed the file through which it had an object.
func (f *File) Left(id any) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if o := f.objects[id]; o != nil {
		delete(f.objects, id)
		f.s.objects--
		f.left(o)
	}
}

// Close notes that the process has closed the device, with all that it left there. If the device is
// gone, nothing was left.
func (f *File) Close(gone bool) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	left := slices.SortedFunc(maps.Values(f.objects), func(a, b *object) int { return a.number - b.number })
	for _, o := range left {
		f.forget(o)
		if !gone {
			f.left(o)
		}
		if o.Region != nil {
			delete(f.s.regions, keyName{f.device, o.Number})
		}
		if o.QP != nil {
			delete(f.s.qps, qpName{f.device, wire.QPN(o.Number)})
			f.drop(o)
		}
		f.unordered(o)
	}
	f.s.closed(f.pid)
	f.s.objects -= len(left)
	clear(f.objects)
	clear(f.byQP)
}

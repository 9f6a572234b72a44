package sanitize

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// The content of messages is compared when they arrive or complete, with what it was when they were
// posted.

// rooms has memory for what is hashed.
var rooms = sync.Pool{New: func() any { return new([hashedBytes / 2]byte) }}

// seed of all hashes. They stay within the process.
var seed = maphash.MakeSeed()

// place finds the memory of a gather list, and decides whether its content is compared.
func (f *File) place(q *rxe.QP, p *post, list []rxe.SGE) {
	if p.inline {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	p.pieces = f.pieces(list)
	p.hashed = sends(p.op) && f.s.selected[sendBufferChanged] && f.byQP[q].compares()
	for _, w := range f.written {
		p.written(w)
	}
}

// compares reports whether the content of the next message is compared. Of messages that come too
// fast for a stop at each, only some are.
func (o *object) compares() bool {
	if o == nil {
		return false
	}
	if o.stopped || o.posting == nil {
		return true
	}
	o.passed++
	return o.passed%comparedOf == 0
}

// wrote notes that the device is about to write to memory. s.mu is held.
func (f *File) wrote(key uint32, va, n uint64) {
	w := span{va, n}
	if o := f.region(key); o != nil {
		w.start = o.Region.inProgram(va)
	}
	f.written[f.writes%len(f.written)] = w
	f.writes++
	for _, q := range f.byQP {
		for _, p := range q.posts {
			p.written(w)
		}
	}
	if !f.s.selected[recvBufferTouched] {
		return
	}
	for _, o := range f.objects {
		for i := range o.recv.waiting {
			r := &o.recv.waiting[i]
			r.hashed = r.hashed && !w.meets(r.pieces)
		}
	}
}

// written notes that the device writes to a range, or may still do so.
func (p *post) written(w span) {
	p.hashed = p.hashed && !w.meets(p.pieces)
}

// sum returns the hash of a message: of all of it, or of its beginning and its end.
func (p *post) sum() (sum uint64, ok bool) { return sumOf(p.pieces) }

func sumOf(pieces []piece) (sum uint64, ok bool) {
	var h maphash.Hash
	h.SetSeed(seed)
	room := rooms.Get().(*[hashedBytes / 2]byte)
	defer rooms.Put(room)
	left := uint64(hashedBytes)
	for _, c := range pieces {
		n := min(c.length, left)
		first := min(n, left/2)
		for _, part := range []span{{c.start, first}, {c.start + c.length - (n - first), n - first}} {
			buf := room[:part.length]
			if len(buf) == 0 {
				continue
			}
			if c.memory == nil || c.memory.ReadV([]rxe.Span{{VA: part.start, Buf: buf}}) != nil {
				return 0, false
			}
			h.Write(buf) //nolint:errcheck // it never fails
		}
		left -= n
	}
	return h.Sum64(), len(pieces) > 0
}

// arrive compares the message that a receive is about to complete, and the requests before it. The
// program at the other end may answer the message, and then the sender knows that it has come. If
// the device sends a packet of it again, the peer drops that (IBA C9-105). If messages may be lost,
// or the sender is of another run, nobody knows which ones have come: it may be all.
func (f *File) arrive(q *rxe.QP, wc *rxe.WC) {
	if !f.s.selected[sendBufferChanged] {
		return
	}
	f.s.mu.Lock()
	o := f.byQP[q]
	if o == nil {
		f.s.mu.Unlock()
		return
	}
	from := f.s.sender(o, wc)
	known := from != nil && !o.unreliable()
	if from == nil {
		from = o // it knows by this message which of its own ones have come
	}
	n := len(from.posts)
	if known {
		n = from.arrived + 1 + slices.IndexFunc(from.posts[from.arrived:], func(p *post) bool { return isMessage(p.op) })
	}
	came := slices.Clone(from.posts[from.arrived:n])
	for _, p := range came {
		p.arrived = true
	}
	from.arrived = n
	f.s.mu.Unlock()
	for _, p := range came {
		from.file.unchanged(from, p)
	}
}

// unchanged finds out whether a message is as it was posted.
func (f *File) unchanged(o *object, p *post) {
	if !p.compared(f.s) {
		return
	}
	now, ok := p.sum()
	if !ok || now == p.hash || !p.compared(f.s) {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.find(sendBufferChanged, Finding{
		What:    fmt.Sprintf("the program changed the buffer of %s (wr_id %#x) of %s before it completed: the peer may get either content", an(p.op), p.id, o),
		Objects: []string{o.name()},
		Places: []Place{
			{What: fmt.Sprintf("the work request was posted, with %s", p.extent()), Stack: p.at},
			{What: "the queue pair was made", Stack: o.made},
		}})
}

// compared reports whether the content of the message says something of the program: once, when it
// arrives or completes.
func (p *post) compared(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.hashed && (!p.arrived || !p.done)
}

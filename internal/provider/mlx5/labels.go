package mlx5

import (
	"sync"
	"unsafe"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// When a daemon is killed, its programs have work requests in their queues that nobody completes.
// The keeper completes them (orphan.go). It finds the queues, which are in the programs' memory, by
// labels in a part of the file.
//
// The program can write there, too. A label that it has changed harms the program alone: the keeper
// accesses no other memory.

// label is a queue pair or a completion queue. This is how it stands in the file.
type label struct {
	kind     labelKind
	qpn      uint32
	identity uint64 // of the address space
	buf      uint64 // of the send queue, or of the completions
	record   uint64
	mask     uint32 // of the same
	user     uint32 // of a queue pair; of a completion queue the shift
	sendCQ   uint32 // index of its label
	recvCQ   uint32
	recvMask uint32
	_        uint32
	// The indices behind the last requests that have completed. sent of a completion queue is the
	// index behind the last completion of which the queue pairs' labels know.
	sent, received uint32
}

// labelKind tells a label from what a program may have written there by mistake.
type labelKind uint32

const (
	labelCQ      labelKind = labelMagic + iota
	labelQP                // without a receive queue
	labelBothQP            // with one
	labelPartsQP           // with a striding one
)

const (
	labelSize = int(unsafe.Sizeof(label{}))
	sentAt    = int64(unsafe.Offsetof(label{}.sent)) // received is behind it

	// labelsAt is where they are in the file: behind all that a program maps.
	labelsAt   = provider.OffsetsEnd + provider.OffsetsEnd/2
	labelBytes = mostLabels * labelSize
)

// noLabel is the index of a queue that has none.
const noLabel = -1

// labels are those of one open.
type labels struct {
	pages pages // a mapping with a lock of its own

	mu     sync.Mutex // a leaf lock, except for that of pages
	mem    []*page    // nil: not mapped yet
	free   []int
	next   int
	frozen bool // the open ends: what is labeled stays
}

// identified is implemented by an address space that another process can recognize.
type identified interface{ Identity() uint64 }

func identityOf(space rxe.Memory) uint64 {
	if s, ok := space.(identified); ok {
		return s.Identity()
	}
	return 0
}

// add labels a queue, and returns the label's index.
func (l *labels) add(file int, b label) int {
	if b.identity == 0 {
		return noLabel // nobody would recognize its memory
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		l.pages.file = file
		mem, err := l.pages.add(labelsAt, labelBytes/provider.PageSize)
		if err != nil {
			return noLabel
		}
		l.mem = mem
	}
	i := l.next
	switch n := len(l.free); {
	case n > 0:
		i, l.free = l.free[n-1], l.free[:n-1]
	case l.next == mostLabels:
		return noLabel
	default:
		l.next++
	}
	l.put(i, &b)
	return i
}

// put writes a label. mu is held.
func (l *labels) put(i int, b *label) {
	l.pages.access(func() {
		to := l.at(i)
		to.kind = 0
		kind := b.kind
		b.kind = 0
		*to = *b
		to.kind = kind // it is complete
	})
}

// at returns a label in the mapping, for functions of access.
func (l *labels) at(i int) *label {
	const perPage = provider.PageSize / labelSize
	return (*label)(unsafe.Pointer(&l.mem[i/perPage].mem[i%perPage*labelSize]))
}

// remove is for a queue that has ended.
func (l *labels) remove(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i == noLabel || l.frozen {
		return
	}
	l.pages.access(func() { l.at(i).kind = 0 })
	l.free = append(l.free, i)
}

// ringLabel is the label of a completion queue, and those of the queue pairs that complete there.
type ringLabel struct {
	c     *userContext
	index int
}

// moved is for completions that are elsewhere now.
func (r ringLabel) moved(buf uint64, mask, prod uint32) {
	if r.index == noLabel {
		return
	}
	l := &r.c.labels
	l.pages.access(func() { l.at(r.index).buf, l.at(r.index).mask, l.at(r.index).sent = buf, mask, prod })
}

// reset is for a queue pair that has.
func (l *labels) reset(i int) {
	if i != noLabel {
		l.pages.access(func() { l.at(i).sent, l.at(i).received = 0, 0 })
	}
}

// freeze keeps all labels.
func (l *labels) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
}

// close unmaps them. The file has them still.
func (l *labels) close() {
	l.pages.mu.Lock()
	defer l.pages.mu.Unlock()
	l.pages.lose()
}

// written notes completions that the program can see. prod is the index behind them. The completion
// queue's own note comes last: if the daemon is killed before, the keeper reads from the old note
// on.
func (r ringLabel) written(wcs []rxe.WC, prod uint32) {
	if r.index == noLabel {
		return
	}
	c := r.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.labels.pages.access(func() {
		for i := range wcs {
			c.note(&wcs[i])
		}
		c.labels.at(r.index).sent = prod
	})
}

// note notes a completion in the label of its queue pair. mu is held, for functions of access.
func (c *userContext) note(wc *rxe.WC) {
	id, q := wrID(wc.ID), c.qps[wc.QPN]
	switch {
	case q == nil || q.label == noLabel || id.shared():
	case id.part() && !id.last():
		c.labels.at(q.label).received = uint32(id.counter())
	case id.receive():
		c.labels.at(q.label).received = uint32(id.counter() + 1)
	default:
		c.labels.at(q.label).sent = uint32(id.counter() + id.blocks())
	}
}

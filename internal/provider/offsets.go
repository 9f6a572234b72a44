package provider

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Offsets says which part of the file behind a program's descriptor of the device belongs to what
// the program maps: queues, device memory, pages of registers (struct rdma_user_mmap_entry). There
// is one for each open. A range is given out once, so a mapping that the program forgot to undo
// shows nothing that was made later.
type Offsets struct {
	mu    sync.Mutex // a leaf lock
	next  int64      // the first offset behind all ranges of Take
	fixed []offsets  // ranges of TakeAt
}

type offsets struct{ from, to int64 }

// NewOffsets returns the offsets of one open.
func NewOffsets() *Offsets { return &Offsets{next: offsetsFirst} }

// Take returns where n bytes are that nobody else has: whole pages. ENOMEM: there is no room.
func (o *Offsets) Take(n int64) (from int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n <= 0 || n > OffsetsEnd {
		return 0, unix.ENOMEM
	}
	at := offsets{o.next, o.next + WholePages(n)}
	for {
		i := slices.IndexFunc(o.fixed, at.overlaps)
		if i < 0 {
			break
		}
		at = offsets{o.fixed[i].to, o.fixed[i].to + WholePages(n)}
	}
	if at.to > OffsetsEnd {
		return 0, unix.ENOMEM
	}
	o.next = at.to
	return at.from, nil
}

// TakeAt takes n bytes at an offset that the provider's ABI prescribes, in whole pages. EBUSY:
// someone has a part of them.
func (o *Offsets) TakeAt(from, n int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from < 0 || from%PageSize != 0 || n <= 0 || n > OffsetsEnd-from {
		return unix.EINVAL
	}
	at := offsets{from, from + WholePages(n)}
	if o.next > offsetsFirst && from < o.next || slices.ContainsFunc(o.fixed, at.overlaps) {
		return unix.EBUSY
	}
	o.fixed = append(o.fixed, at)
	return nil
}

func (r offsets) overlaps(o offsets) bool { return r.from < o.to && o.from < r.to }

// WholePages returns how many bytes of whole pages have room for n.
func WholePages(n int64) int64 { return (n + PageSize - 1) &^ (PageSize - 1) }

package librxe

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// When a daemon is killed, its programs have work requests in their queues that nobody
// completes. A program that polls for them would poll for ever. The queues hold all that
// is needed to complete them: each has a label in the first unused words of its header
// (struct rxe_queue_buf, pad_1).

// label identifies a queue.
type label struct {
	kind labelKind
	cq   uint32 // handle of the completion queue: this one, or the one that this completes to
	qpn  uint32
}

type labelKind uint32

const (
	labelCQ   labelKind = 1 + iota
	labelWork           // a send or receive queue
)

// Where a label stands in struct rxe_queue_buf.
const (
	queueLabel     = 8
	queueLabelKind = queueLabel + 4
	queueLabelCQ   = queueLabel + 8
	queueLabelQPN  = queueLabel + 12
	labelMagic     = 0x65787267 // "grxe"
)

// label labels a new queue.
func (r *ring) label(l label) {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return
	}
	b := r.piece.mem
	ne := binary.NativeEndian
	ne.PutUint32(b[queueLabelKind:], uint32(l.kind))
	ne.PutUint32(b[queueLabelCQ:], l.cq)
	ne.PutUint32(b[queueLabelQPN:], l.qpn)
	ne.PutUint32(b[queueLabel:], labelMagic)
}

// OrphanMemory is where the queues of a device without a daemon are. Offsets are those of the
// device's memfd.
type OrphanMemory interface {
	io.ReaderAt
	io.WriterAt
	// Data returns the next part at or behind off that may have data. The error is io.EOF if there
	// is none.
	Data(off int64) (from, to int64, err error)
}

// FlushOrphan completes the work requests in the queues of a device whose daemon has
// ended, with WCFlushErr. It returns how many there were. If m is a file, nothing else uses its
// description. A request that the daemon completed last may be completed once more.
//
// The program can write everything in the file, and can hold the file's lock for ever. So
// only the program itself should wait for FlushOrphan.
func FlushOrphan(m OrphanMemory) (int, error) {
	f := orphan{mem: m, cqs: make(map[uint32]*orphanRing)}
	if err := f.find(); err != nil {
		return 0, err
	}
	for _, q := range f.work {
		if cq := f.cqs[q.cq]; cq != nil {
			if err := f.flush(q, cq); err != nil {
				return f.flushed, err
			}
		}
	}
	return f.flushed, nil
}

// orphan is a device without a daemon.
type orphan struct {
	mem  OrphanMemory
	cqs  map[uint32]*orphanRing
	work []*orphanRing

	flushed int
}

// orphanRing is a queue in it, as its header describes it.
type orphanRing struct {
	label
	off        int64
	mask       uint32
	shift      uint32
	prod, cons uint32
}

// Find reads the headers. Queues begin at pages; only those that have memory are looked
// at.
func (f *orphan) find() error {
	pages := 0
	for off := int64(pageSize); off < provider.OffsetsEnd; {
		data, hole, err := f.mem.Data(off)
		if err == io.EOF {
			return nil // that was the last one
		}
		if err != nil {
			return fmt.Errorf("queues of a device: %w", err)
		}
		for off = data &^ (pageSize - 1); off < min(hole, provider.OffsetsEnd); pages++ {
			if pages == maxOrphanPages {
				return nil
			}
			off += f.look(off)
		}
	}
	return nil
}

// look adds the queue that begins at off, if there is one. It returns how many bytes to
// skip.
func (f *orphan) look(off int64) int64 {
	var h [queueData]byte
	if n, err := f.mem.ReadAt(h[:], off); err != nil || n < len(h) {
		return pageSize
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(h[at:]) }
	q := &orphanRing{
		label: label{labelKind(word(queueLabelKind)), word(queueLabelCQ), word(queueLabelQPN)},
		off:   off, mask: word(queueIndexMask), shift: word(queueLog2ElemSize),
		prod: word(queueProducer), cons: word(queueConsumer),
	}
	size := q.size()
	if word(queueLabel) != labelMagic || size == 0 {
		return pageSize
	}
	q.prod, q.cons = q.prod&q.mask, q.cons&q.mask
	switch q.kind {
	case labelCQ:
		f.cqs[q.cq] = q
	case labelWork:
		f.work = append(f.work, q)
	}
	return provider.WholePages(size)
}

// size returns the length of the queue, or 0 if the header is not valid.
func (q *orphanRing) size() int64 {
	slots := uint64(q.mask) + 1
	if slots&(slots-1) != 0 || q.shift > maxOrphanShift || 1<<q.shift < minElemSize {
		return 0
	}
	if size := queueData + slots<<q.shift; size <= maxRingBytes {
		return int64(size)
	}
	return 0
}

func (q *orphanRing) slot(i uint32) int64 {
	return q.off + queueData + int64(i&q.mask)<<q.shift
}

// flush completes what is in q.
func (f *orphan) flush(q, cq *orphanRing) error {
	for ; q.cons != q.prod && f.flushed < maxOrphanWork; f.flushed++ {
		var id [8]byte // the first word of either kind of WQE
		if _, err := f.mem.ReadAt(id[:], q.slot(q.cons)); err != nil {
			return fmt.Errorf("work request of a device: %w", err)
		}
		wc := rxe.WC{ID: binary.NativeEndian.Uint64(id[:]), Status: rxe.WCFlushErr, QPN: wire.QPN(q.qpn)}
		if pushed, err := f.push(cq, &wc); err != nil || !pushed {
			return err
		}
		q.cons = (q.cons + 1) & q.mask
		if err := f.store(q.off+queueConsumer, q.cons); err != nil {
			return err
		}
	}
	return nil
}

// push is cqRing.Push. It returns false if the queue is full.
func (f *orphan) push(cq *orphanRing, wc *rxe.WC) (bool, error) {
	var word [4]byte
	if _, err := f.mem.ReadAt(word[:], cq.off+queueConsumer); err != nil {
		return false, fmt.Errorf("completion queue of a device: %w", err)
	}
	next := (cq.prod + 1) & cq.mask
	if next == binary.NativeEndian.Uint32(word[:])&cq.mask {
		return false, nil
	}
	var b [wcSize]byte
	encodeWC(&b, wc)
	if _, err := f.mem.WriteAt(b[:], cq.slot(cq.prod)); err != nil {
		return false, fmt.Errorf("completion queue of a device: %w", err)
	}
	cq.prod = next
	return true, f.store(cq.off+queueProducer, next)
}

func (f *orphan) store(off int64, word uint32) error {
	if _, err := f.mem.WriteAt(binary.NativeEndian.AppendUint32(nil, word), off); err != nil {
		return fmt.Errorf("queue of a device: %w", err)
	}
	return nil
}

package mlx5

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// sendQueue is a send queue in the program's memory. The daemon reads it when the program has rung,
// and does not write there: completions tell the program what is free.
//
// A thread that serves a doorbell may block, in this program's memory or another's. So no thread
// waits for a doorbell. A thread that finds another one at work leaves a mark, and the other one
// looks at the queue again.
type sendQueue struct {
	space  rxe.Memory
	buf    uint64
	record uint64
	mask   uint32 // of blocks
	dec    decoder
	keys   provider.Keys
	avs    provider.AddressCache
	budget interface{ Background(func()) }
	dev    *rxe.Subdevice
	qp     *rxe.QP // from queuePair.Created on

	doorbells atomic.Int32 // not served yet; the first thread serves all
	running   atomic.Bool  // the queue pair is in a state that sends
	full      atomic.Bool  // the engine has no room: a completion makes some
	stored    storedKey

	mu    sync.Mutex // a leaf lock, not held for accesses
	next  uint16     // the index of the first block that the engine does not have
	epoch uint32     // counts resets
}

// batch is what one look finds.
type batch struct {
	record [4]byte
	blocks [batchBlocks << blockShift]byte
	reqs   [batchBlocks]request
	wrs    []rxe.SendWR
	spans  []rxe.Span
	epoch  uint32
	from   uint16
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// release forgets what the requests refer to, which must not live on with the batch.
func (b *batch) release() {
	for i := range b.wrs {
		b.reqs[i].wr, b.reqs[i].bind = rxe.SendWR{}, rxe.MWBind{}
	}
	clear(b.wrs)
	b.wrs = b.wrs[:0]
}

// serve hands all to the engine that the program has posted.
func (q *sendQueue) serve() {
	for more := true; more; {
		more = q.take()
	}
}

// finish is serve for a queue pair that ends. It waits for the thread at work, which may have read
// requests and not handed them over yet. That thread may be blocked, so finish gives up at last.
func (q *sendQueue) finish() {
	for range finishTries {
		more, busy := q.tryTake()
		switch {
		case busy:
			time.Sleep(finishPause)
		case !more:
			return
		}
	}
}

// take hands a batch to the engine, and reports whether it should be called again.
func (q *sendQueue) take() (more bool) {
	more, _ = q.tryTake()
	return more
}

// tryTake is take. It reports whether another thread is at work, which looks again.
func (q *sendQueue) tryTake() (more, busy bool) {
	n := q.doorbells.Add(1)
	if n != 1 {
		return false, true
	}
	if q.running.Load() {
		b := batches.Get().(*batch)
		more = q.takeBatch(b)
		b.release()
		batches.Put(b)
	}
	if !q.doorbells.CompareAndSwap(n, 0) {
		q.doorbells.Store(0)
		more = true
	}
	return more, false
}

func (q *sendQueue) takeBatch(b *batch) (more bool) {
	q.mu.Lock()
	b.from, b.epoch = q.next, q.epoch
	q.mu.Unlock()
	posted, err := q.read(b)
	switch {
	case err != nil || posted > int(q.mask)+1:
		q.fail()
		return false
	case posted == 0:
		return false
	}
	used := q.decode(b, min(posted, batchBlocks))
	n, err := q.post(b)
	blocks := 0
	for i := range n {
		blocks += int(b.reqs[i].blocks)
	}
	q.mu.Lock()
	if q.epoch == b.epoch {
		q.next += uint16(blocks)
	}
	q.mu.Unlock()
	switch {
	case err == nil:
		q.full.Store(false)
		return used < posted
	case errors.Is(err, rxe.ErrFull):
		return !q.full.Swap(true) // once more: a completion may have come before full was set
	default:
		return false // the queue pair does not send: what is posted stays
	}
}

// read reads the record and the blocks behind next, and returns how many are posted: more than the
// queue has if the record is nonsense. Most programs post few at once, so one access is enough.
func (q *sendQueue) read(b *batch) (posted int, err error) {
	b.spans = append(b.spans[:0], rxe.Span{VA: q.record + qpRecordSend, Buf: b.record[:]})
	b.spans = q.place(b.spans, b.from, b.blocks[:min(firstBlocks, q.mask+1)<<blockShift])
	if err := q.space.ReadV(b.spans); err != nil {
		return 0, err
	}
	posted = int(uint16(binary.BigEndian.Uint32(b.record[:])) - b.from)
	if n := min(posted, batchBlocks, int(q.mask)+1); n > firstBlocks {
		rest := b.blocks[firstBlocks<<blockShift : n<<blockShift]
		err = q.space.ReadV(q.place(b.spans[:0], b.from+firstBlocks, rest))
	}
	return posted, err
}

// place adds the spans of the blocks that begin at an index.
func (q *sendQueue) place(spans []rxe.Span, at uint16, buf []byte) []rxe.Span {
	first := uint32(at) & q.mask
	if end := int(q.mask+1-first) << blockShift; end < len(buf) {
		spans = append(spans, rxe.Span{VA: q.buf + uint64(first)<<blockShift, Buf: buf[:end]})
		first, buf = 0, buf[end:]
	}
	return append(spans, rxe.Span{VA: q.buf + uint64(first)<<blockShift, Buf: buf})
}

// decode makes work requests of the first n blocks of b, and returns how many it has used. The last
// request may not be there as a whole. After one whose place in the queue is not known, there is
// nothing more.
func (q *sendQueue) decode(b *batch, n int) (used int) {
	b.wrs = b.wrs[:0]
	for used < n {
		r := &b.reqs[len(b.wrs)]
		at := b.from + uint16(used)
		raw := b.blocks[used<<blockShift : n<<blockShift]
		r.blocks = q.dec.blocksOf(raw, at)
		cut := int(r.blocks) > n-used
		switch {
		case cut && (used > 0 || n == batchBlocks):
			return used
		case cut || r.blocks == 0: // the program has posted the beginning of a request, or nonsense
			q.dev.QueueScribbled()
			r.wr = rxe.SendWR{ID: newID(0, q.dec.user, raw[3], at), Op: rxe.WRSend, Status: rxe.WCLocQPOpErr}
			r.blocks = uint16(n - used)
		default:
			q.dec.decode(r, raw, at)
			q.lookUp(r, at)
		}
		r.wr.ID = withBlocks(r.wr.ID, r.blocks)
		b.wrs = append(b.wrs, r.wr)
		used += int(r.blocks)
	}
	return used
}

// lookUp finds what the request names.
func (q *sendQueue) lookUp(r *request, at uint16) {
	wr := &r.wr
	switch {
	case wr.Status != rxe.WCSuccess || wr.Op == rxe.WRNop:
	case q.dec.typ == rxe.QPUD:
		wr.AH = q.avs.Get(q.keys.PD(), r.av)
		if wr.AH == nil {
			wr.Status = rxe.WCLocQPOpErr
		}
	case wr.Bind != nil:
		wr.Bind.MW = q.keys.MWByRKey(r.window)
		if wr.Bind.Length != 0 {
			wr.Bind.MR = q.keys.MRByLKey(r.region)
		}
		if wr.Bind.MW == nil {
			wr.Status, wr.Bind = rxe.WCMWBindErr, nil
		}
	}
	if wr.Status == rxe.WCSuccess && len(r.stored) > 0 {
		wr.Status = q.name(r, at)
	}
}

// post gives the batch to the engine, and returns how much of it was taken. A work request that the
// engine refuses becomes one that fails in its turn; an error is about the queue pair.
func (q *sendQueue) post(b *batch) (int, error) {
	at := 0
	for {
		n, err := q.qp.PostSend(b.wrs[at:])
		at += n
		if err == nil || at == len(b.wrs) {
			return at, err
		}
		var op *rxe.OpError
		if b.wrs[at].Status != rxe.WCSuccess || !errors.Is(err, rxe.ErrInvalid) || !errors.As(err, &op) || op.Arg == "qp" {
			return at, err
		}
		b.wrs[at].Status = rxe.WCLocQPOpErr
		if op.Limit == rxe.LimitMsgSize {
			b.wrs[at].Status = rxe.WCLocLenErr
		}
	}
}

// fail puts the queue pair into the error state: its queue or its record cannot be read, or say
// what cannot be.
func (q *sendQueue) fail() {
	q.dev.QueueScribbled()
	if q.running.Load() {
		_ = q.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState) // it may be in RESET by now
	}
}

// done is rxe.QPInitAttr.OnSendDone. The queue pair is locked.
func (q *sendQueue) done(uint32) {
	if q.full.Load() && q.full.CompareAndSwap(true, false) {
		q.budget.Background(q.serve)
	}
}

// reset forgets what is in the queue. libmlx5 begins at 0 again.
func (q *sendQueue) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = 0
	q.epoch++
}

// storedKey is a region over the send queue itself, for requests whose list has pieces in the queue
// and in other memory. It is made for the first of them.
type storedKey struct {
	mu sync.Mutex // a leaf lock except for those of the device
	mr *rxe.MR
}

// name gives such pieces addresses in the region.
func (q *sendQueue) name(r *request, at uint16) rxe.WCStatus {
	key, ok := q.storedRegion()
	if !ok {
		return rxe.WCLocProtErr
	}
	size := uint64(q.mask+1) << blockShift
	begin := uint64(uint32(at)&q.mask) << blockShift
	list := make([]rxe.SGE, 0, len(r.sgl)+1)
	for i := range r.sgl {
		if len(r.stored) == 0 || r.stored[0].index != i {
			list = append(list, r.sgl[i])
			continue
		}
		from, n := begin+uint64(r.stored[0].off), uint64(r.stored[0].n)
		r.stored = r.stored[1:]
		if from < size && from+n > size { // the queue's end is within the piece
			first := size - from
			list = append(list, rxe.SGE{Addr: q.buf + from, Length: uint32(first), LKey: key})
			from, n = 0, n-first
		}
		list = append(list, rxe.SGE{Addr: q.buf + from%size, Length: uint32(n), LKey: key})
	}
	r.wr.SGL = list
	return rxe.WCSuccess
}

func (q *sendQueue) storedRegion() (wire.LKey, bool) {
	q.stored.mu.Lock()
	defer q.stored.mu.Unlock()
	if q.stored.mr == nil {
		mr, err := q.keys.PD().RegMR(q.space, q.buf, uint64(q.mask+1)<<blockShift, q.buf, 0)
		if err != nil {
			return 0, false
		}
		q.stored.mr = mr
	}
	return q.stored.mr.LKey(), true
}

// close gives back what was made for the queue.
func (q *sendQueue) close() {
	q.running.Store(false)
	q.avs.Close()
	q.stored.mu.Lock()
	defer q.stored.mu.Unlock()
	if q.stored.mr != nil {
		_ = q.stored.mr.Dereg() // may be gone with the device
	}
}

// index returns the index of the first block that the engine does not have.
func (q *sendQueue) index() uint16 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next
}

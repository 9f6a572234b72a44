package uverbs

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// What a program's side of a queue does, librxe in its place: it maps the queue
// by its mminfo, knows its geometry from the shared page, and touches it with
// plain and atomic accesses. Its structs are written down here a second time, as
// C has them, so that nothing of the code under test is used.

type cSendWQE struct {
	id     uint64
	_      uint32
	opcode uint32
	flags  uint32
	ex     [4]byte
	wr     [120]byte
	_      [8]byte // status, state
	iova   uint64
	_      [24]byte
	dma    cDMA
}

type cRecvWQE struct {
	id  uint64
	_   uint64
	dma cDMA
}

type cDMA struct {
	length, resid, curSGE, numSGE, sgeOffset, _ uint32
}

type cWC struct {
	id                                 uint64
	status, opcode, vendorErr, byteLen uint32
	ex                                 [4]byte
	qpn, srcQP, flags                  uint32
	pkeyIndex, _                       uint16
	sl, _, port, _                     uint8
}

// clientQueue is a mapped queue. Its geometry is read once, where librxe reads it
// each time: tests overwrite it.
type clientQueue struct {
	mem   []byte
	slots uint32 // less one
	shift uint32
}

// mapQueue is librxe's mmap of a queue.
func mapQueue(t testing.TB, fd int, off uint64, size uint32) *clientQueue {
	t.Helper()
	mem, err := unix.Mmap(fd, int64(off), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	q := &clientQueue{mem: mem}
	q.shift, q.slots = *q.word(0), q.mask()
	return q
}

func (q *clientQueue) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&q.mem[off])) }
func (q *clientQueue) mask() uint32         { return *q.word(4) }
func (q *clientQueue) producer() uint32     { return atomic.LoadUint32(q.word(128)) }
func (q *clientQueue) consumer() uint32     { return atomic.LoadUint32(q.word(256)) }
func (q *clientQueue) setProducer(i uint32) { atomic.StoreUint32(q.word(128), i) }
func (q *clientQueue) setConsumer(i uint32) { atomic.StoreUint32(q.word(256), i) }
func (q *clientQueue) full() bool           { return q.consumer() == (q.producer()+1)&q.slots }
func (q *clientQueue) empty() bool          { return q.consumer() == q.producer() }
func (q *clientQueue) advanceProducer()     { q.setProducer((q.producer() + 1) & q.slots) }
func (q *clientQueue) advanceConsumer()     { q.setConsumer((q.consumer() + 1) & q.slots) }
func (q *clientQueue) elem(i uint32) []byte { return q.mem[384+(i&q.slots)<<q.shift:] }
func (q *clientQueue) next() []byte         { return q.elem(q.producer()) }
func at[T any](b []byte) *T                 { return (*T)(unsafe.Pointer(&b[0])) }
func putSGL(b []byte, sgl []rxe.SGE) (n uint32) {
	for i, s := range sgl {
		binary.NativeEndian.PutUint64(b[16*i:], s.Addr)
		binary.NativeEndian.PutUint32(b[16*i+8:], s.Length)
		binary.NativeEndian.PutUint32(b[16*i+12:], uint32(s.LKey))
		n += s.Length
	}
	return n
}

// postRecv is ibv_post_recv of one request: false if the queue is full.
func (q *clientQueue) postRecv(id uint64, sgl ...rxe.SGE) bool {
	if q.full() {
		return false
	}
	b := q.next()
	w := at[cRecvWQE](b)
	w.id = id
	n := putSGL(b[unsafe.Sizeof(*w):], sgl)
	w.dma = cDMA{length: n, resid: n, numSGE: uint32(len(sgl))}
	q.advanceProducer()
	return true
}

// poll is ibv_poll_cq of one completion.
func (q *clientQueue) poll() (cWC, bool) {
	if q.empty() {
		return cWC{}, false
	}
	wc := *at[cWC](q.elem(q.consumer()))
	q.advanceConsumer()
	return wc, true
}

// sendWR is a request for postSend: rxe's, and what C says by other means.
type sendWR struct {
	rxe.SendWR
	ahNum      uint32
	av         []byte // instead of ahNum
	mwRKey     uint32 // BIND MW: the window's present key
	bindRKey   uint32 // and its next
	mrLKey     uint32
	bindAddr   uint64
	bindLength uint64
	bindAccess uint32
	noFlag     bool // ibv_wr_set_inline_data
	// edit spoils the WQE before it is handed over.
	edit func(w *cSendWQE, payload []byte)
}

// postSend is ibv_post_send, or the ibv_wr functions, of one request, up to the
// doorbell: false if the queue is full.
func (q *clientQueue) postSend(wr *sendWR) bool {
	if q.full() {
		return false
	}
	b := q.next()
	w := at[cSendWQE](b)
	*w = cSendWQE{id: wr.ID, opcode: uint32(wr.Op), flags: uint32(wr.Flags), iova: wr.RemoteAddr}
	payload := b[unsafe.Sizeof(*w):]
	ne := binary.NativeEndian
	switch wr.Op {
	case rxe.WRWriteImm, rxe.WRSendImm:
		binary.BigEndian.PutUint32(w.ex[:], wr.Imm)
	default:
		ne.PutUint32(w.ex[:], uint32(wr.InvRKey))
	}
	u := w.wr[:]
	ne.PutUint64(u, wr.RemoteAddr)
	switch wr.Op {
	case rxe.WRCompareSwap, rxe.WRFetchAdd:
		ne.PutUint64(u[8:], wr.CompareAdd)
		ne.PutUint64(u[16:], wr.Swap)
		ne.PutUint32(u[24:], uint32(wr.RKey))
	case rxe.WRFlush:
		ne.PutUint32(u[12:], uint32(wr.RKey))
		u[16], u[17] = wr.FlushType, wr.FlushLevel
	case rxe.WRBindMW:
		ne.PutUint64(u, wr.bindAddr)
		ne.PutUint64(u[8:], wr.bindLength)
		ne.PutUint32(u[16:], wr.mrLKey)
		ne.PutUint32(u[20:], wr.mwRKey)
		ne.PutUint32(u[24:], wr.bindRKey)
		ne.PutUint32(u[28:], wr.bindAccess)
	case rxe.WRSend, rxe.WRSendImm:
		ne.PutUint32(u, uint32(wr.RemoteQPN))
		ne.PutUint32(u[4:], wr.RemoteQKey)
		ne.PutUint32(u[12:], wr.ahNum)
		copy(u[32:], wr.av)
	default:
		ne.PutUint32(u[8:], uint32(wr.RKey))
	}
	switch {
	case wr.Flags&rxe.SendInline != 0:
		n := uint32(copy(payload, wr.Inline))
		w.dma = cDMA{length: n, resid: n, numSGE: uint32(len(wr.SGL))}
		if wr.noFlag {
			w.flags &^= uint32(rxe.SendInline)
		}
	case wr.Op == rxe.WRAtomicWrite:
		ne.PutUint64(payload, wr.AtomicWrite)
		w.dma = cDMA{length: 8, resid: 8}
	case wr.Op == rxe.WRFlush:
		w.dma = cDMA{length: wr.FlushLength, resid: wr.FlushLength}
	default:
		n := putSGL(payload, wr.SGL)
		w.dma = cDMA{length: n, resid: n, numSGE: uint32(len(wr.SGL))}
	}
	if wr.edit != nil {
		wr.edit(w, payload)
	}
	q.advanceProducer()
	return true
}

// av is struct rxe_av as librxe before rdma-core 37 fills it.
func av(dgid wire.GID, sgidIndex uint8) []byte {
	b := make([]byte, 88)
	b[0], b[1] = 1, 1
	copy(b[8:], dgid[:])
	b[28], b[29] = sgidIndex, 64
	return b
}

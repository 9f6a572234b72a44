// Package librxeclient does what librxe does in a program, for tests. It maps a queue by
// its mminfo, knows its geometry from the shared page, and accesses it with plain and
// atomic operations. Its structs are written here a second time, as in C, so the tests use
// nothing of the code under test.
package librxeclient

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// SendWQE is struct rxe_send_wqe without its list.
type SendWQE struct {
	ID     uint64
	_      uint32
	Opcode uint32
	Flags  uint32
	Ex     [4]byte
	wr     [120]byte
	_      [8]byte // status, state
	IOVA   uint64
	_      [24]byte
	DMA    DMA
}

// RecvWQE is struct rxe_recv_wqe without its list.
type RecvWQE struct {
	ID  uint64
	_   uint64
	Dma DMA
}

// DMA is struct rxe_dma_info.
type DMA struct {
	Length, Resid, CurSGE, NumSGE, SgeOffset, _ uint32
}

// WC is struct ib_uverbs_wc.
type WC struct {
	ID                                 uint64
	Status, Opcode, VendorErr, ByteLen uint32
	Ex                                 [4]byte
	QPN, SrcQP, Flags                  uint32
	PKeyIndex, _                       uint16
	SL, _, Port, _                     uint8
}

// Queue is a mapped queue. Its geometry is read once, where librxe reads it
// each time: tests overwrite it.
type Queue struct {
	Mem   []byte
	Slots uint32 // less one
	shift uint32
}

// Map is librxe's mmap of a queue.
func Map(t testing.TB, fd int, off uint64, size uint32) *Queue {
	t.Helper()
	mem, err := unix.Mmap(fd, int64(off), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	q := &Queue{Mem: mem}
	q.shift, q.Slots = *q.Word(0), q.Mask()
	return q
}

func (q *Queue) Word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&q.Mem[off])) }
func (q *Queue) Mask() uint32         { return *q.Word(4) }
func (q *Queue) Producer() uint32     { return atomic.LoadUint32(q.Word(128)) }
func (q *Queue) Consumer() uint32     { return atomic.LoadUint32(q.Word(256)) }
func (q *Queue) SetProducer(i uint32) { atomic.StoreUint32(q.Word(128), i) }
func (q *Queue) SetConsumer(i uint32) { atomic.StoreUint32(q.Word(256), i) }
func (q *Queue) full() bool           { return q.Consumer() == (q.Producer()+1)&q.Slots }
func (q *Queue) Empty() bool          { return q.Consumer() == q.Producer() }
func (q *Queue) AdvanceProducer()     { q.SetProducer((q.Producer() + 1) & q.Slots) }
func (q *Queue) AdvanceConsumer()     { q.SetConsumer((q.Consumer() + 1) & q.Slots) }
func (q *Queue) Elem(i uint32) []byte { return q.Mem[384+(i&q.Slots)<<q.shift:] }
func (q *Queue) Next() []byte         { return q.Elem(q.Producer()) }
func At[T any](b []byte) *T           { return (*T)(unsafe.Pointer(&b[0])) }
func PutSGL(b []byte, sgl []rxe.SGE) (n uint32) {
	for i, s := range sgl {
		binary.NativeEndian.PutUint64(b[16*i:], s.Addr)
		binary.NativeEndian.PutUint32(b[16*i+8:], s.Length)
		binary.NativeEndian.PutUint32(b[16*i+12:], uint32(s.LKey))
		n += s.Length
	}
	return n
}

// PostRecv is ibv_post_recv of one request: false if the queue is full.
func (q *Queue) PostRecv(id uint64, sgl ...rxe.SGE) bool {
	if q.full() {
		return false
	}
	b := q.Next()
	w := At[RecvWQE](b)
	w.ID = id
	n := PutSGL(b[unsafe.Sizeof(*w):], sgl)
	w.Dma = DMA{Length: n, Resid: n, NumSGE: uint32(len(sgl))}
	q.AdvanceProducer()
	return true
}

// Poll is ibv_poll_cq of one completion.
func (q *Queue) Poll() (WC, bool) {
	if q.Empty() {
		return WC{}, false
	}
	wc := *At[WC](q.Elem(q.Consumer()))
	q.AdvanceConsumer()
	return wc, true
}

// SendWR is a request for PostSend: rxe's, and what C says by other means.
type SendWR struct {
	rxe.SendWR
	AHNum      uint32
	AV         []byte // instead of AHNum
	MWRKey     uint32 // BIND MW: the window's present key
	BindRKey   uint32 // and its next
	MRLKey     uint32
	BindAddr   uint64
	BindLength uint64
	BindAccess uint32
	NoFlag     bool // ibv_wr_set_inline_data
	// Edit spoils the WQE before it is handed over.
	Edit func(w *SendWQE, payload []byte)
}

// PostSend is ibv_post_send, or the ibv_wr functions, of one request, up to the
// doorbell: false if the queue is full.
func (q *Queue) PostSend(wr *SendWR) bool {
	if q.full() {
		return false
	}
	b := q.Next()
	w := At[SendWQE](b)
	*w = SendWQE{ID: wr.ID, Opcode: uint32(wr.Op), Flags: uint32(wr.Flags), IOVA: wr.RemoteAddr}
	payload := b[unsafe.Sizeof(*w):]
	ne := binary.NativeEndian
	switch wr.Op {
	case rxe.WRWriteImm, rxe.WRSendImm:
		binary.BigEndian.PutUint32(w.Ex[:], wr.Imm)
	default:
		ne.PutUint32(w.Ex[:], uint32(wr.InvRKey))
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
		ne.PutUint64(u, wr.BindAddr)
		ne.PutUint64(u[8:], wr.BindLength)
		ne.PutUint32(u[16:], wr.MRLKey)
		ne.PutUint32(u[20:], wr.MWRKey)
		ne.PutUint32(u[24:], wr.BindRKey)
		ne.PutUint32(u[28:], wr.BindAccess)
	case rxe.WRSend, rxe.WRSendImm:
		ne.PutUint32(u, uint32(wr.RemoteQPN))
		ne.PutUint32(u[4:], wr.RemoteQKey)
		ne.PutUint32(u[12:], wr.AHNum)
		copy(u[32:], wr.AV)
	default:
		ne.PutUint32(u[8:], uint32(wr.RKey))
	}
	switch {
	case wr.Flags&rxe.SendInline != 0:
		n := uint32(copy(payload, wr.Inline))
		w.DMA = DMA{Length: n, Resid: n, NumSGE: uint32(len(wr.SGL))}
		if wr.NoFlag {
			w.Flags &^= uint32(rxe.SendInline)
		}
	case wr.Op == rxe.WRAtomicWrite:
		ne.PutUint64(payload, wr.AtomicWrite)
		w.DMA = DMA{Length: 8, Resid: 8}
	case wr.Op == rxe.WRFlush:
		w.DMA = DMA{Length: wr.FlushLength, Resid: wr.FlushLength}
	default:
		n := PutSGL(payload, wr.SGL)
		w.DMA = DMA{Length: n, Resid: n, NumSGE: uint32(len(wr.SGL))}
	}
	if wr.Edit != nil {
		wr.Edit(w, payload)
	}
	q.AdvanceProducer()
	return true
}

// AV is struct rxe_av as librxe before rdma-core 37 fills it.
func AV(dgid wire.GID, sgidIndex uint8) []byte {
	b := make([]byte, 88)
	b[0], b[1] = 1, 1
	copy(b[8:], dgid[:])
	b[28], b[29] = sgidIndex, 64
	return b
}

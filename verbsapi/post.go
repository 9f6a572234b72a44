package verbsapi

import (
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// SendWR is a send work request (struct ibv_send_wr). PostSend copies all of it
// except the memory that SGL names. It differs from rxe.SendWR in the objects that
// it refers to, an AH and a MWBind of this package; sendScratch.add is the only
// place that converts one to the other.
type SendWR struct {
	ID     uint64
	Op     WROpcode
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // the data itself, with SendInline; SGL is then ignored

	Imm     uint32 // immediate data, host order
	InvRKey RKey   // SEND with invalidate, LOCAL INV

	RemoteAddr  uint64 // WRITE, READ, atomics, ATOMIC WRITE, FLUSH
	RKey        RKey   // the same operations
	CompareAdd  uint64 // compare value, or what is added
	Swap        uint64
	AtomicWrite uint64 // ATOMIC WRITE without SGL or inline data: the 8 bytes, host order
	FlushType   uint8  // FLUSH: 1 global visibility, 2 persistence
	FlushLevel  uint8  // FLUSH: 0 range, 1 whole region
	FlushLength uint32 // FLUSH of a range, bytes

	AH         *AH // UD
	RemoteQPN  QPN
	RemoteQKey uint32

	XRCSRQN uint32 // XRC: SRQ.Num

	Bind *MWBind // BIND MW

	Frame FrameSend // QPRaw: what the device does with the frame
	// Header is the beginning of a frame of a QPRaw, before SGL or Inline. With what is inline it
	// has at most Cap.MaxInlineData bytes.
	Header []byte
}

// sendScratch holds work requests, as the engine has them, during PostSend.
type sendScratch struct {
	wrs   []rxe.SendWR
	binds []rxe.MWBind
}

var scratchPool = sync.Pool{New: func() any { return new(sendScratch) }}

// PostSend queues send work requests, in order (ibv_post_send), and returns how
// many. With an error, that is the position of the bad one. It returns ErrFull when
// the queue is full, and ErrInvalid for a request that this queue pair cannot do,
// or not in its state.
func (q *QP) PostSend(wrs []SendWR) (n int, err error) {
	if err := q.ctx.verb("PostSend", "post_send"); err != nil {
		return 0, err
	}
	s := scratchPool.Get().(*sendScratch)
	for i := range wrs {
		s.add(&wrs[i])
	}
	q.ctx.watch.posting(q.qp)
	n, err = q.qp.PostSend(s.wrs)
	// The pool must not keep anything of the caller's alive.
	clear(s.wrs)
	clear(s.binds)
	s.wrs, s.binds = s.wrs[:0], s.binds[:0]
	scratchPool.Put(s)
	return n, err
}

func (s *sendScratch) add(wr *SendWR) {
	s.wrs = append(s.wrs, rxe.SendWR{
		ID: wr.ID, Op: wr.Op, Flags: wr.Flags, SGL: wr.SGL, Inline: wr.Inline,
		Imm: wr.Imm, InvRKey: wr.InvRKey,
		RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
		CompareAdd: wr.CompareAdd, Swap: wr.Swap, AtomicWrite: wr.AtomicWrite,
		FlushType: wr.FlushType, FlushLevel: wr.FlushLevel, FlushLength: wr.FlushLength,
		RemoteQPN: wr.RemoteQPN, RemoteQKey: wr.RemoteQKey, XRCSRQN: wr.XRCSRQN, Header: wr.Header,
	})
	r := &s.wrs[len(s.wrs)-1]
	if wr.Frame != (FrameSend{}) {
		r.RemoteAddr = wr.Frame.Word()
	}
	if wr.AH != nil {
		r.AH = wr.AH.ah
	}
	if b := wr.Bind; b != nil {
		bind := rxe.MWBind{RKey: b.RKey, Addr: b.Addr, Length: b.Length, Access: b.Access}
		if b.MW != nil {
			bind.MW = b.MW.mw
		}
		if b.MR != nil {
			bind.MR = b.MR.mr
		}
		// Growing moves the earlier binds, which stay valid in their old place.
		s.binds = append(s.binds, bind)
		r.Bind = &s.binds[len(s.binds)-1]
	}
}

// PostRecv queues receive work requests (ibv_post_recv) and returns how many. With
// an error, that is the position of the bad one. It returns ErrFull when the queue
// is full, and ErrInvalid in RESET and for a queue pair with an SRQ.
func (q *QP) PostRecv(wrs []RecvWR) (n int, err error) { return q.qp.PostRecv(wrs) }

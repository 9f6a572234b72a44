package librxe

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// struct ib_uverbs_wc, which is struct ibv_wc to the program.
const (
	wcID        = 0
	wcStatus    = 8
	wcOpcode    = 12
	wcVendorErr = 16
	wcByteLen   = 20
	wcEx        = 24 // imm_data in network order, or invalidate_rkey
	wcQPN       = 28
	wcSrcQP     = 32
	wcFlags     = 36
	wcPKeyIndex = 40
	wcSLID      = 42
	wcSL        = 44
	wcPathBits  = 45
	wcPort      = 46
	wcSize      = 48
)

// wcRecvBit is set in the opcodes of receive completions (IBV_WC_RECV).
const wcRecvBit = rxe.WCRecv

// cqRing is a completion queue in the program's memory. The daemon produces.
type cqRing struct {
	ring
	prod  uint32
	taken uint32 // the consumer's index when the daemon last looked
	// overrun, if not nil, is called when the consumer's index has passed prod. A QP
	// may be locked: it must not block.
	overrun func()
	cqe     [wcSize]byte
}

// newCQRing makes a completion queue for at least entries completions.
func newCQRing(a *arena, entries int) (*cqRing, error) {
	if entries < 1 {
		return nil, fmt.Errorf("completion queue of %d entries: %w", entries, unix.EINVAL)
	}
	r, err := newRing(a, uint64(entries), wcSize)
	if err != nil {
		return nil, err
	}
	return &cqRing{ring: r}, nil
}

// Push is rxe.CQRing.
func (r *cqRing) Push(wc *rxe.WC) bool {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return false
	}
	// Of a full queue, too, the slot at prod is empty.
	encodeWC(&r.cqe, wc)
	copy(r.slot(r.prod), r.cqe[:])
	// The consumer's index is read as late as possible: an index that passes the
	// producer's between the two steps below looks like one that took this completion.
	if r.distance(r.settle(), r.prod) == r.mask {
		return false
	}
	r.prod = (r.prod + 1) & r.mask
	r.setProducer(r.prod)
	return true
}

// settle reads the consumer's index. The program can take what was put in, so the
// index lies between taken and prod. If it has passed prod, settle puts it back there
// and calls overrun.
//
// librxe before rdma-core 55 passes it: after ibv_next_poll has returned ENOENT,
// ibv_end_poll moves the index once more (providers/rxe/rxe.c:cq_next_poll,
// cq_end_poll). The program then takes stale completions for new ones, and does not
// see the next new one. It stores the index for the last time when its poll ends, so
// the index can be put back if the program does not poll at that moment. If it does,
// its next store prevails.
//
// An index that went back is the program's own doing. The program gets again what it
// took.
func (r *cqRing) settle() uint32 {
	cons := r.consumer()
	passed := r.distance(r.taken, cons) > r.distance(r.taken, r.prod)
	if passed && r.distance(r.prod, cons) <= r.distance(cons, r.taken) {
		cons = r.prod
		r.setConsumer(cons)
		if r.overrun != nil {
			r.overrun()
		}
	}
	r.taken = cons
	return cons
}

// repair puts a consumer's index back that has passed the producer's.
func (r *cqRing) repair() {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem != nil {
		r.settle()
	}
}

// encodeWC is make_send_cqe and do_complete of rdma_rxe: after an error nothing
// but its four fields is set. Two things are not rdma_rxe's: the service level of a datagram
// (rxe.SLRoCEv2IPv4), and that receives of connected queue pairs are not marked as having a GRH.
func encodeWC(b *[wcSize]byte, wc *rxe.WC) {
	clear(b[:])
	ne := binary.NativeEndian
	ne.PutUint64(b[wcID:], wc.ID)
	ne.PutUint32(b[wcStatus:], uint32(wc.Status))
	ne.PutUint32(b[wcVendorErr:], wc.VendorErr)
	ne.PutUint32(b[wcQPN:], uint32(wc.QPN))
	if wc.Status != rxe.WCSuccess {
		return
	}
	ne.PutUint32(b[wcOpcode:], uint32(wc.Opcode))
	ne.PutUint32(b[wcByteLen:], wc.ByteLen)
	if wc.Flags&rxe.WCWithInv != 0 {
		ne.PutUint32(b[wcEx:], uint32(wc.InvRKey))
	} else {
		binary.BigEndian.PutUint32(b[wcEx:], wc.Imm)
	}
	if wc.Opcode&wcRecvBit != 0 {
		ne.PutUint32(b[wcSrcQP:], uint32(wc.SrcQP))
		b[wcSL], b[wcPort] = wc.SL, 1
	}
	ne.PutUint32(b[wcFlags:], uint32(wc.Flags))
	ne.PutUint16(b[wcPKeyIndex:], wc.PKeyIndex)
}

// move fills a new ring, which only the caller knows, with the completions that wait in
// from. It leaves from as it is, and returns EINVAL if they do not fit. The engine pushes
// nothing meanwhile (rxe.CQ.ReplaceRing). A program that polls meanwhile gets again what
// it took, as with rdma_rxe (resize_finish); librxe holds its lock.
func (r *cqRing) move(from *cqRing) error {
	defer r.piece.unlock(r.piece.lock())
	defer from.piece.unlock(from.piece.lock())
	if from.piece.mem == nil || r.piece.mem == nil {
		return refuse("cq", "was destroyed during the call", "resize it before destroy_cq")
	}
	n := moveSlots(&r.ring, &from.ring, from.settle(), from.prod)
	if n < 0 {
		return refuse("cqe", "is less than the completions that wait", "poll completions first")
	}
	r.prod = uint32(n)
	r.setProducer(r.prod)
	return nil
}

// moveSlots copies the slots from first up to last to the beginning of an empty
// ring, and returns how many they were; -1 if they do not fit.
func moveSlots(to, from *ring, first, last uint32) int {
	n := from.distance(first, last)
	if n > to.mask {
		return -1
	}
	for i := range n {
		copy(to.slot(i), from.slot(first + i)[:from.size])
	}
	return int(n)
}

// progress returns the consumer's index, and whether completions wait.
func (r *cqRing) progress() (consumer uint32, waiting bool) {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return 0, false
	}
	consumer = r.consumer()
	return consumer, consumer != r.prod
}

// Waiting is rxe.CQRing.
func (r *cqRing) Waiting() int {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return 0
	}
	return int(r.distance(r.settle(), r.prod))
}

package librxe

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// noShare is for batches that are bounded otherwise.
const noShare = math.MaxInt

// sendBatch is the work of a doorbell: work requests as the engine takes them, and what
// they refer to. A WQE is copied, and the copy decoded at once, so there is one copy at
// a time.
type sendBatch struct {
	wrs   []rxe.SendWR // those in use, of all
	epoch uint32       // of the ring, when they were fetched
	end   uint32       // the producer's index then
	worth int          // of them all (provider.Share)
	all   [sendBatchSize]rxe.SendWR
	refs  [sendBatchSize]references

	overdue bool // the first one has waited for a credit for long enough
	told    bool // the engine has refused all these before, and take has said so

	head sendHead // the WQE at hand
	list [maxQueueSGE * sgeSize]byte
}

// references is what one work request refers to.
type references struct {
	inline [maxQueueSGE * sgeSize]byte
	sgl    [maxQueueSGE]rxe.SGE
	bind   rxe.MWBind
	names  names
}

// names are what a work request names and the engine does not look up itself. Looking
// them up takes locks, so it follows when the queue is not locked any more.
type names struct {
	mwRKey, mrLKey uint32 // of BIND MW
	ahNum          uint32 // of a datagram; 0: av
	av             rxe.AHAttr
}

var sendBatches = sync.Pool{New: func() any { return new(sendBatch) }}

// reset empties the batch. What its work requests refer to must not live on with it.
func (b *sendBatch) reset() {
	for i := range b.wrs {
		b.refs[i].bind = rxe.MWBind{}
	}
	clear(b.wrs)
	b.wrs, b.worth, b.overdue, b.told = b.all[:0], 0, false, false
}

// fetch fills b with the next work requests: at most max, no more than b holds, and
// after the first no more than share.
func (r *sendRing) fetch(b *sendBatch, max uint32, share int) {
	typ := r.qp.Type()
	b.reset()
	r.decode(b, typ, max, share)
	for i := range b.wrs {
		r.lookUp(&b.wrs[i], &b.refs[i], typ)
	}
}

// decode makes work requests of WQEs, and copies each byte of these once.
func (r *sendRing) decode(b *sendBatch, typ rxe.QPType, max uint32, share int) {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return
	}
	b.epoch, b.end = r.epoch, r.producer()
	b.overdue = r.state == sendNoCredit && r.qp.Now()-r.since >= rxe.Time(creditWait)
	b.told = r.state == sendRefused && r.refused == b.end
	for range min(r.distance(r.fetched, b.end), max, sendBatchSize) {
		n := len(b.wrs)
		wr := &b.all[n]
		wr.Status = r.decodeOne(b, wr, &b.refs[n], typ)
		worth := worthOf(wr)
		if n > 0 && b.worth+worth > share {
			return
		}
		b.worth += worth
		b.wrs = b.all[:n+1]
		r.fetched = (r.fetched + 1) & r.mask
	}
}

// decodeOne makes a work request of the next WQE. Its result, if it is not WCSuccess, is
// what rdma_rxe completes such a WQE with.
func (r *sendRing) decodeOne(b *sendBatch, wr *rxe.SendWR, refs *references, typ rxe.QPType) rxe.WCStatus {
	slot := r.slot(r.fetched)
	copy(b.head[:], slot)
	kind, size := b.head.payload()
	if status := b.head.fill(wr, refs, typ); status != rxe.WCSuccess {
		return status
	}
	if size > r.maxInline || kind == payloadSGL && b.head.u32(sendNumSGE) > r.maxSGE {
		return rxe.WCLocQPOpErr
	}
	from := slot[sendPayload : sendPayload+size]
	switch kind {
	case payloadInline:
		copy(refs.inline[:], from)
		if wr.Op == rxe.WRAtomicWrite {
			wr.AtomicWrite = binary.NativeEndian.Uint64(refs.inline[:])
		} else {
			wr.Flags |= rxe.SendInline
			wr.Inline = refs.inline[:size]
		}
	case payloadSGL:
		copy(b.list[:], from)
		return setSGL(wr, b.list[:size], refs.sgl[:size/sgeSize])
	case payloadNone:
	}
	return rxe.WCSuccess
}

// worthOf returns the part of provider.Share that a work request takes.
func worthOf(wr *rxe.SendWR) int {
	size := uint64(0)
	for i := range wr.SGL {
		size += uint64(wr.SGL[i].Length)
	}
	return int(max(provider.ShareEach, min(size, provider.Share)))
}

// worthUntil returns what the first n work requests are worth.
func (b *sendBatch) worthUntil(n int) int {
	if n == len(b.wrs) {
		return b.worth
	}
	worth := 0
	for i := range n {
		worth += worthOf(&b.wrs[i])
	}
	return worth
}

// lookUp finds what the work request names.
func (r *sendRing) lookUp(wr *rxe.SendWR, refs *references, typ rxe.QPType) {
	switch {
	case wr.Status != rxe.WCSuccess:
	case typ == rxe.QPUD:
		wr.Status = r.address(&refs.names, wr)
	case wr.Bind != nil:
		wr.Bind.MW = r.keys.MWByRKey(refs.names.mwRKey)
		if wr.Bind.Length != 0 {
			wr.Bind.MR = r.keys.MRByLKey(refs.names.mrLKey)
		}
		if wr.Bind.MW == nil {
			wr.Status, wr.Bind = rxe.WCMWBindErr, nil
		}
	}
}

// address finds the address handle of a datagram (rxe_get_av).
func (r *sendRing) address(n *names, wr *rxe.SendWR) rxe.WCStatus {
	pd := r.keys.PD()
	if n.ahNum != 0 {
		wr.AH = pd.Device().AH(n.ahNum)
	} else {
		wr.AH = r.avs.Get(pd, n.av)
	}
	if wr.AH == nil || wr.AH.PD() != pd {
		return rxe.WCLocQPOpErr
	}
	return rxe.WCSuccess
}

// post gives the batch to the engine and returns how much of it was taken. A
// work request that the engine refuses becomes one that fails in its turn; an
// error is about the QP, or ErrNoCredit if credited is set.
func (b *sendBatch) post(qp *rxe.QP, credited bool) (int, error) {
	post := qp.PostSend
	if credited {
		post = qp.PostSendCredited
	}
	at := 0
	for {
		n, err := post(b.wrs[at:])
		at += n
		if err == nil || at == len(b.wrs) {
			return at, err
		}
		if !aboutWR(err) || b.wrs[at].Status != rxe.WCSuccess {
			return at, err
		}
		b.wrs[at].Status = statusOf(err)
	}
}

// statusOf returns what a work request completes with that PostSend refused.
func statusOf(err error) rxe.WCStatus {
	if op := (*rxe.OpError)(nil); errors.As(err, &op) && op.Limit == rxe.LimitMsgSize {
		return rxe.WCLocLenErr
	}
	return rxe.WCLocQPOpErr
}

// aboutWR says whether an error of PostSend is about a work request, and not
// about the QP.
func aboutWR(err error) bool {
	var op *rxe.OpError
	return errors.Is(err, rxe.ErrInvalid) && errors.As(err, &op) && op.Arg != "qp"
}

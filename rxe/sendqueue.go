package rxe

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// MaxMessage is the longest message, in bytes (IBA 9.4: 2^31).
const MaxMessage = 1 << 31

// sendQueue is the ring of send work requests. Indices run freely: cons is the
// oldest request that has not completed, prod the next free slot.
type sendQueue struct {
	wqes       []sendEntry
	mask       uint32
	depth      uint32 // as the caller asked; at most len(wqes)
	prod, cons uint32
	maxSGE     int
	maxInline  int
}

// sendEntry is a queued send work request: the engine's own copy.
type sendEntry struct {
	id     uint64
	op     WROpcode
	flags  SendFlags
	status WCStatus // of a request that failed before it was sent, or without the peer
	// A request has started once it has its PSNs or was executed. It is done when
	// nothing of it is outstanding.
	started, done bool
	asked         bool   // status is WorkFault's
	length        uint32 // payload bytes, in either direction
	first, last   wire.PSN
	packets       uint32

	sgl    []SGE
	inline []byte

	fault *sendFault // nil: none

	began Time // of a request that is timed

	imm        uint32
	invRKey    wire.RKey
	remoteAddr uint64
	rkey       wire.RKey
	flush      flushArg
	compareAdd uint64
	swap       uint64
	to         destination
	bind       *MWBind
}

// sendFault is what a WorkFault or chaos does to a work request. Few requests have one, so it is
// not a part of the request, and takes no room in the cache.
type sendFault struct {
	vendorErr uint32
	event     EventType     // of WorkFault
	breaks    Breakage      // of WorkFault
	delay     time.Duration // of the completion
	dueAt     Time          // when it completes; 0: at once, or delay has not begun

	wait     time.Duration // before the requester begins with it
	splitAt  uint32        // a packet before which the requester waits; 0: none
	splitFor time.Duration
}

// addFault returns the request's fault, for the caller to fill in.
func (wqe *sendEntry) addFault() *sendFault {
	if wqe.fault == nil {
		wqe.fault = new(sendFault)
	}
	return wqe.fault
}

type flushArg struct{ kind, level uint8 }

// destination is what UD and XRC requests name beside the peer of the QP.
type destination struct {
	route *wire.Route // UD
	num   wire.QPN    // UD: of the queue pair; XRC: of the SRQ
	qkey  uint32      // UD
}

func (s *sendQueue) at(i uint32) *sendEntry { return &s.wqes[i&s.mask] }

func (s *sendQueue) empty() bool { return s.cons == s.prod }

// SendMemory returns an upper bound on the memory of a send queue of these sizes,
// in bytes.
func (c QPCap) SendMemory() int64 {
	c = roundCap(c)
	return int64(sendDepth(c)) * int64(sendEntryBytes+c.MaxSendSGE*sgeBytes+c.MaxInlineData)
}

// sendDepth returns the number of slots of the ring.
func sendDepth(c QPCap) uint32 { return 1 << bits.Len32(max(c.MaxSendWR, 1)-1) }

// init makes the ring. The caller has validated c.
func (s *sendQueue) init(c QPCap) {
	n := sendDepth(c)
	*s = sendQueue{wqes: make([]sendEntry, n), mask: n - 1, depth: c.MaxSendWR,
		maxSGE: int(c.MaxSendSGE), maxInline: int(c.MaxInlineData)}
}

// PostSend queues work requests (ibv_post_send) and returns how many it queued.
// With an error, wrs[n] was refused, and PostSend has not looked at those after it.
// A QP in SQE or ERR completes them with WCFlushErr.
func (q *QP) PostSend(wrs []SendWR) (n int, err error) { return q.post(wrs, false) }

// post is PostSend, or PostSendCredited.
func (q *QP) post(wrs []SendWR, credited bool) (n int, err error) {
	st := q.dev.newStep()
	q.lock()
	most := len(wrs)
	if credited {
		most = q.credited(wrs)
	}
	if n, err = q.postSend(wrs[:most]); err == nil && n < len(wrs) {
		err = ErrNoCredit
	}
	if q.flushes() {
		q.flushSend()
		q.flushLate()
	} else {
		q.runRequester(st)
		q.schedule()
	}
	q.unlock(st)
	st.posted()
	return n, err
}

// flushes reports whether the QP completes posted work requests with WCFlushErr.
func (q *QP) flushes() bool { return q.attr.State == QPErr || q.attr.State == QPSQE }

func (q *QP) postSend(wrs []SendWR) (int, error) {
	if q.dead {
		return 0, opErr("PostSend", "qp", ErrClosed)
	}
	if q.attr.State < QPRTS {
		return 0, invalid("PostSend", "qp", "state "+q.attr.State.String()+" does not send", "take it to RTS first")
	}
	for i := range wrs {
		if q.sq.prod-q.sq.cons >= q.sq.depth {
			return i, opErr("PostSend", "send queue", ErrFull)
		}
		if wrs[i].Status == WCSuccess {
			if err := q.checkSend(&wrs[i]); err != nil {
				q.malformed = err
				return i, err
			}
		}
		wqe := q.sq.at(q.sq.prod)
		wqe.fill(&wrs[i])
		if q.faults != nil && wqe.status == WCSuccess && !q.flushes() {
			if f := q.faults.Work(q, sendWCOpcode[wqe.op]); f != (WorkFault{}) {
				wqe.apply(&f)
			}
		}
		if q.chaos != nil {
			q.chaos.post(wqe, q.payloadMTU())
		}
		q.sq.prod++
		if q.observer != nil {
			q.observer.Posted(q, wqe.posted())
		}
		if w := q.dev.work(); w != nil {
			w.Posted(q, wqe.id, wqe.op, wqe.length)
		}
	}
	return len(wrs), nil
}

// sendOps holds the operations of each transport service (IBA 11.4.1.1, operation
// type matrix).
var sendOps = [...]uint32{
	QPRC: 1<<WRWrite | 1<<WRWriteImm | 1<<WRSend | 1<<WRSendImm | 1<<WRRead | 1<<WRCompareSwap |
		1<<WRFetchAdd | 1<<WRLocalInv | 1<<WRBindMW | 1<<WRSendInv | 1<<WRFlush | 1<<WRAtomicWrite,
	QPUC:  1<<WRWrite | 1<<WRWriteImm | 1<<WRSend | 1<<WRSendImm | 1<<WRLocalInv | 1<<WRBindMW,
	QPUD:  1<<WRSend | 1<<WRSendImm,
	QPRaw: 1 << WRSend,
	// A14: without FLUSH and ATOMIC WRITE, which came later. QPXRCTgt has no send queue.
	QPXRCIni: 1<<WRWrite | 1<<WRWriteImm | 1<<WRSend | 1<<WRSendImm | 1<<WRRead | 1<<WRCompareSwap |
		1<<WRFetchAdd | 1<<WRLocalInv | 1<<WRBindMW | 1<<WRSendInv,
}

// Sends reports whether queue pairs of this type have an operation.
func (t QPType) Sends(op WROpcode) bool {
	return int(t) < len(sendOps) && int(op) < len(sendWCOpcode) && sendOps[t]&(1<<op) != 0
}

// checkSend refuses a malformed work request. The error names the field.
func (q *QP) checkSend(wr *SendWR) error {
	const op = "PostSend"
	if wr.Op == WRNop {
		return nil
	}
	if !q.typ.Sends(wr.Op) {
		return invalid(op, "opcode", wr.Op.String()+" on "+q.typ.String(), "use an operation of this type of queue pair")
	}
	stored := len(wr.Header)
	if wr.Flags&SendInline != 0 {
		stored += len(wr.Inline)
		if wr.Op == WRRead || wr.Op == WRCompareSwap || wr.Op == WRFetchAdd {
			return invalid(op, "send_flags", "IBV_SEND_INLINE with an operation that returns data", "leave IBV_SEND_INLINE out")
		}
	} else if len(wr.SGL) > q.sq.maxSGE {
		return tooBig(op, "num_sge", uint64(len(wr.SGL)), "exceeds cap.max_send_sge", uint64(q.sq.maxSGE))
	}
	switch {
	case stored > q.sq.maxInline:
		return tooBig(op, "inline", uint64(stored), "exceeds cap.max_inline_data", uint64(q.sq.maxInline))
	case len(wr.Header) > 0 && q.typ != QPRaw:
		return invalid(op, "tso.hdr", "only a raw packet has one", "leave it out")
	}
	n := wr.bytes()
	if err := q.checkMessage(op, n); err != nil {
		return err
	}
	switch wr.Op {
	case WRCompareSwap, WRFetchAdd:
		if n != atomicBytes {
			return invalid(op, "sg_list", "an atomic returns exactly 8 bytes", "give it 8 bytes")
		}
		if wr.RemoteAddr%atomicBytes != 0 {
			return invalid(op, "remote_addr", "an atomic needs 8-byte alignment", "use a multiple of 8")
		}
	case WRAtomicWrite:
		if n != atomicBytes {
			return invalid(op, "sg_list", "ATOMIC WRITE takes exactly 8 bytes", "give it 8 bytes")
		}
		if wr.RemoteAddr%atomicBytes != 0 {
			return invalid(op, "remote_addr", "ATOMIC WRITE needs 8-byte alignment", "use a multiple of 8")
		}
	case WRFlush:
		if wr.FlushType == 0 || wr.FlushType > uint8(wire.FlushGlobal|wire.FlushPersistent) || wr.FlushLevel > 1 {
			return invalid(op, "flush", "unknown placement type or selectivity level", "use enum ibv_placement_type and ibv_selectivity_level")
		}
	case WRBindMW:
		if wr.Bind == nil || wr.Bind.MW == nil {
			return invalid(op, "bind_mw.mw", "missing", "name the window")
		}
	default:
	}
	if q.typ == QPRaw {
		return checkFrame(op, wr, n)
	}
	if q.typ == QPXRCIni && wr.XRCSRQN > wire.QPNMask {
		return tooBig(op, "xrc.remote_srqn", uint64(wr.XRCSRQN), "exceeds 24 bits", wire.QPNMask)
	}
	if q.typ == QPUD {
		if wr.AH == nil {
			return invalid(op, "ud.ah", "missing", "name the address handle")
		}
		if wr.AH.pd != q.pd {
			return invalid(op, "ud.ah", "belongs to another protection domain", "create it in the PD of the queue pair")
		}
	}
	return nil
}

// bytes returns the payload length of the request.
func (wr *SendWR) bytes() uint64 {
	switch {
	case wr.Op == WRFlush || wr.Op == WRLocalInv || wr.Op == WRBindMW || wr.Op == WRNop:
		return 0
	case wr.Flags&SendInline != 0:
		return uint64(len(wr.Header) + len(wr.Inline))
	case wr.Op == WRAtomicWrite && len(wr.SGL) == 0:
		return atomicBytes
	}
	n := uint64(len(wr.Header))
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Length)
	}
	return n
}

// fill copies a checked request. It reuses the storage of the lists.
func (wqe *sendEntry) fill(wr *SendWR) {
	sgl, inline := wqe.sgl[:0], wqe.inline[:0]
	if wr.Status != WCSuccess {
		*wqe = sendEntry{id: wr.ID, op: wr.Op & opMask, flags: wr.Flags, status: wr.Status, sgl: sgl, inline: inline}
		return
	}
	*wqe = sendEntry{id: wr.ID, op: wr.Op, flags: wr.Flags, length: uint32(wr.bytes()),
		imm: wr.Imm, invRKey: wr.InvRKey, remoteAddr: wr.RemoteAddr, rkey: wr.RKey,
		compareAdd: wr.CompareAdd, swap: wr.Swap, to: destination{num: wire.QPN(wr.XRCSRQN)}}
	inline = append(inline, wr.Header...)
	switch {
	case wr.Flags&SendInline != 0:
		inline = append(inline, wr.Inline...)
	case wr.Op == WRAtomicWrite && len(wr.SGL) == 0:
		inline = binary.NativeEndian.AppendUint64(inline, wr.AtomicWrite)
		wqe.flags |= SendInline
	default:
		sgl = append(sgl, wr.SGL...)
	}
	wqe.sgl, wqe.inline = sgl, inline
	switch wr.Op {
	case WRFlush:
		wqe.flush = flushArg{wr.FlushType, wr.FlushLevel}
		wqe.length = wr.FlushLength
	case WRBindMW:
		bind := *wr.Bind
		wqe.bind = &bind
	default:
	}
	if wr.AH != nil {
		wqe.to = destination{wr.AH.route(), wr.RemoteQPN, wr.RemoteQKey}
	}
}

// posted returns the request for an observer, with the engine's own lists.
func (wqe *sendEntry) posted() SendWR {
	return SendWR{ID: wqe.id, Op: wqe.op, Flags: wqe.flags, SGL: wqe.sgl, Inline: wqe.inline, Imm: wqe.imm, InvRKey: wqe.invRKey,
		RemoteAddr: wqe.remoteAddr, RKey: wqe.rkey, CompareAdd: wqe.compareAdd, Swap: wqe.swap, FlushType: wqe.flush.kind,
		FlushLevel: wqe.flush.level, Bind: wqe.bind, RemoteQPN: wqe.to.num, RemoteQKey: wqe.to.qkey, Status: wqe.status}
}

// apply has the request fail, or complete late, as f says.
func (wqe *sendEntry) apply(f *WorkFault) {
	wqe.status, wqe.asked = f.Status, f.Status != WCSuccess
	to := wqe.addFault()
	to.vendorErr, to.event, to.breaks, to.delay = f.VendorErr, f.Event, f.Breaks, f.Delay
}

// needsResponse reports whether the peer answers the request with more than an ACK.
// An ACK of a later request then means that the answer was lost.
func (wqe *sendEntry) needsResponse() bool {
	switch wqe.op {
	case WRRead, WRCompareSwap, WRFetchAdd, WRFlush, WRAtomicWrite:
		return true
	default:
		return false
	}
}

// isLocalOp reports whether the request needs no peer (WR_LOCAL_OP_MASK of
// rxe_opcode.c).
func (wqe *sendEntry) isLocalOp() bool {
	return wqe.op == WRLocalInv || wqe.op == WRBindMW || wqe.op == WRNop
}

// opMask keeps an operation that a hostile queue names inside of sendWCOpcode.
const opMask = 1<<5 - 1 // enum ibv_wr_opcode needs 4 bits

// sendWCOpcode gives the completion's opcode for each request's.
var sendWCOpcode = [opMask + 1]WCOpcode{
	WRWrite: WCWrite, WRWriteImm: WCWrite, WRSend: WCSend, WRSendImm: WCSend, WRRead: WCRead,
	WRCompareSwap: WCCompareSwap, WRFetchAdd: WCFetchAdd, WRLocalInv: WCLocalInv,
	WRBindMW: WCBindMW, WRSendInv: WCSend, WRFlush: WCFlush, WRAtomicWrite: WCAtomicWrite,
}

// complete ends the oldest work request. It reports false when the completion
// queue overflowed.
func (q *QP) complete(status WCStatus) bool {
	wqe := q.sq.at(q.sq.cons)
	if timed(q.sq.cons) && wqe.began != 0 && status == WCSuccess {
		q.dev.latency.add(q.Now() - wqe.began)
	}
	q.sq.cons++
	if q.onSendDone != nil {
		q.onSendDone(1)
	}
	silent := status == WCSuccess && wqe.flags&SendSignaled == 0 && !q.signalAll
	if status == WCSuccess {
		q.tallies.done.add(wqe.op)
	}
	work := q.dev.work()
	if silent && q.observer == nil && work == nil {
		return true
	}
	wc := WC{ID: wqe.id, Status: status, Opcode: sendWCOpcode[wqe.op], QPN: q.qpn}
	if f := wqe.fault; f != nil && status == wqe.status {
		wc.VendorErr = f.vendorErr
	}
	if status == WCSuccess {
		wc.ByteLen = wqe.length
		if wqe.op == WRWriteImm || wqe.op == WRSendImm {
			wc.Flags |= WCWithImm
		}
	}
	if q.observer != nil {
		q.observer.Completed(q, wc, !silent)
	}
	if work != nil {
		work.Completed(q, wc, false)
	}
	return silent || q.sendCQ.push(&wc, false)
}

// retire completes, in order, the requests that have nothing outstanding any more.
func (q *QP) retire() {
	if q.comp.place(q) != nil {
		q.comp.failMemory(q)
	}
	for q.sq.cons != q.sq.prod {
		wqe := q.sq.at(q.sq.cons)
		if wqe.status != WCSuccess {
			q.failSend(wqe.status)
			return
		}
		if !wqe.done || q.delays(wqe) {
			break
		}
		if q.chaos != nil && !q.chaos.readsPlaced(q, wqe) {
			return
		}
		if !q.complete(WCSuccess) {
			q.cqOverflow()
			return
		}
	}
	q.checkDrained()
}

// delays reports whether the oldest work request, which is done, must not complete yet.
func (q *QP) delays(wqe *sendEntry) bool {
	f := wqe.fault
	if f == nil || f.delay == 0 {
		return false
	}
	now := q.dev.cfg.Clock.Now()
	if f.dueAt == 0 {
		f.dueAt = now + Time(f.delay)
	}
	if now >= f.dueAt {
		q.send.completeAt = 0
		return false
	}
	q.send.completeAt = f.dueAt
	q.schedule()
	return true
}

// failSend completes the oldest work request with an error, and changes the QP's
// state as IBA 10.3.1 says. RC goes to ERR. UC and UD go to SQE, where the receive
// side works on. Requests queued behind it are flushed.
func (q *QP) failSend(status WCStatus) {
	wqe := q.sq.at(q.sq.cons)
	var f sendFault
	if wqe.fault != nil {
		f = *wqe.fault
	}
	q.reportSend(wqe, status)
	if f.breaks == BreaksCQ {
		q.sendCQ.breakDown()
		q.complete(status)
		q.cqOverflow()
		return
	}
	fails := q.reliable || f.event == EventQPFatal
	if fails {
		q.publishAs(QPErr) // for those who see the completion, and then ask
	}
	q.complete(status)
	if f.event != 0 {
		q.dev.event(Event{Type: f.event, QP: q})
	}
	if fails {
		q.fail()
		return
	}
	if q.attr.State == QPRTS || q.attr.State == QPSQD {
		q.attr.State = QPSQE
	}
	q.flushSend()
	q.publish()
}

func (q *QP) cqOverflow() {
	q.report(&Failure{Cause: CauseCQFull, PSN: q.send.una})
	q.dev.event(Event{Type: EventQPFatal, QP: q})
	q.fail()
}

// flushSend completes every queued request with WCFlushErr, in order.
func (q *QP) flushSend() {
	_ = q.comp.place(q) // what it marks as failed is flushed
	for !q.sq.empty() {
		status := WCFlushErr
		if wqe := q.sq.at(q.sq.cons); wqe.done && wqe.status == WCSuccess {
			status = WCSuccess // only its completion was late
		}
		q.complete(status)
	}
	q.abandonRequests()
	q.comp.abandon(q)
	q.blamed = nil
	q.send.retransmitAt, q.send.rnrUntil, q.send.completeAt = 0, 0, 0
}

// beginDrain enters SQD: the requester finishes what it has started, and starts
// nothing new.
func (q *QP) beginDrain() {
	q.attr.SQDraining = true
	q.checkDrained()
}

// checkDrained raises the event once nothing that was started is outstanding.
func (q *QP) checkDrained() {
	if q.attr.State != QPSQD || !q.attr.SQDraining {
		return
	}
	if !q.sq.empty() && q.sq.at(q.sq.cons).started {
		return
	}
	q.attr.SQDraining = false
	if q.attr.EnSQDNotify {
		q.attr.EnSQDNotify = false
		q.dev.event(Event{Type: EventSQDrained, QP: q})
	}
}

// resetSend forgets all send work without completing it (RESET, IBA 10.3.1.1).
func (q *QP) resetSend() {
	if n := q.sq.prod - q.sq.cons; n > 0 && q.onSendDone != nil {
		q.onSendDone(n)
	}
	q.sq.cons, q.blamed = q.sq.prod, nil
	q.abandonRequests()
	q.send.window = 0
	q.comp.abandon(q)
	q.clearDeadlines()
}

// setSendPSN sets the PSN of the next request.
func (q *QP) setSendPSN(psn wire.PSN) {
	q.send.psn, q.send.limit = psn, psn
	q.send.una = psn
}

// startRequester prepares the requester when the QP enters RTS.
func (q *QP) startRequester() {
	q.attr.SQDraining = false
	q.send.start(q.mtu())
	q.comp.progress(q)
}

// kick runs the requester after a change of state.
func (q *QP) kick() {
	st := q.dev.newStep()
	q.lock()
	if !q.dead {
		q.runRequester(st)
		q.schedule()
	}
	q.unlock(st)
	st.posted()
}

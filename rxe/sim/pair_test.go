package sim

import (
	"bytes"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// endpoint is one QP: as a requester it posts and completes work, as a
// responder it owns a target region and posts receives.
type endpoint struct {
	w    *world
	h    *host
	peer *endpoint
	typ  rxe.QPType // of the service; see qpType
	p    pairParams
	tgt  bool // XRC: the target
	q    *rxe.QP
	ah   *rxe.AH // UD

	// As requester.
	todo     int     // work requests left to post
	flight   []*sent // posted and not known to be complete, oldest first
	nextID   uint64
	reads    []extent // of the peer's target, being read by what is in flight
	unsig    int      // posted since the last signaled one
	sleeps   bool     // a wake-up is scheduled
	draining bool     // in SQD
	failed   bool
	died     bool // has completed one with an error other than a flush

	// As responder.
	target  extent // offset and length in the host's memory
	mr      *rxe.MR
	iova    uint64
	window  window
	recvs   []*receiveQueue // several: of XRC; none: of its initiators
	expect  []*message      // sent by the peer and not received yet, oldest first
	flushed []*recvBuf
	unsure  []unsureWrite
	torn    []extent // of the target, by requests that failed
}

// extent is a range of a host's memory.
type extent struct{ off, n int }

func (a extent) overlaps(b extent) bool { return a.off < b.off+b.n && b.off < a.off+a.n }

// window is the type 2 memory window on an endpoint's target that its peer
// uses.
type window struct {
	mw    *rxe.MW
	state windowState
	ext   extent
	rkey  wire.RKey
	users int // of the peer's work requests in flight
}

type windowState uint8

const (
	windowFree windowState = iota
	windowBinding
	windowBound
	windowLeaving // an invalidation is under way
)

// sent is a work request in flight.
type sent struct {
	wr       rxe.SendWR
	size     int
	local    []extent
	want     []byte // what a READ or an atomic must bring
	target   extent // of the peer's memory, that it writes
	msg      *message
	windowed bool
}

// message is what a receive must find.
type message struct {
	data     []byte
	size     int // WRITE with immediate has no data for the receiver
	imm      uint32
	hasImm   bool
	inv      wire.RKey
	received bool
	srq      uint32 // XRC: the number of the SRQ that takes it
}

func (w *world) newPair(p pairParams) {
	a := w.newEndpoint(w.hosts[p.hosts[0]], p, 0)
	b := w.newEndpoint(w.hosts[p.hosts[1]], p, 1)
	a.peer, b.peer = b, a
	a.connect(p.psn[0], p.psn[1])
	b.connect(p.psn[1], p.psn[0])
	if p.typ == rxe.QPRC {
		w.trace.conversation(a, p.psn[0])
		w.trace.conversation(b, p.psn[1])
	}
}

const qkey = 0x1234_5678

func (w *world) newEndpoint(h *host, p pairParams, i int) *endpoint {
	e := &endpoint{w: w, h: h, typ: p.typ, p: p, todo: p.ops[i], tgt: i == 1}
	init := rxe.QPInitAttr{
		Type: p.typ, SendCQ: h.sendCQ, RecvCQ: h.recvCQ,
		Cap:       rxe.QPCap{MaxSendWR: uint32(p.depth), MaxSendSGE: 4, MaxInlineData: 256},
		SignalAll: p.signalAll, Chaos: h.chaos,
	}
	var err error
	switch {
	case p.xrc:
		err = e.newXRCQP(init)
	case h.srq != nil:
		e.recvs, init.SRQ = []*receiveQueue{h.srq}, h.srq.srq
		e.q, err = h.pd.CreateQP(init)
	default:
		r := newReceiveQueue(h, p.maxSize+grhSpace(p.typ), p.recvDepth)
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = uint32(p.recvDepth), 4
		e.q, err = h.pd.CreateQP(init)
		r.q, e.recvs = e.q, []*receiveQueue{r}
	}
	must(err)
	w.byQPN[connID{h.index, e.q.Num()}] = e
	w.ends = append(w.ends, e)
	e.makeTarget()
	return e
}

// makeTarget registers what the peer may read and write, under addresses of its
// own.
func (e *endpoint) makeTarget() {
	off, ok := e.h.alloc(e.p.target, 8)
	if !ok {
		failf("no room for the target")
	}
	e.target = extent{off, e.p.target}
	e.iova = e.w.rng.Uint64()>>1&^7 + uint64(memBase+off)&7
	var err error
	e.mr, err = e.h.pd.RegMR(e.h.addressSpace(), uint64(memBase+off), uint64(e.p.target), e.iova,
		rxe.AccessLocalWrite|rxe.AccessRemoteRead|rxe.AccessRemoteWrite|rxe.AccessRemoteAtomic|
			rxe.AccessMWBind|rxe.AccessFlushGlobal|rxe.AccessFlushPersist)
	must(err)
	if e.typ == rxe.QPRC {
		e.window.mw, err = e.h.pd.AllocMW(rxe.MWType2)
		must(err)
	}
}

// remote is the address by which the peer's requests name byte off of the host's
// memory, which lies in the target.
func (e *endpoint) remote(off int) uint64 { return e.iova + uint64(off-e.target.off) }

func (e *endpoint) connect(sqPSN, rqPSN wire.PSN) {
	p := &e.p
	ah := rxe.AHAttr{DGID: wire.GIDFromAddr(e.peer.h.addr), PortNum: 1, TrafficClass: 8, FlowLabel: p.flowLabel}
	attr := rxe.QPAttr{
		PortNum: 1, QKey: qkey, AH: ah,
		Access:  rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic | rxe.AccessFlushGlobal | rxe.AccessFlushPersist,
		PathMTU: p.mtu, DestQPN: e.peer.q.Num(), SQPSN: sqPSN, RQPSN: rqPSN,
		MaxRdAtomic: p.rdAtomic, MaxDestRdAtomic: p.rdAtomic,
		MinRNRTimer: p.rnrTimer, Timeout: p.timeout, RetryCnt: p.retryCnt, RNRRetry: 7,
	}
	if p.typ == rxe.QPUD {
		var err error
		e.ah, err = e.h.pd.CreateAH(ah)
		must(err)
	}
	for from := range rxe.QPRTS {
		attr.State = from + 1
		must(e.q.Modify(&attr, rxe.RequiredMask(e.qpType(), from, attr.State)))
	}
}

// teardown takes every QP to ERR, checks that its receives are flushed, destroys
// everything and compares memory.
func (w *world) teardown() {
	for _, e := range w.ends {
		if len(e.flushed) > 0 && !e.failed {
			failf("host %d QP %#x: receives flushed without a failure", e.h.index, e.q.Num())
		}
		must(e.q.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
		w.poll()
		for _, r := range e.recvs {
			r.checkFlushed(e)
		}
		e.leftovers()
		e.settleUnsure()
	}
	for _, h := range w.hosts {
		if h.srq != nil {
			h.srq.concede()
		}
		if h.xrc != nil {
			for _, r := range h.xrc.queues {
				r.concede()
			}
		}
	}
	for _, e := range w.ends {
		must(e.q.Destroy())
		if e.ah != nil {
			must(e.ah.Destroy())
		}
		if e.window.mw != nil {
			must(e.window.mw.Dealloc())
		}
		must(e.mr.Dereg())
	}
	for _, h := range w.hosts {
		h.destroy()
		h.compare()
	}
}

// leftovers are results that only unreliable or failed conversations may leave.
func (e *endpoint) leftovers() {
	if e.typ != rxe.QPRC || e.failed {
		for _, b := range e.flushed {
			b.concede(e.h) // may hold part of a message
		}
	}
	if e.typ == rxe.QPRC && !e.failed {
		for _, m := range e.expect {
			failf("host %d QP %#x: a message of %d bytes that its sender saw complete was not received",
				e.h.index, e.q.Num(), m.size)
		}
	}
}

func (h *host) destroy() {
	for _, r := range h.mrs {
		must(r.mr.Dereg())
	}
	if h.srq != nil {
		must(h.srq.srq.Destroy())
	}
	h.destroyXRC()
	must(h.sendCQ.Destroy())
	if h.recvCQ != h.sendCQ {
		must(h.recvCQ.Destroy())
	}
	must(h.pd.Dealloc())
	if c := h.dev.Objects(); c != (rxe.ObjectCounts{}) {
		failf("host %d leaks objects: %+v", h.index, c)
	}
	must(h.dev.Close())
}

func (h *host) compare() {
	if bytes.Equal(h.mem.Data, h.model) {
		return
	}
	for i := range h.model {
		if h.mem.Data[i] != h.model[i] {
			where := "outside every target"
			for _, e := range h.w.ends {
				if e.h == h && (extent{i, 1}).overlaps(e.target) {
					where = "in the target of a QP of type " + e.typ.String()
				}
			}
			failf("host %d: memory differs from the model at offset %#x, %s: %#02x, want %#02x",
				h.index, i, where, h.mem.Data[i], h.model[i])
		}
	}
}

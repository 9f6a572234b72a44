package script

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// recvID is in the ID of every receive work request.
const recvID = 1 << 63

// work is what a host has to do, and the model of what must come of it.
type work struct {
	sends    []*request   // posted and not known to be complete, oldest first
	batch    []rxe.SendWR // of which a later command posts the last
	recvs    []*receive
	expect   []*message // that the peer has sent and that was not received, oldest first
	nextID   uint64
	nextRecv uint64
	model    []byte // what the peer's requests make of the first half of the memory
	window   window
	failed   rxe.WCStatus // of the first send work request that failed
	retried  uint64       // how often the requester had repeated requests when finish began
	tap
}

// receive is a receive work request.
type receive struct {
	id        uint64
	off, size int
}

// message is what a receive work request must find.
type message struct {
	data   []byte
	size   int
	imm    uint32
	hasImm bool
	inline bool // data has arrived with the message itself, not by a WRITE
	inv    wire.RKey
}

// window is the type 2 memory window of a host.
type window struct {
	mw    *rxe.MW
	rkey  wire.RKey
	bound bool
	off   int // of the range that it is bound to, or will be
	size  int
}

// forget is for a queue pair that went through RESET: its work does not complete.
func (h *host) forget() {
	h.sends, h.batch, h.expect = nil, nil, nil
	if h.srq == nil {
		h.recvs = nil
	}
	h.s.concede("a queue pair was reset")
}

// predict applies a request to the model, when it is posted. Requests of one queue pair act in
// order (IBA 9.5), and the two directions act on memory of their own.
func (h *host) predict(r *request) {
	data := h.mem.Data[r.local : r.local+r.size]
	switch r.wr.Op {
	case rxe.WRSend, rxe.WRSendImm, rxe.WRSendInv, rxe.WRWriteImm:
		h.predictMessage(r, data)
	case rxe.WRBindMW:
		isUnderWay := func(op rxe.WROpcode, sends []*request) bool {
			return slices.ContainsFunc(sends, func(q *request) bool { return q.wr.Op == op })
		}
		if isUnderWay(rxe.WRBindMW, h.sends) || isUnderWay(rxe.WRSendInv, h.peer.sends) || h.window.bound || r.target+r.size > len(h.mem.Data) {
			h.s.concede("the window cannot be bound")
		}
		h.window.off, h.window.size = r.target, r.size
	case rxe.WRLocalInv:
		h.predictInvalidation(h, h.peer, r)
	default:
	}
	if r.wr.Op == rxe.WRSend || r.wr.Op == rxe.WRSendImm || r.wr.Op == rxe.WRBindMW || r.wr.Op == rxe.WRLocalInv {
		return
	}
	if r.wr.Op == rxe.WRSendInv {
		h.predictInvalidation(h.peer, h, r)
		return
	}
	if r.target > len(h.peer.model)-r.size {
		h.s.concede("a request reaches beyond the memory for it")
		return
	}
	if w := &h.peer.window; r.windowed && (r.target < w.off || r.target+r.size > w.off+w.size) {
		h.s.concede("a request reaches beyond the window")
	}
	h.predictAccess(r, h.peer.model[r.target:r.target+r.size], data)
}

// predictAccess is predict for requests that reach the peer's memory.
func (h *host) predictAccess(r *request, at, data []byte) {
	if r.mutates() {
		h.spoilReads(r)
	}
	if r.wr.Op == rxe.WRCompareSwap || r.wr.Op == rxe.WRFetchAdd || r.wr.Op == rxe.WRRead {
		r.want = slices.Clone(at)
	}
	switch r.wr.Op {
	case rxe.WRWrite, rxe.WRWriteImm, rxe.WRAtomicWrite:
		copy(at, data)
	case rxe.WRFetchAdd:
		binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)+r.wr.CompareAdd)
	case rxe.WRCompareSwap:
		if binary.LittleEndian.Uint64(at) == r.wr.CompareAdd {
			binary.LittleEndian.PutUint64(at, r.wr.Swap)
		}
	default:
	}
}

// spoilReads forgets what READs under way must bring from bytes that a later request changes. A
// READ that is sent again may find the change, unless the request has a fence (IBA 10.8.3.3).
func (h *host) spoilReads(r *request) {
	if r.wr.Flags&rxe.SendFence != 0 {
		return
	}
	for _, q := range h.sends {
		if q.wr.Op == rxe.WRRead && q.target < r.target+r.size && r.target < q.target+q.size {
			q.want = nil
		}
	}
}

func (h *host) predictMessage(r *request, data []byte) {
	r.message = &message{size: r.size, imm: r.wr.Imm, inv: r.wr.InvRKey}
	r.message.hasImm = r.wr.Op == rxe.WRSendImm || r.wr.Op == rxe.WRWriteImm
	if r.message.inline = r.wr.Op != rxe.WRWriteImm; r.message.inline {
		r.message.data = slices.Clone(data)
	}
	h.peer.expect = append(h.peer.expect, r.message)
	for _, b := range h.peer.recvs {
		h.peer.fits(b, r.message)
	}
}

// predictInvalidation is for a request of by that invalidates the window of owner, which user
// may not use any more.
func (h *host) predictInvalidation(owner, user *host, r *request) {
	inUse := slices.ContainsFunc(user.sends, func(q *request) bool { return q.windowed })
	if user == h && r.wr.Flags&rxe.SendFence != 0 {
		inUse = false
	}
	if !owner.window.bound || inUse {
		h.s.concede("the window cannot be invalidated, or is in use")
	}
	owner.window.bound = false
}

// received notes a receive work request.
func (h *host) received(b *receive) {
	h.recvs = append(h.recvs, b)
	for _, m := range h.expect {
		h.fits(b, m)
	}
}

func (h *host) fits(b *receive, m *message) {
	if m.inline && b.size < m.size+h.grh() {
		h.s.concede("a receive work request is too small")
	}
}

// grh is how many bytes precede a message in the receive buffer.
func (h *host) grh() int {
	if h.s.p.typ == rxe.QPUD {
		return wire.GRHLen
	}
	return 0
}

// poll takes and judges all completions, and reports new states.
func (s *Script) poll() {
	for _, h := range s.hosts {
		var wcs [16]rxe.WC
		for n := len(wcs); n == len(wcs); {
			var err error
			if n, err = h.cq.Poll(wcs[:]); err != nil {
				s.problem("order", "%s cannot poll: %v", h.name, err)
			}
			for i := range wcs[:n] {
				h.completed(&wcs[i])
			}
		}
		if state := h.q.State(); state != h.seen {
			h.seen = state
			s.printf("%s is in %v", h.name, state)
		}
	}
}

func (h *host) completed(wc *rxe.WC) {
	status := fault.WCStatus(wc.Status)
	if wc.ID&recvID != 0 {
		h.s.printf("%s completes recv %d %v%s", h.name, wc.ID&^recvID, status, recvWords(wc))
		h.recvCompleted(wc)
		return
	}
	i := slices.IndexFunc(h.sends, func(r *request) bool { return r.wr.ID == wc.ID })
	if i < 0 {
		h.s.printf("%s completes wr %d %v", h.name, wc.ID, status)
		h.s.problem("order", "%s completes wr %d, which is not posted or has completed", h.name, wc.ID)
		return
	}
	r := h.sends[i]
	h.s.printf("%s completes wr %d %v %v", h.name, wc.ID, r.wr.Op, status)
	for _, q := range h.sends[:i] {
		if q.signaled() {
			h.s.problem("order", "%s completes wr %d before wr %d", h.name, wc.ID, q.wr.ID)
		}
		h.succeeded(q)
	}
	h.sends = h.sends[i+1:]
	if wc.Status == rxe.WCSuccess {
		h.succeeded(r)
	} else if h.failed == rxe.WCSuccess {
		h.failed = wc.Status
		h.excuse(wc.Status)
	}
}

// excuse concedes failures that the commands so far may have caused. Retries run out while packets
// wait in flight or are lost. finish loses none, so they must not run out there, unless most of
// them had been used before.
func (h *host) excuse(status rxe.WCStatus) {
	few := h.s.p.retry == 7 && h.retried < 4
	unjust := h.s.ending && few
	if status == rxe.WCRetryExcErr && !unjust || status == rxe.WCRNRRetryErr && h.s.p.rnrRetry < 7 {
		h.s.concede("retries have run out")
	}
	if h.s.conceded == "" {
		h.s.problem("status", "%s: a work request without a fault fails with %v", h.name, fault.WCStatus(status))
	}
}

// succeeded checks what a request has brought.
func (h *host) succeeded(r *request) {
	if r.wr.Op == rxe.WRBindMW {
		h.window.bound = true
	}
	if r.want == nil || h.s.conceded != "" {
		return
	}
	if got := h.mem.Data[r.local : r.local+r.size]; !bytes.Equal(got, r.want) {
		h.s.problem("data", "%s: wr %d (%v) has brought %s, want %s", h.name, r.wr.ID, r.wr.Op, brief(got), brief(r.want))
	}
}

func (h *host) recvCompleted(wc *rxe.WC) {
	i := slices.IndexFunc(h.recvs, func(b *receive) bool { return b.id == wc.ID })
	if i < 0 || i > 0 && h.srq == nil {
		h.s.problem("order", "%s completes recv %d, which is not the oldest posted", h.name, wc.ID&^recvID)
		return
	}
	b := h.recvs[i]
	h.recvs = slices.Delete(h.recvs, i, i+1)
	if wc.Status != rxe.WCSuccess || h.s.conceded != "" {
		return
	}
	for j, m := range h.expect {
		if h.matches(b, wc, m) {
			if h.s.p.typ != rxe.QPUD { // there any may come, and come again
				h.expect = h.expect[j+1:]
			}
			return
		}
		if h.s.p.typ == rxe.QPRC {
			break
		}
	}
	h.s.problem("data", "%s: recv %d finds no message that was sent", h.name, wc.ID&^recvID)
}

// matches reports whether a completion is that of a message.
func (h *host) matches(b *receive, wc *rxe.WC, m *message) bool {
	got := h.mem.Data[b.off:min(b.off+int(wc.ByteLen), b.off+b.size)]
	return int(wc.ByteLen) == m.size+h.grh() &&
		(!m.inline || len(got) >= h.grh() && bytes.Equal(got[h.grh():], m.data)) &&
		(wc.Flags&rxe.WCWithImm != 0) == m.hasImm && (!m.hasImm || wc.Imm == m.imm) &&
		(wc.Flags&rxe.WCWithInv != 0) == (m.inv != 0) && wc.InvRKey == m.inv
}

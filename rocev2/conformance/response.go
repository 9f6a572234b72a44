package conformance

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// Responses are compared with the requests of the opposite flow. A response whose
// request was not seen is not judged. A response to a PSN that was not sent is, after
// the next requests have shown that the capture lacks none.

type responses struct {
	last    responseID // for duplicates
	lastAt  int64
	sameIDs bool // another packet had the IPv4 identification of the one before
	nak     sentNAK
}

// responseID distinguishes two responses from one that was doubled.
type responseID struct {
	on       bool
	psn      wire.PSN
	op       wire.Opcode
	syndrome wire.Syndrome
	id       uint16
}

// sentNAK is the last sequence NAK that was sent.
type sentNAK struct {
	on     bool
	psn    wire.PSN
	id     uint16
	packet int
}

// interval is the numbers from lo to hi, on a circle of 2^24.
type interval struct {
	on     bool
	lo, hi wire.PSN // an MSN wraps as a PSN does
}

// inFlight is how long after its response a request may appear: a capture may merge
// several queues with different clocks.
const inFlight = int64(time.Millisecond)

// near is how far a response may be ahead of the last request, if the capture lacks a
// few requests.
const near = 64

func (c *Checker) response(s *subject, f *Flow) {
	if f.resp == nil {
		f.resp = &responses{}
	}
	y := s.pkt.Syndrome()
	if s.info.Has(wire.HasAETH) {
		switch {
		case y.IsACK():
			f.Stats.ACKs++
		case y.IsRNR():
			f.Stats.RNRs++
		default:
			f.Stats.NAKs++
			if code := int(y.NAKCode()); y.IsNAK() && code < nakCodes {
				f.Stats.NAKCodes[code]++
			}
		}
	}
	id := responseID{on: true, psn: s.psn, op: s.pkt.Opcode(), syndrome: y, id: s.IP.ID}
	c.verdict.Class = ClassNew
	if f.resp.doubled(id, s) {
		c.verdict.Class = ClassDuplicate
		f.Stats.Duplicates++
		if f.Peer != nil && f.Peer.req != nil {
			c.disturbed(f.Peer.req)
		}
		return
	}
	f.resp.last, f.resp.lastAt = id, s.at
	x := c.requester(s, f)
	if x == nil || !x.req.started {
		return
	}
	r := x.req
	if r.life > 1 && r.first == r.next {
		return
	}
	d := s.psn.Diff(r.next)
	switch {
	case !r.nextSure && d >= 0:
		return
	case d >= 0:
		c.unsent(s, f, r, d)
		return
	case s.psn.Less(r.first):
		if d < -far && r.life == 1 {
			c.unsent(s, f, r, d)
		}
		return
	}
	switch {
	case s.info.Has(wire.OpReadResp):
		c.readResponse(s, f, x)
	case s.info.Has(wire.HasAtomicAckETH):
		c.atomicAck(s, f, x)
	case y.IsACK():
		c.ack(s, f, x)
	default:
		c.negative(s, f, x)
	}
	if s.info.Has(wire.HasAETH) && y.IsACK() {
		c.msn(s, f, x)
	}
	c.takeEffect(s, x, y)
}

// takeEffect records what a response means for the requester.
func (c *Checker) takeEffect(s *subject, x *Flow, y wire.Syndrome) {
	r := x.req
	if s.info.Has(wire.HasAETH) && !y.IsACK() {
		r.asked.on = false // it is the answer, and no other follows before a retry
	}
	switch {
	case !s.info.Has(wire.HasAETH) || y.IsACK():
		c.acknowledge(s, x, s.psn.Next())
	case y.IsRNR():
		c.acknowledge(s, x, s.psn)
		r.rnr = rnrState{on: true, psn: s.psn, at: s.at, wait: wire.RNRTimeout(y.RNRTimer()), packet: s.Number}
	case y.IsNAK():
		c.acknowledge(s, x, s.psn)
		if y.NAKCode() == wire.NAKPSNSequence && !r.acked.Less(s.psn) && !s.psn.Less(r.acked) {
			c.endRun(x, r)
			r.nak = nakState{on: true, psn: s.psn, packet: s.Number, at: s.at, inRun: r.running}
			r.running = false
		}
	}
}

// unsent judges a response to a PSN of which no request was seen.
func (c *Checker) unsent(s *subject, f *Flow, r *requests, d int32) {
	rule := ruleAckUnsent
	if s.info.Has(wire.OpReadResp) {
		rule = ruleReadRange
	}
	expected := fmt.Sprintf("a PSN before 0x%06x, which is the next", uint32(r.next))
	seen := fmt.Sprintf("0x%06x in %s", uint32(s.psn), s.info.Name)
	if s.info.Has(wire.HasAETH) && s.pkt.Syndrome().IsACK() && r.msnBase.on &&
		r.msnBase.hi.Add(r.msgs).Less(wire.PSN(s.pkt.MSN())) {
		// The MSN counts requests too that were not seen.
		if d < 0 || d >= near {
			c.reportAs(Warning, s, f, rule, expected, seen)
		}
		c.disturbed(r)
		return
	}
	after, left, severity := s.at, 1, Violation
	if d < near && d >= 0 {
		after, left, severity = after+inFlight, calm, Warning
	}
	c.wait(r, pendingFinding{
		finding: s.about(), flow: f, rule: rule, severity: severity, after: after, left: left, expected: expected, seen: seen,
	})
}

func (c *Checker) readResponse(s *subject, f, x *Flow) {
	r, mtu := x.req, x.mtu()
	if s.info.Has(wire.OpEnd) {
		c.answered(x, s.psn)
	}
	if e := r.at(s.psn, s.Number); e != nil && !e.op.Info().Has(wire.OpRead) {
		if e.op.Info().Has(wire.OpAtomicWrite|wire.OpFlush) && s.info.Has(wire.OpOnly) {
			if s.payload != 0 {
				c.report(s, f, ruleReadLen, "no payload for "+e.op.String(), bytesSeen(s.payload))
			}
			return
		}
		if e.flags&recResent == 0 {
			c.report(s, f, ruleResponseKind, fmt.Sprintf("ACKNOWLEDGE of %v in packet %d", e.op, e.packet), s.info.Name)
		}
		return
	}
	q, known := r.read(s.psn, mtu, s.Number)
	if q == nil || !known {
		return
	}
	span, sure := q.span(mtu)
	if !sure {
		if s.info.Has(wire.OpFirst) && legalMTU(s.payload) && s.psn == q.psn {
			c.learnMTU(s, f, true) // the requests did not show it
			r.resolve(s.payload)
		}
		return
	}
	off := uint32(s.psn.Diff(q.psn))
	if off < q.seen {
		c.verdict.Class = ClassRetransmission
		f.Stats.Retransmissions++
		c.disturbed(r)
	}
	q.seen = max(q.seen, off+1)
	if bad := r.anyRead(s.psn, mtu, s.Number, func(q *readRequest, off, span uint32) bool {
		return q.partial || readPlace(s.info, off, span)
	}); bad != nil {
		severity := ruleReadOpcode.Severity
		if off > 0 && s.info.Has(wire.OpStart) {
			severity = Warning // the capture may lack a READ that begins here
		}
		c.reportAs(severity, s, f, ruleReadOpcode, fmt.Sprintf("%s as response %d of %d to the READ of packet %d", readPlaceName(off, span), off+1, span, q.packet), s.info.Name)
		return
	}
	c.readLength(s, f, r, mtu)
}

// readLength compares the payload of a READ response with the length of the READ.
func (c *Checker) readLength(s *subject, f *Flow, r *requests, mtu int) {
	var want uint32
	bad := r.anyRead(s.psn, mtu, s.Number, func(q *readRequest, off, span uint32) bool {
		want = uint32(mtu)
		if off+1 == span {
			want = q.length - off*uint32(mtu)
		}
		return uint32(s.payload) == want
	})
	switch {
	case bad == nil:
	case s.info.Has(wire.OpFirst | wire.OpMiddle):
		if legalMTU(s.payload) {
			c.report(s, f, rulePathMTU, bytesSeen(mtu)+" in "+s.info.Name, bytesSeen(s.payload))
		}
	default:
		c.report(s, f, ruleReadLen, fmt.Sprintf("%s of the %d of the READ in packet %d", plural.Of(want, "byte"), bad.length, bad.packet), bytesSeen(s.payload))
	}
}

// readPlace reports whether a READ response has the opcode of its place. If a requester
// asks again for the rest of a READ, the response may begin there. It may also
// continue as if it had not been interrupted, as Linux does.
func readPlace(info *wire.OpInfo, off, span uint32) bool {
	switch {
	case off == 0 && span == 1:
		return info.Has(wire.OpOnly)
	case off == 0:
		return info.Has(wire.OpFirst)
	case off+1 == span:
		return info.Has(wire.OpLast)
	}
	return info.Has(wire.OpMiddle)
}

func readPlaceName(off, span uint32) string {
	switch {
	case span == 1:
		return "ONLY"
	case off == 0:
		return "FIRST"
	case off+1 == span:
		return "LAST"
	}
	return "MIDDLE"
}

func (c *Checker) atomicAck(s *subject, f, x *Flow) {
	r := x.req
	e := r.at(s.psn, s.Number)
	if e == nil {
		if q, known := r.read(s.psn, x.mtu(), s.Number); q != nil && known {
			c.report(s, f, ruleResponseKind, fmt.Sprintf("READ responses to the READ of packet %d", q.packet), s.info.Name)
		}
		return
	}
	if !e.op.Info().Has(wire.OpAtomic) {
		if e.flags&recResent == 0 {
			c.report(s, f, ruleResponseKind, fmt.Sprintf("the response of %v in packet %d", e.op, e.packet), s.info.Name)
		}
		return
	}
	c.answered(x, s.psn)
	value := s.pkt.AtomicOrig()
	if e.flags&recAnswered != 0 {
		c.verdict.Class = ClassRetransmission
		f.Stats.Retransmissions++
		c.disturbed(r)
		if old := uint64(e.off)<<32 | uint64(e.total); old != value {
			c.report(s, f, ruleAtomicReplay, fmt.Sprintf("%#x, as before, for the atomic of packet %d", old, e.packet), fmt.Sprintf("%#x", value))
		}
		return
	}
	e.flags |= recAnswered
	e.off, e.total = uint32(value>>32), uint32(value)
}

// ack judges a positive ACKNOWLEDGE.
func (c *Checker) ack(s *subject, f, x *Flow) {
	r := x.req
	if f.resp.nak.on && !s.psn.Less(f.resp.nak.psn) {
		f.resp.nak.on = false
	}
	what := ""
	if e := r.at(s.psn, s.Number); e != nil && e.op.Info().Has(wire.OpAtomic) && e.flags&(recAnswered|recResent) == 0 {
		what = fmt.Sprintf("ATOMIC ACKNOWLEDGE of the atomic of packet %d", e.packet)
	} else if q, known := r.read(s.psn, x.mtu(), s.Number); q != nil && known && q.seen == 0 {
		what = fmt.Sprintf("READ responses to the READ of packet %d", q.packet)
	}
	if what != "" {
		// The capture may lack the response, and this may answer a duplicate.
		c.reportAs(Warning, s, f, ruleResponseKind, what, s.info.Name)
	}
}

// negative judges NAKs and RNR NAKs.
func (c *Checker) negative(s *subject, f, x *Flow) {
	r, y := x.req, s.pkt.Syndrome()
	e := r.at(s.psn, s.Number)
	switch {
	case y.IsRNR():
		// After it, Linux answers the next packet with a sequence NAK.
		f.resp.nak.on = false
	case !y.IsNAK():
	case y.NAKCode() == wire.NAKPSNSequence:
		n := &f.resp.nak
		if n.on && n.psn == s.psn && !r.sentSince(s.psn, n.packet) {
			severity := Warning
			if s.IP.Version == 4 && s.IP.ID != n.id {
				severity = Violation // it is not a double of the first
			}
			c.reportAs(severity, s, f, ruleNAKRepeated, fmt.Sprintf("none until PSN 0x%06x is sent again, after the NAK of packet %d", uint32(s.psn), n.packet), y.String())
		}
		*n = sentNAK{on: true, psn: s.psn, id: s.IP.ID, packet: s.Number}
	case y.NAKCode() == wire.NAKInvalidRequest && e != nil:
		c.refused(s, f, x, e)
	case y.NAKCode() == wire.NAKRemoteAccess && e != nil && e.op.Info().Has(wire.OpSend) && !e.op.Info().Has(wire.OpInv):
		c.report(s, f, ruleNAKCode, fmt.Sprintf("no remote access error for %v in packet %d", e.op, e.packet), y.String())
	}
}

// sentSince reports whether a PSN was sent after the given packet.
func (r *requests) sentSince(psn wire.PSN, packet int) bool {
	e := r.at(psn, packet)
	return e == nil || e.last > packet
}

// msn compares the MSN with the number of messages that have ended. The start of its
// count is not known at first, and each response narrows it down.
func (c *Checker) msn(s *subject, f, x *Flow) {
	r := x.req
	e := r.at(s.psn, s.Number)
	if e == nil || e.flags&recCounted == 0 || e.epoch != r.epoch || r.uneasy && r.calm < calm {
		return // after a loss it may be ahead of the requests seen
	}
	severity := Violation
	if r.calm < calm {
		severity = Warning // as may happen where the capture begins
	} else if !r.msnSure {
		r.msnSure, r.msnBase = true, interval{}
	}
	done := e.msgs
	if e.op.Info().Has(wire.OpRead|wire.OpAtomic|wire.OpFlush|wire.OpAtomicWrite) && done > 0 {
		done-- // the responder may count it before or after it answers
	}
	msn := wire.PSN(s.pkt.MSN())
	now := interval{on: true, lo: msn.Sub(r.msgs), hi: msn.Sub(done)}
	base := r.msnBase
	if !base.on {
		r.msnBase = now
		return
	}
	lo, hi := base.lo, base.hi
	if lo.Less(now.lo) {
		lo = now.lo
	}
	if now.hi.Less(hi) {
		hi = now.hi
	}
	if !hi.Less(lo) {
		r.msnBase, r.badMSNs = interval{on: true, lo: lo, hi: hi}, 0
		return
	}
	expected := fmt.Sprintf("%d to %d", base.lo.Add(done), base.hi.Add(r.msgs))
	if r.badMSNs++; r.badMSNs > 3 {
		r.msnBase, r.badMSNs = now, 0 // the base was wrong
	}
	c.wait(r, pendingFinding{
		finding: s.about(), flow: f, rule: ruleMSN, severity: severity, left: calm,
		expected: expected, seen: fmt.Sprint(uint32(msn)),
	})
}

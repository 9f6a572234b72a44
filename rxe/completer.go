package rxe

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire"
)

// The completer processes responses (rxe_comp.c). una is the oldest PSN that has
// not been answered; all below it is done. A response to a PSN above it
// acknowledges what lies between (IBA 9.7.5.1.2). The exception is a request that
// had to return data. That data was lost, and is asked for again.

// completer holds what only the completer uses; una is in sender.
type completer struct {
	retries uint8 // left, of retry_cnt
	rnr     uint8 // left, of rnr_retry
	// retriedGap: the request at una was sent again because its answer was lost.
	// What still arrives out of order tells nothing new.
	retriedGap bool

	head uint32 // index of what oldest returned
	// owed are the requests that are done, and complete once the parts of out are in
	// memory: their indices in the send queue.
	owed []uint32
	out  spanBatch // READ data that waits to be scattered
}

func (c *completer) abandon(q *QP) {
	c.out.drop()
	c.owed = c.owed[:0]
	q.send.una = q.send.limit
	c.retriedGap = false
}

// progress refills the retry budgets, which count attempts at one PSN.
func (c *completer) progress(q *QP) {
	c.retries, c.rnr = q.attr.RetryCnt, q.attr.RNRRetry
	c.retriedGap = false
}

// armRetransmit sets the local ACK timeout. It doubles with each retry, up to four times its value,
// which is as long as IBA 9.7.6.1.3 allows. A peer or this process may wait that long for a
// processor, and a request that is sent again adds to their work.
func (c *completer) armRetransmit(q *QP, now Time) {
	q.send.retransmitAt = 0
	if t := ackTimeout(q.attr.Timeout); t != 0 && q.send.una != q.send.limit {
		q.send.retransmitAt = now + Time(t<<min(c.tries(q), maxBackOff))
	}
}

// response handles one acknowledgement or READ response, plain or super-packet.
func (c *completer) response(q *QP, pkt packet, st *step) {
	psn := pkt.PSN()
	switch {
	case psn.Diff(q.send.una) < 0:
		q.dev.counters.StaleResponse.Add(1)
		q.tallies.stats.Duplicates.Add(1)
		return
	case psn.Diff(q.send.limit) >= 0:
		// for a PSN that was never sent: a ghost (IBA 9.7.6), dropped
		q.dev.counters.GhostAck.Add(1)
		return
	}
	if pkt.Info().Has(wire.OpReadResp) {
		c.data(q, pkt, st)
		return
	}
	switch s := pkt.Syndrome(); {
	case pkt.Info().Has(wire.HasAtomicAckETH):
		c.atomic(q, pkt.Packet, st)
	case s.IsACK():
		c.ackThrough(q, psn, st)
		q.retire()
	case s.IsRNR():
		c.rnrNAK(q, psn, s.RNRTimer(), st)
	case s.IsNAK():
		c.nak(q, psn, s.NAKCode(), st)
	default:
		q.dev.counters.StaleResponse.Add(1)
	}
}

// ackThrough acknowledges everything up to psn. It reports false if a request that
// had to return data stops it.
func (c *completer) ackThrough(q *QP, psn wire.PSN, st *step) bool {
	for psn.Diff(q.send.una) >= 0 {
		wqe := c.oldest(q)
		if wqe == nil {
			return false
		}
		if wqe.needsResponse() {
			c.implied(q)
			return false
		}
		c.moveTo(q, wqe, minPSN(psn, wqe.last).Next(), st.now)
	}
	return true
}

func minPSN(a, b wire.PSN) wire.PSN {
	if b.Less(a) {
		return b
	}
	return a
}

// oldest returns the work request that una belongs to, or nil.
func (c *completer) oldest(q *QP) *sendEntry {
	c.head = q.sq.cons
	if wqe := q.sq.at(c.head); !q.sq.empty() && wqe.started && !wqe.done && wqe.status == WCSuccess {
		return wqe // nothing before it is left to retire
	}
	if n := len(c.owed); n > 0 {
		c.head = c.owed[n-1] + 1
	} else {
		q.retire()
		c.head = q.sq.cons
	}
	for ; c.head != q.sq.prod; c.head++ {
		wqe := q.sq.at(c.head)
		switch {
		case wqe.done: // and completes late (owed, WorkFault, chaos)
		case !wqe.started || wqe.isLocalOp():
			return nil
		default:
			return wqe
		}
	}
	return nil
}

// moveTo advances una inside or past w.
func (c *completer) moveTo(q *QP, wqe *sendEntry, una wire.PSN, now Time) {
	q.send.una = una
	if q.send.psn.Less(una) {
		c.catchUp(q, una)
	}
	if wqe.last.Less(una) {
		wqe.done = true
	}
	q.send.reads.release(una)
	q.send.grow(1)
	c.progress(q)
	q.send.rnrUntil = 0
	c.armRetransmit(q, now)
}

// catchUp moves the requester forward when a late answer shows that what it went
// back to had arrived.
func (c *completer) catchUp(q *QP, una wire.PSN) {
	s := &q.send
	s.psn = una
	for s.cur != q.sq.prod {
		wqe := q.sq.at(s.cur)
		if !wqe.started || !wqe.last.Less(una) {
			return
		}
		s.cur++
	}
}

// implied handles an answer that shows that an earlier one was lost (an implied
// NAK). The request is sent again, once.
func (c *completer) implied(q *QP) {
	if c.retriedGap {
		return
	}
	c.retry(q, CauseLostAnswers)
	c.retriedGap = true
}

// tries returns how often the packet at una was retried.
func (c *completer) tries(q *QP) uint8 { return q.attr.RetryCnt - c.retries }

// retry goes back to una if the retry budget allows, and ends the request
// otherwise. why is why it was sent in vain.
func (c *completer) retry(q *QP, why Cause) {
	if c.retries == 0 {
		q.dev.counters.RetryExceeded.Add(1)
		f := Failure{Cause: why, PSN: q.send.una, Retries: q.attr.RetryCnt}
		q.blameLink(&f, c.oldest(q))
		q.blame(f)
		c.failOldest(q, WCRetryExcErr)
		return
	}
	c.retries--
	q.dev.counters.CompleterRetry.Add(1)
	q.dev.counters.retry(why).Add(1)
	q.send.shrink()
	c.goBack(q)
}

// goBack moves the requester to una.
func (c *completer) goBack(q *QP) {
	s := &q.send
	s.psn = q.send.una
	s.reads.revoke(q.send.una)
	for s.cur != q.sq.cons {
		wqe := q.sq.at(s.cur - 1)
		if wqe.done || wqe.last.Less(q.send.una) {
			break
		}
		s.cur--
	}
}

// timeout handles the local ACK timeout (IBA 9.7.6.1.3).
func (c *completer) timeout(q *QP) {
	if q.send.una == q.send.limit || q.attr.State == QPErr {
		return
	}
	q.tallies.stats.Timeouts.Add(1)
	q.dev.counters.AckTimeouts.Add(1)
	c.retriedGap = false
	c.retry(q, CauseTimeout)
}

// badResponse ends the request at una, whose answer does not fit it.
func (c *completer) badResponse(q *QP, why Failure) {
	q.dev.counters.BadResponse.Add(1)
	q.blame(why)
	c.failOldest(q, WCBadRespErr)
}

// failMemory ends the request at una, whose answer cannot be written to this side's memory.
func (c *completer) failMemory(q *QP) {
	q.blameMemory()
	c.failOldest(q, WCLocProtErr)
}

// failOldest ends the request at una with an error. Requests that were acknowledged
// before it complete first.
func (c *completer) failOldest(q *QP, status WCStatus) {
	if wqe := c.oldest(q); wqe != nil {
		wqe.status = status
		q.retire()
	}
}

// rnrNAK waits as long as the responder asks (IBA 9.7.5.2.8).
func (c *completer) rnrNAK(q *QP, psn wire.PSN, timer uint8, st *step) {
	q.dev.counters.RcvdRNRErr.Add(1)
	q.tallies.stats.RNRNAKsRcvd.Add(1)
	if !c.ackThrough(q, psn.Sub(1), st) || q.send.una != psn || q.send.rnrUntil != 0 {
		q.retire()
		return
	}
	if q.attr.RNRRetry != 7 {
		if c.rnr == 0 {
			q.dev.counters.RetryRNRExceeded.Add(1)
			q.blame(Failure{Cause: CauseRNR, PSN: psn, Retries: q.attr.RNRRetry, Syndrome: wire.SyndromeRNR(timer)})
			c.failOldest(q, WCRNRRetryErr)
			return
		}
		c.rnr--
	}
	// retry_cnt is for a responder that does not answer; this one does.
	c.retries = q.attr.RetryCnt
	q.dev.counters.RetryRNRNAK.Add(1)
	c.goBack(q)
	q.send.retransmitAt = 0
	// Another thread may have queued the NAK after st.now.
	q.send.rnrUntil = q.dev.cfg.Clock.Now() + Time(wire.RNRTimeout(timer))
	q.retire()
}

// nakStatus gives the completion for each NAK code (IBA 9.9.2).
var nakStatus = map[wire.NAKCode]WCStatus{
	wire.NAKInvalidRequest: WCRemInvReqErr,
	wire.NAKRemoteAccess:   WCRemAccessErr,
	wire.NAKRemoteOp:       WCRemOpErr,
	wire.NAKInvalidRD:      WCRemInvRDReq,
}

func (c *completer) nak(q *QP, psn wire.PSN, code wire.NAKCode, st *step) {
	if code == wire.NAKPSNSequence {
		q.dev.counters.RcvdSeqErr.Add(1)
		q.tallies.stats.SeqNAKsRcvd.Add(1)
	}
	if !c.ackThrough(q, psn.Sub(1), st) || q.send.una != psn {
		q.retire()
		return
	}
	status, fatal := nakStatus[code]
	switch {
	case fatal:
		q.blame(Failure{Cause: CauseNAK, PSN: psn, Syndrome: wire.SyndromeNAK(code)})
		c.failOldest(q, status)
	case code != wire.NAKPSNSequence:
		c.badResponse(q, Failure{Cause: CauseBadResponse, PSN: psn})
	case q.send.rnrUntil == 0:
		// A sequence NAK during an RNR wait tells nothing new: rdma_rxe sends one
		// for packets in flight behind the refused one.
		c.retry(q, CauseSequenceNAKs)
		q.retire()
	}
}

// inOrder acknowledges what lies before a response with data. It returns the
// request that the response answers, or nil.
func (c *completer) inOrder(q *QP, psn wire.PSN, st *step) *sendEntry {
	if !c.ackThrough(q, psn.Sub(1), st) || q.send.una != psn {
		return nil
	}
	return c.oldest(q)
}

// data processes a READ response, which also answers ATOMIC WRITE and FLUSH.
func (c *completer) data(q *QP, pkt packet, st *step) {
	psn := pkt.PSN()
	wqe := c.inOrder(q, psn, st)
	if wqe == nil {
		q.retire()
		return
	}
	index := uint32(psn.Diff(wqe.first))
	if !q.expectedData(wqe, index, pkt) {
		f := Failure{Cause: CauseBadResponse, PSN: psn}
		if f.Bytes = uint64(pkt.otherMTU(q.attr.PathMTU)); f.Bytes > 0 {
			f.Cause, f.MTU = CauseMTU, q.attr.PathMTU
		}
		c.badResponse(q, f)
		return
	}
	if wqe.op == WRRead && !c.scatter(q, wqe, index*uint32(q.mtu()), pkt.Payload()) {
		c.failMemory(q)
		return
	}
	next := psn.Add(pkt.count)
	ends := next == wqe.last.Next()
	later := ends && q.placesTogether()
	if later {
		c.out.endPart()
		c.owed = append(c.owed, c.head)
	} else if ends && c.write(q) != nil {
		c.failMemory(q)
		return
	}
	q.send.grow(pkt.count - 1) // moveTo counts one more
	c.moveTo(q, wqe, next, st.now)
	if wqe.done && !later {
		q.retire()
	}
}

// expectedData checks a READ response against the request: its length, and that the
// request's last packet, and no other, ends the response. It does not tell FIRST
// from MIDDLE, or LAST from ONLY. Linux answers a partial retry as if it were still
// in the middle of the message.
func (q *QP) expectedData(wqe *sendEntry, index uint32, pkt packet) bool {
	if !wqe.needsResponse() || wqe.op == WRCompareSwap || wqe.op == WRFetchAdd {
		return false
	}
	size := uint32(len(pkt.Payload()))
	if wqe.op != WRRead {
		return size == 0 && pkt.Info().Has(wire.OpOnly)
	}
	mtu := uint32(q.mtu())
	if size != min(pkt.count*mtu, wqe.length-index*mtu) {
		return false
	}
	in := index%q.send.readChunk + pkt.count // packets of this READ request so far
	ends := in == q.send.readChunk || index+pkt.count == wqe.packets
	return ends == pkt.Info().Has(wire.OpEnd) && in <= q.send.readChunk
}

// scatter arranges for READ data to be written at byte off of the request.
func (c *completer) scatter(q *QP, wqe *sendEntry, off uint32, b []byte) bool {
	at := seek(wqe.sgl, off)
	return c.out.cover(q, wqe.sgl, &at, b, AccessLocalWrite) ||
		len(c.owed) > 0 && c.completeOwed(q) && c.scatter(q, wqe, off, b)
}

// completeOwed completes the requests that are owed. It reports false if the QP failed.
func (c *completer) completeOwed(q *QP) bool {
	if len(c.owed) > 0 {
		q.retire()
	}
	return !q.flushes()
}

// place writes the data of the requests that are owed. If that of one cannot be written, that
// request has failed, and those behind it are not done. The error is that of data behind all of
// them.
func (c *completer) place(q *QP) error {
	if len(c.owed) == 0 {
		return nil
	}
	owed := c.owed
	c.owed = c.owed[:0]
	n, err := c.out.writeParts()
	if err == nil || n == len(owed) {
		return err
	}
	for i := owed[n]; i != q.sq.prod; i++ {
		q.sq.at(i).done = false
	}
	q.blameMemory()
	q.sq.at(owed[n]).status = WCLocProtErr
	return nil
}

// flushPayload writes the READ data of the batch that ends, before its packets are
// overwritten.
func (c *completer) flushPayload(q *QP) {
	if c.completeOwed(q) && c.write(q) != nil {
		c.failMemory(q)
	}
}

// write writes the READ data that waits.
func (c *completer) write(q *QP) error {
	if late := q.chaos; late != nil && len(c.out.spans) > 0 {
		return late.reads.keep(late, &c.out, pendingWrite{}, q.dev.cfg.Clock.Now())
	}
	return c.out.write()
}

// atomic processes the original value that an atomic returns.
func (c *completer) atomic(q *QP, pkt wire.Packet, st *step) {
	wqe := c.inOrder(q, pkt.PSN(), st)
	if wqe == nil {
		q.retire()
		return
	}
	if wqe.op != WRCompareSwap && wqe.op != WRFetchAdd {
		c.badResponse(q, Failure{Cause: CauseBadResponse, PSN: pkt.PSN()})
		return
	}
	if !c.completeOwed(q) {
		return
	}
	if c.out.write() != nil || q.chaos != nil && q.chaos.reads.place(all) != nil || !c.store(q, wqe, pkt.AtomicOrig()) {
		c.failMemory(q)
		return
	}
	c.moveTo(q, wqe, pkt.PSN().Next(), st.now)
	q.retire()
}

// store writes an atomic's result, in host order as libibverbs expects.
func (c *completer) store(q *QP, wqe *sendEntry, orig uint64) bool {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], orig)
	if !c.scatter(q, wqe, 0, b[:]) {
		c.out.drop()
		return false
	}
	return c.out.write() == nil
}

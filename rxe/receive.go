package rxe

import (
	"net/netip"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// Receive takes a batch of packets from the link, which has verified and stripped
// the ICRC. Their bytes are used only during the call. A run of packets for one QP
// is one visit to that QP: one lock, one flush of its memory writes, one ACK.
// Several threads may call Receive at once. It waits for none of them: see gate.
//
// It drops packets from addresses of this port. The packets of this device's queue pairs do
// not come here, so some other program of the host pretends to be one of them.
func (d *Device) Receive(batch []wire.Datagram) {
	v := visit{st: d.newStep()}
	malformed, forged := 0, 0
	var src netip.Addr
	own := false
	for i := range batch {
		dg := &batch[i]
		if dg.Src != src {
			src, own = dg.Src, d.localGID(dg.Src)
		}
		if own {
			forged++
			continue
		}
		pkt, err := wire.Parse(dg.Data)
		if err != nil {
			malformed++
			continue
		}
		dest := pkt.DestQP()
		if dest == wire.MulticastQPN {
			d.receiveMulticast(pkt, dg, &v)
			continue
		}
		if dest == GSIQPN && d.cfg.GSI != nil {
			v.to(nil)
			d.receiveGSI(pkt, dg)
			continue
		}
		if v.q == nil || v.q.qpn != dest {
			v.to(d.lookupQP(dest))
		}
		if v.q == nil {
			d.counters.BadQPN.Add(1)
			continue
		}
		v.packet(pkt, dg)
	}
	v.to(nil)
	if malformed+forged > 0 {
		d.counters.Malformed.Add(uint64(malformed))
		d.counters.OwnAddr.Add(uint64(forged))
	}
	d.counters.RcvdPkts.Add(uint64(len(batch) - malformed - forged))
	v.st.done()
}

// receiveMulticast gives a packet to every QP attached to its group. Copies of this
// device's own packets were delivered when they were sent.
func (d *Device) receiveMulticast(pkt wire.Packet, dg *wire.Datagram, v *visit) {
	for _, q := range d.mcastMembers(wire.GIDFromAddr(dg.Dst)) {
		v.to(q)
		v.packet(pkt, dg)
	}
	v.to(nil)
}

// visit is a run of received packets for one QP.
type visit struct {
	st     *step
	q      *QP // nil: none
	locked bool
	queued *inboxItem // packets for the inbox of a QP that another thread has locked
	bytes  int        // received since the last answer
}

// to ends the visit to one QP and begins one to the next, unless next is nil. Only
// one QP is locked at a time.
func (v *visit) to(next *QP) {
	v.enqueue()
	if v.locked {
		v.q.endVisit(v.st)
		v.q.unlock(v.st)
	}
	v.q, v.locked = next, false
	if next == nil {
		return
	}
	locked, queued := next.gate.tryLock()
	if v.locked = locked; queued {
		next.runInbox(v.st) // came first
	}
}

// enqueue puts packets into the inbox of a QP that was locked. If the QP has been
// unlocked since, the end of Receive runs that inbox.
func (v *visit) enqueue() {
	if v.queued != nil {
		v.q.enqueue(v.queued)
		v.queued = nil
	}
}

func (v *visit) packet(pkt wire.Packet, dg *wire.Datagram) {
	if !v.locked {
		if v.queued == nil || !v.queued.extend(dg) {
			v.enqueue()
			v.queued = itemFromDatagram(dg)
		}
		return
	}
	v.q.packet(pkt, dg, v.st)
	if v.bytes += len(dg.Data); v.bytes >= visitBytes {
		v.bytes = 0
		v.q.endVisit(v.st)
		v.st.flush()
	}
}

// endVisit does what was put off while the packets of a visit were processed.
func (q *QP) endVisit(st *step) {
	q.countTraffic()
	if q.dead {
		return
	}
	q.comp.flushPayload(q)
	q.resp.endBatch(q, st)
	q.resumeReads(st)
	q.runRequester(st)
	q.schedule()
}

// resumeReads lets the responder send READ responses, and execute the requests that
// waited for them, until it has to go on later.
func (q *QP) resumeReads(st *step) {
	for {
		q.resp.sendResponses(q, st)
		if !q.resp.runDeferred(q, st) {
			return
		}
		q.resp.endBatch(q, st)
	}
}

// packet handles one packet for this QP. The caller has locked it.
func (q *QP) packet(pkt wire.Packet, dg *wire.Datagram, st *step) {
	if c := q.refusal(pkt, dg); c != nil {
		c.Add(1)
		q.tallies.rx.packets++
		q.tallies.stats.Dropped.Add(1)
		return
	}
	st.countRcvd(pkt.Opcode(), 1)
	if dg.TrafficClass&ecnMask == congested {
		q.marked(pkt, st)
	}
	if pkt.Opcode() == wire.OpCNP {
		q.tallies.rx.packets++
		q.notified(st)
		return
	}
	q.received(packet{pkt, 1}, dg, st)
}

// received handles a packet that was not refused.
func (q *QP) received(pkt packet, dg *wire.Datagram, st *step) {
	q.tallies.rx.packets += uint64(pkt.count)
	q.tallies.rx.bytes += uint64(len(pkt.Payload()))
	if pkt.Info().Has(wire.OpRequest) {
		q.resp.request(q, pkt, dg, st)
	} else {
		q.comp.response(q, pkt, st)
	}
}

// refusal makes the checks of IBA 9.6.1, which come before any transport state. A
// packet that fails one is dropped without an answer. It returns the counter for
// what is wrong, or nil (hdr_check of rxe_recv.c).
func (q *QP) refusal(pkt wire.Packet, dg *wire.Datagram) *atomic.Uint64 {
	c := &q.dev.counters
	info := pkt.Info()
	cnp := info.Service == wire.ServiceCNP // also of interest to a responder, which sends data
	switch {
	case q.dead || !q.listens(cnp || info.Has(wire.OpRequest)):
		return &c.BadState
	case info.Service != q.facts.service && !cnp:
		return &c.BadType
	case !wire.PKeyMatch(pkt.PKey(), q.pkey):
		return &c.BadPKey
	case q.typ != QPUD && (dg.Src != q.route.Dst || dg.Dst != q.route.Src):
		return &c.BadAddr
	case q.typ != QPUD && dg.SrcQP != 0 && dg.SrcQP != q.attr.DestQPN:
		return &c.BadSrcQP
	case q.typ == QPUD && info.Service == wire.ServiceUD && forgedSource(pkt, dg):
		return &c.BadSrcQP
	default:
		return nil
	}
}

// listens reports whether packets count in the present state: requests from RTR on,
// responses from RTS on. SQE leaves the receive side working.
func (q *QP) listens(request bool) bool {
	switch q.attr.State {
	case QPRTR:
		return request
	case QPRTS, QPSQD:
		return true
	case QPSQE:
		return request
	default:
		return false
	}
}

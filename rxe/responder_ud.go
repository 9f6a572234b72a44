package rxe

import "github.com/gorxe/gorxe/wire"

// The unreliable services answer nothing. A fault ends only its message, unless it
// is this side's own.

// requestUC handles a packet of the UC service. A message with a missing packet is
// given up, and its receive buffer is used for the next one (IBA 9.8.2.2).
func (r *responder) requestUC(q *QP, pkt packet, st *step) {
	info := pkt.Info()
	if ahead := pkt.PSN().Diff(r.psn); ahead != 0 {
		q.dev.counters.OutOfSeqDrop.Add(1)
		q.tallies.stats.OutOfSequence.Add(1)
		if -ucLate <= ahead && ahead < 0 {
			q.tallies.stats.Dropped.Add(1)
			return
		}
		if !r.flushPayload(q, st) {
			return
		}
		r.abandonMessage()
		r.psn = pkt.PSN()
	}
	if r.openMessage != 0 && info.Has(wire.OpStart) {
		// The end of the message before is missing. This is the next one.
		q.dev.counters.BadOpcode.Add(1)
		if !r.flushPayload(q, st) {
			return
		}
		r.abandonMessage()
	}
	psn, msn := r.psn, r.msn
	f := r.check(q, pkt, st)
	if f == faultNone {
		f = r.execute(q, pkt, st)
	}
	r.psn = psn.Add(pkt.count)
	if f == faultNone || q.attr.State == QPErr {
		return
	}
	q.countDropped(f)
	if faultRules[f].ownSide {
		if r.flushPayload(q, st) {
			r.terminate(q, f, psn, msn, st)
		}
		return
	}
	if f == faultLength && r.misfit > 0 || f == faultRecvShort {
		r.tellOnce(q, f, psn)
	}
	if r.flushPayload(q, st) {
		r.abandonMessage()
	}
}

// tellOnce reports why a message was dropped. Those that follow are lost as well, and nobody else
// says so.
func (r *responder) tellOnce(q *QP, f fault, psn wire.PSN) {
	if !r.told {
		r.told = true
		r.reportFault(q, f, psn, WCSuccess)
	}
}

// abandonMessage gives up the message being received. The receive work request
// stays. The caller has written what came of the message to memory, as the buffer
// may be the next message's.
func (r *responder) abandonMessage() {
	r.openMessage = 0
	r.recv.rewind()
}

// requestUD handles a UD packet: a whole message, which follows the 40 bytes of its
// GRH in memory (IBA 11.4.1.2).
func (r *responder) requestUD(q *QP, pkt wire.Packet, dg *wire.Datagram, st *step) {
	if pkt.QKey() != q.attr.QKey {
		q.dev.counters.BadQKey.Add(1)
		q.tallies.stats.Dropped.Add(1)
		r.tellQKey(q, pkt, dg)
		return
	}
	if f := r.receiveDatagram(q, pkt, dg, st); f != faultNone && q.attr.State != QPErr {
		q.countDropped(f)
		if faultRules[f].ownSide {
			r.pend.batch.drop()
			r.terminate(q, f, pkt.PSN(), r.msn, st)
		} else if f == faultRecvShort {
			r.tellOnce(q, f, pkt.PSN())
		}
	}
}

// strays are datagrams that were dropped for their Q_Key, as far as that was reported.
type strays struct {
	from wire.QPN // of the last one
	qkey uint32
	told uint8
}

// tellQKey reports that a datagram was dropped for its Q_Key: nobody else says so. Of those that
// come one after another from one queue pair with one Q_Key, it reports the first. A group may
// have members with several Q_Keys, so nothing is wrong with a datagram that was sent to one.
func (r *responder) tellQKey(q *QP, pkt wire.Packet, dg *wire.Datagram) {
	s := &r.strays
	from, qkey := pkt.SrcQP(), pkt.QKey()
	if q.reports == nil || pkt.DestQP() == wire.MulticastQPN || s.told == mostStrays || s.told > 0 && s.from == from && s.qkey == qkey {
		return
	}
	s.from, s.qkey, s.told = from, qkey, s.told+1
	q.report(&Failure{Cause: CauseQKey, Peer: wire.GIDFromAddr(dg.Src), PeerQPN: from, PSN: pkt.PSN(), QKey: qkey, OwnQKey: q.attr.QKey})
}

func (r *responder) receiveDatagram(q *QP, pkt wire.Packet, dg *wire.Datagram, st *step) fault {
	if q.withholdsReceive() {
		return faultNoRecv
	}
	if f := r.getRecvWQE(q); f != faultNone {
		return f
	}
	data := pkt.Payload()
	if f := q.inboundMessage(uint64(len(data))); f != faultNone {
		return f
	}
	total := wire.GRHLen + len(data)
	if uint64(total) > r.recv.capacity {
		return faultRecvShort // dropped; the buffer stays for the next datagram
	}
	wire.PutGRH(r.grh[:], dg, udpHeaderLen+len(pkt.Bytes())+wire.ICRCLen)
	if f := r.scatter(q, r.grh[:], st); f != faultNone {
		return f
	}
	if f := r.scatter(q, data, st); f != faultNone {
		return f
	}
	return r.doComplete(q, packet{pkt, 1}, WCRecv, uint32(total), st)
}

// packetType returns the service level of the completion for the datagram whose
// GRH is at hand: its first byte is 0 in the IPv4 form (wire.PutGRH).
func (r *responder) packetType() uint8 {
	if r.grh[0] == 0 {
		return SLRoCEv2IPv4
	}
	return SLRoCEv2IPv6
}

const udpHeaderLen = 8 // RFC 768

// countDropped counts a packet of an unreliable service that came to nothing.
func (q *QP) countDropped(f fault) {
	q.tallies.stats.Dropped.Add(1)
	f.count(&q.dev.counters)
}

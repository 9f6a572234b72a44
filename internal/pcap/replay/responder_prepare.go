package replay

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The preparation of the engine as responder. It gets the keys, rights, receives and
// memory that the captured device had.

// translate puts the engine's keys, and its number of the SRQ, into the request at position i.
func (r *responder) translate(b []byte, i int) error {
	const keyOffset = 8 // after the address, in RETH and AtomicETH
	p, info := r.events[i].pkt, r.events[i].pkt.Info()
	if at := int(max(info.RETH, info.AtomicETH)); at > 0 {
		var key wire.RKey
		if no, ok := r.x.refusal(i); ok && no.Syndrome() == wire.SyndromeNAK(wire.NAKRemoteAccess) && r.takes(p) {
			var assumed bool
			if key, assumed = r.keys.refusing(p); assumed {
				r.s.assume("a key that was good before or after is not now")
			}
		} else {
			key = r.keys.of(p.RKey())
		}
		binary.BigEndian.PutUint32(b[at+keyOffset:], uint32(key))
	}
	if info.Has(wire.HasIETH) {
		binary.BigEndian.PutUint32(b[info.IETH:], uint32(r.keys.of(p.InvRKey())))
	}
	return r.translateSRQ(b, p)
}

// takes reports whether the captured device had the SRQ that a request names.
func (r *responder) takes(p wire.Packet) bool { return r.domain == nil || r.domain.known[p.XRCSRQN()] }

// learn stores in memory the bytes that the captured device found there.
func (r *responder) learn(i int) {
	p := r.events[i].pkt
	switch info := p.Info(); {
	case info.Has(wire.OpRead):
		n := min(readPackets(p, r.mtu), uint32(len(r.events)))
		for k := range n {
			if a, ok := r.x.answer(p.PSN().Add(k), i, wire.OpReadResp); ok {
				r.found(p.VA()+uint64(k)*uint64(r.mtu), a.Payload())
			}
		}
	case info.Has(wire.OpAtomic) && !p.PSN().Less(r.h.q.Snapshot().RecvPSN):
		if a, ok := r.x.answer(p.PSN(), i, wire.HasAtomicAckETH); ok {
			var word [8]byte
			binary.NativeEndian.PutUint64(word[:], a.AtomicOrig())
			r.found(p.VA(), word[:])
		}
	}
}

func (r *responder) found(va uint64, b []byte) {
	if changed, err := r.mem.write(va, b); changed && err == nil {
		r.s.assume("memory changed by the captured host itself")
	}
}

// prepare gives the engine the state that the captured device had when it got the
// request at position i. The engine expects that request.
func (r *responder) prepare(i int) error {
	p, info := r.events[i].pkt, r.events[i].pkt.Info()
	no, isRefused := r.x.refusal(i)
	access := everyRight
	isRefused = isRefused && (!r.ready || !no.Syndrome().IsRNR())
	if isRefused && no.Syndrome().IsRNR() {
		if err := r.h.q.Modify(&rxe.QPAttr{MinRNRTimer: no.Syndrome().RNRTimer()}, rxe.QPAttrMinRNRTimer); err != nil {
			return r.ended(err)
		}
		r.s.assume("no receive posted")
	} else if info.Has(wire.OpRecv) && !r.posted[p.XRCSRQN()] && r.takes(p) {
		if err := r.postRecv(i); err != nil {
			return err
		}
	}
	if isRefused && no.Syndrome() == wire.SyndromeNAK(wire.NAKInvalidRequest) && accessed(p) > 0 && sound(p, r.mtu) {
		access &^= rightsFor(p)
		r.s.assume("a queue pair without the right")
	}
	if err := r.h.q.Modify(&rxe.QPAttr{Access: access}, rxe.QPAttrAccessFlags); err != nil {
		return r.ended(err)
	}
	return nil
}

// ended returns the error for a queue pair that has failed and cannot be prepared.
func (r *responder) ended(err error) error {
	if r.h.q.State() == rxe.QPErr {
		return nil
	}
	return err
}

// sound reports whether nothing in the request itself causes a NAK.
func sound(p wire.Packet, mtu int) bool {
	size := len(p.Payload())
	switch info := p.Info(); {
	case info.Has(wire.OpAtomic):
		return p.VA()%8 == 0
	case info.Has(wire.OpWrite | wire.OpFirst):
		return size == mtu || info.Has(wire.OpOnly) && size == int(p.DMALen())
	default:
		return size <= mtu
	}
}

// postRecv posts a receive for the message that begins at position i. It is large, or
// too short for a packet that the captured device refused.
func (r *responder) postRecv(i int) error {
	wr := rxe.RecvWR{ID: recvID, SGL: []rxe.SGE{{Length: recvLength, LKey: r.recv.LKey()}}}
	switch at, code := r.refusedAt(i); code {
	case wire.NAKInvalidRequest:
		wr.SGL[0].Length = at
		r.s.assume("a receive shorter than the message")
	case wire.NAKRemoteOp: // rdma_rxe says so of a short receive, too
		wr.SGL[0].Length = at
		wr.SGL = append(wr.SGL, rxe.SGE{Length: recvLength})
		r.s.assume("a receive that is not accessible")
	default:
	}
	num := r.events[i].pkt.XRCSRQN()
	post := r.h.q.PostRecv
	if r.domain != nil {
		s, err := r.domain.srq(num)
		if err != nil {
			return err
		}
		post = s.PostRecv
	}
	if _, err := post([]rxe.RecvWR{wr}); err != nil {
		return r.ended(err)
	}
	r.posted[num] = true
	return nil
}

// refusedAt returns how much of a SEND the captured device took before it refused a packet because
// of the receive, and the NAK; 0 if it did not.
func (r *responder) refusedAt(i int) (uint32, wire.NAKCode) {
	p := r.events[i].pkt
	if !p.Info().Has(wire.OpSend) {
		return 0, 0
	}
	for k := uint32(0); k < uint32(len(r.events)); k++ {
		j := after(r.x.requests[p.PSN().Add(k)], i-1)
		if j < 0 {
			return 0, 0
		}
		at := r.events[j].pkt
		no, refused := r.x.refusal(j)
		taken := k*uint32(r.mtu) + uint32(max(len(at.Payload()), 1)) - 1
		switch {
		case !refused:
		case no.Syndrome() == wire.SyndromeNAK(wire.NAKRemoteOp) && len(at.Payload()) > 0:
			return taken, wire.NAKRemoteOp
		case no.Syndrome() == wire.SyndromeNAK(wire.NAKInvalidRequest) && len(at.Payload()) > 0 && sound(at, r.mtu):
			return taken, wire.NAKInvalidRequest
		}
		if at.Info().Has(wire.OpEnd) {
			return 0, 0
		}
	}
	return 0, 0
}

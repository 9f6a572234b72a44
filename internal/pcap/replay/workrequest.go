package replay

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The work requests of captured messages.

// start returns the packet that begins a message at a PSN; now is the position of
// the request that is being played.
func (r *requester) start(psn wire.PSN, now int) (wire.Packet, bool) {
	list := r.x.requests[psn]
	for _, i := range list[:min(len(list), maxTries)] {
		if p := r.events[i].pkt; p.Info().Has(wire.OpStart) {
			return p, true
		}
	}
	p := r.events[now].pkt
	return p, p.PSN() == psn && p.Info().Has(wire.OpStart)
}

// workRequest is a work request and the place of its message.
type workRequest struct{ rxe.SendWR }

func (w *workRequest) length() uint32 {
	if len(w.SGL) == 0 {
		return 0
	}
	return w.SGL[0].Length
}

// message returns the work request of a captured message, and how many PSNs it takes.
func (r *requester) message(first wire.Packet) (*workRequest, uint32) {
	info := first.Info()
	w := &workRequest{rxe.SendWR{ID: sendID, RemoteAddr: first.VA(), RKey: first.RKey(), XRCSRQN: first.XRCSRQN(), Flags: rxe.SendSignaled}}
	length, packets := uint32(len(first.Payload())), uint32(1)
	last := first
	switch {
	case info.Has(wire.OpRead):
		w.Op, length, packets = rxe.WRRead, first.DMALen(), readPackets(first, r.mtu)
	case info.Has(wire.OpAtomic):
		w.Op, length = rxe.WRFetchAdd, 8
		w.CompareAdd = first.SwapAdd()
		if rcOpcode(first) == wire.RCCompareSwap {
			w.Op, w.CompareAdd, w.Swap = rxe.WRCompareSwap, first.Compare(), first.SwapAdd()
		}
	case info.Has(wire.OpAtomicWrite):
		w.Op = rxe.WRAtomicWrite
	case info.Has(wire.OpFlush):
		w.Op, w.FlushLength = rxe.WRFlush, first.DMALen()
		w.FlushType, w.FlushLevel = first.FlushType()
		return w, 1
	default:
		last, packets, length = r.extent(first)
		w.Op = dataOp(last)
		w.Imm, w.InvRKey = last.Imm(), last.InvRKey()
	}
	if last.Solicited() {
		w.Flags |= rxe.SendSolicited
	}
	w.SGL = []rxe.SGE{{Addr: uint64(first.PSN().Diff(r.base)) * uint64(r.mtu), Length: length, LKey: r.mr.LKey()}}
	return w, packets
}

// dataOp returns the operation of a message, which its last packet shows. If the capture
// lacks that, it returns the plain operation of its kind.
func dataOp(last wire.Packet) rxe.WROpcode {
	info := last.Info()
	switch {
	case info.Has(wire.OpWrite) && info.Has(wire.OpImm):
		return rxe.WRWriteImm
	case info.Has(wire.OpWrite):
		return rxe.WRWrite
	case info.Has(wire.OpImm):
		return rxe.WRSendImm
	case info.Has(wire.OpInv):
		return rxe.WRSendInv
	default:
		return rxe.WRSend
	}
}

// extent finds the end of a SEND or WRITE: its last packet, how many packets it has, and
// how many bytes. It skips packets that the capture lacks.
func (r *requester) extent(first wire.Packet) (last wire.Packet, packets, length uint32) {
	last = first
	if first.Info().Has(wire.OpOnly) {
		return last, 1, uint32(len(first.Payload()))
	}
	const gap = 64
	seen := uint32(0) // the last packet that is there
	for k := uint32(1); k <= seen+gap; k++ {
		list := r.x.requests[first.PSN().Add(k)]
		if len(list) == 0 {
			continue
		}
		p := r.events[list[0]].pkt
		if p.Info().Has(wire.OpStart) {
			break
		}
		seen, last = k, p
		if p.Info().Has(wire.OpEnd) {
			return last, k + 1, k*uint32(r.mtu) + uint32(len(p.Payload()))
		}
	}
	if first.Info().Has(wire.OpWrite) {
		return last, readPackets(first, r.mtu), first.DMALen()
	}
	// One byte more than is there, so that the last packet does not end the message.
	return last, seen + 2, (seen+1)*uint32(r.mtu) + 1
}

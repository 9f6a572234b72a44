package ladder

import (
	"net/netip"
	"slices"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// Filter chooses packets, for which all of its fields must hold. The zero value chooses
// every packet with the InfiniBand transport.
type Filter struct {
	QPs     []uint32     // either end's queue pair; the sender's as far as it is known
	Hosts   []netip.Addr // either end's address
	Notable bool         // only packets that are retransmitted, refused, damaged or break a rule
}

// flow reports whether all packets of a flow are chosen.
func (f *Filter) flow(p *capture.Packet, v *conformance.Verdict) bool {
	if p.Kind == capture.Other {
		return false
	}
	if len(f.Hosts) > 0 && !slices.Contains(f.Hosts, p.Src.Unmap()) && !slices.Contains(f.Hosts, p.Dst.Unmap()) {
		return false
	}
	return len(f.QPs) == 0 || f.qp(p, v)
}

func (f *Filter) qp(p *capture.Packet, v *conformance.Verdict) bool {
	if len(p.Transport) >= wire.BTHLen {
		b := p.Transport[5:8]
		if slices.Contains(f.QPs, uint32(b[0])<<16|uint32(b[1])<<8|uint32(b[2])) {
			return true
		}
	}
	if v.Parsed && v.Packet.Info().Has(wire.HasDETH) && slices.Contains(f.QPs, uint32(v.Packet.SrcQP())) {
		return true
	}
	return v.Flow != nil && v.Flow.Peer != nil && slices.Contains(f.QPs, uint32(v.Flow.Peer.QPN))
}

package rdmacm

import (
	"net/netip"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// PathRecord describes the path to a peer (struct sa_path_rec).
type PathRecord struct {
	SGID, DGID     wire.GID
	FlowLabel      uint32 // 20 bits
	HopLimit       uint8
	TrafficClass   uint8
	SL             uint8
	PKey           wire.PKey
	MTU            uint8 // the code of a path MTU: 1 for 256 bytes to 5 for 4096
	Rate           uint8 // enum ib_rate; 0: that of the port
	PacketLifetime uint8 // 4.096 µs times 2 to this power
	Reversible     bool
	ServiceID      uint64
}

const (
	// packetLifetime is CMA_IBOE_PACKET_LIFETIME of Linux 6.12.
	packetLifetime = 16
	// headers is the room for headers in a network packet, besides the path MTU: GRH,
	// UDP, BTH, XRCETH, AtomicETH and ICRC (iboe_get_mtu).
	headers = 96
)

// mtuCode returns the code of the largest path MTU that fits a network MTU, or 0.
func mtuCode(mtu int) uint8 {
	code := uint8(0)
	for code < 5 && mtu-headers >= 256<<code {
		code++
	}
	return code
}

// pathRecord returns the path from the source to the destination address
// (cma_resolve_iboe_route).
func (id *ID) pathRecord(info *rocev2.PortInfo) PathRecord {
	p := PathRecord{
		SGID: id.src.gid(), DGID: id.dst.gid(), FlowLabel: id.flowLabel(), HopLimit: id.hop, TrafficClass: id.tos,
		PKey: wire.DefaultPKey, MTU: mtuCode(info.MTU), PacketLifetime: packetLifetime, Reversible: true,
		ServiceID: id.service(&id.dst),
	}
	if p.HopLimit == 0 {
		p.HopLimit = rxe.DefaultHopLimit
	}
	// Half of the timeout is for the way there.
	if id.ackTimeout.set && id.ackTimeout.value > 0 {
		p.PacketLifetime = id.ackTimeout.value - 1
	}
	return p
}

const flowLabelMask = 1<<20 - 1

// flowLabel returns the flow label, which spreads connections over the paths of a network
// (cma_get_roce_udp_flow_label).
func (id *ID) flowLabel() uint32 {
	if fl := id.src.Flow & flowLabelMask; fl != 0 && id.src.family() == famIPv6 {
		return fl
	}
	return (uint32(id.src.port())*31 + uint32(id.dst.port())) & flowLabelMask
}

// ahAttr returns the address of the path's destination; ok is false if the device has
// lost the source address.
func (id *ID) ahAttr(p *PathRecord) (rxe.AHAttr, bool) {
	info := id.dev.Net()
	i, ok := id.dev.gidIndex(&info, netip.AddrFrom16(p.SGID).Unmap())
	return rxe.AHAttr{
		DGID: p.DGID, SGIDIndex: i, FlowLabel: p.FlowLabel, HopLimit: p.HopLimit, TrafficClass: p.TrafficClass,
		PortNum: 1, SL: p.SL, StaticRate: p.Rate,
	}, ok
}

package conformance

import (
	"encoding/binary"
	"net/netip"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// icrcCache keeps the ICRC states of recent routes, indexed by a few bits of their
// addresses and source port.
type icrcCache [256]icrcEntry

type icrcEntry struct {
	src, dst netip.Addr
	port     uint16
	valid    bool
	state    wire.ICRCState
}

func (c *icrcCache) of(p *capture.Packet) *wire.ICRCState {
	n := p.Network
	// The last bytes of both addresses, which come before the UDP header in either
	// version, and the port.
	end := len(n) - 8
	i := n[end-1] ^ n[end-5]<<3 ^ n[end+1] ^ n[end]<<5
	e := &c[i]
	if !e.valid || e.port != p.UDP.SrcPort || e.src != p.Src || e.dst != p.Dst {
		*e = icrcEntry{src: p.Src, dst: p.Dst, port: p.UDP.SrcPort, valid: true}
		e.state = wire.NewICRC(&wire.Route{Src: p.Src, Dst: p.Dst, SrcPort: p.UDP.SrcPort}, p.UDP.DstPort)
	}
	return &e.state
}

// checkICRC checks the ICRC of a packet, if the packet is whole.
func (c *Checker) checkICRC(p *capture.Packet) ICRC {
	if p.Truncated() || len(p.Transport) < wire.BTHLen+wire.ICRCLen || p.IP.MF {
		return ICRCUnknown
	}
	body, icrc := p.Transport[:len(p.Transport)-wire.ICRCLen], p.Transport[len(p.Transport)-wire.ICRCLen:]
	var good bool
	switch {
	case p.Kind != capture.RoCEv2:
		sum, ok := wire.ICRCNative(p.Network, body)
		if !ok {
			return ICRCUnknown
		}
		good = sum == binary.LittleEndian.Uint32(icrc)
	case plainHeaders(p):
		good = c.icrc.of(p).Check(p.Transport, p.IP.ID, p.IP.DF)
	default:
		sum, ok := wire.ICRCAsSent(p.Network, body)
		if !ok {
			return ICRCUnknown
		}
		good = sum == binary.LittleEndian.Uint32(icrc)
	}
	if good {
		return ICRCGood
	}
	return ICRCBad
}

// plainHeaders reports whether the ICRC is defined for the IP and UDP headers: they
// have no options or extensions, and their lengths agree.
func plainHeaders(p *capture.Packet) bool {
	header := ipHeaderLen(p)
	udp := 8 + len(p.Transport)
	return int(p.IP.HeaderLen) == header && p.UDP.Length == udp && p.IP.Length == header+udp
}

package interop

import (
	"errors"
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// roce is a RoCEv2 packet as it was on the cable.
type roce struct {
	capture.Packet
	route wire.Route
}

var errFragment = errors.New("a fragment")

// parseRoCE returns nil for a frame that carries something else.
func parseRoCE(frame []byte) (*roce, error) {
	p := &roce{Packet: capture.Packet{Link: capture.LinkEthernet, Frame: frame, Length: len(frame)}}
	p.Decode()
	switch ip := &p.IP; {
	case ip.MF || ip.FragOffset != 0:
		return nil, errFragment
	case p.Kind != capture.RoCEv2:
		return nil, nil
	case ip.HeaderLen != map[uint8]uint8{4: 20, 6: 40}[ip.Version]:
		return nil, fmt.Errorf("IPv%d with a header of %d bytes", ip.Version, ip.HeaderLen)
	case ip.Length != int(ip.HeaderLen)+p.UDP.Length || p.UDP.Length != udpHeader+len(p.Transport):
		return nil, fmt.Errorf("IP length %d, UDP length %d, %d bytes after UDP", ip.Length, p.UDP.Length, len(p.Transport))
	case ip.Checksum == capture.ChecksumBad:
		return nil, errors.New("the checksum of the IP header is wrong")
	case p.UDP.Checksum != capture.ChecksumGood && p.UDP.Checksum != capture.ChecksumNone:
		return nil, errors.New("the UDP checksum is wrong")
	case len(p.Transport) < wire.BTHLen+wire.ICRCLen:
		return nil, fmt.Errorf("%d bytes after UDP", len(p.Transport))
	}
	p.route.Src, p.route.Dst, p.route.SrcPort = p.Src, p.Dst, p.UDP.SrcPort
	return p, nil
}

// transport returns the RoCEv2 packet in a frame, if there is a whole one.
func transport(frame []byte) (p wire.Packet, ok bool) {
	r, err := parseRoCE(frame)
	if r == nil || err != nil {
		return p, false
	}
	p, err = wire.Parse(r.body())
	return p, err == nil
}

const udpHeader = 8

// intact checks that the ICRC matches the IP header that the packet had, and that the
// transport headers are well-formed.
func (p *roce) intact() error {
	state := wire.NewICRC(&p.route, wire.UDPPort)
	if !state.Check(p.Transport, p.IP.ID, p.IP.DF) {
		return fmt.Errorf("the ICRC is wrong (IPv4 identification %d, DF %v)", p.IP.ID, p.IP.DF)
	}
	_, err := wire.Parse(p.body())
	return err
}

// body returns the part of the transport that the ICRC covers: BTH through the pad.
func (p *roce) body() []byte { return p.Transport[:len(p.Transport)-wire.ICRCLen] }

func (p *roce) opcode() wire.Opcode { return wire.Opcode(p.Transport[0]) }

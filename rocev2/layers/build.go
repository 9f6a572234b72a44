package layers

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/wire"
)

// SetHeadersForICRC sets the IP and UDP layers of the packet, for SerializeTo with
// ComputeChecksums: the ICRC covers their addresses and ports, and IPv4's
// identification and don't-fragment flag.
func (b *BTH) SetHeadersForICRC(ip gopacket.NetworkLayer, udp *gplayers.UDP) error {
	src, okSrc := netip.AddrFromSlice(ip.NetworkFlow().Src().Raw())
	dst, okDst := netip.AddrFromSlice(ip.NetworkFlow().Dst().Raw())
	if !okSrc || !okDst {
		return fmt.Errorf("layers: %v has no addresses for the ICRC", ip.LayerType())
	}
	var (
		id uint16
		df bool
	)
	if v4, ok := ip.(*gplayers.IPv4); ok {
		id, df = v4.Id, v4.Flags&gplayers.IPv4DontFragment != 0
	}
	state := wire.NewICRC(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(udp.SrcPort)}, uint16(udp.DstPort))
	b.icrc = func(pkt []byte) uint32 { return state.Sum(id, df, pkt) }
	return nil
}

// SerializeTo writes the header before the extension headers and the payload, which
// are in the buffer, and pad and ICRC behind them. FixLengths sets PadCount from the
// payload. ComputeChecksums sets ICRC, and needs SetHeadersForICRC.
func (b *BTH) SerializeTo(buf gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		// Every extension header is a whole number of words.
		b.PadCount = uint8(-len(buf.Bytes()) & 3)
	}
	h, err := prepend(buf, wire.BTHLen)
	if err != nil {
		return err
	}
	h[0] = byte(b.Opcode)
	h[1] = bit(b.Solicited, 7) | bit(b.MigReq, 6) | b.PadCount&3<<4 | b.Version&0xf
	be.PutUint16(h[2:], uint16(b.PKey))
	be.PutUint32(h[4:], uint32(b.DestQP)&wire.QPNMask)
	h[4] = bit(b.FECN, 7) | bit(b.BECN, 6)
	be.PutUint32(h[8:], uint32(b.PSN)&0xffffff)
	h[8] = bit(b.AckReq, 7)

	tail, err := buf.AppendBytes(int(b.PadCount&3) + wire.ICRCLen)
	if err != nil {
		return err
	}
	clear(tail)
	if opts.ComputeChecksums {
		if b.icrc == nil {
			return fmt.Errorf("layers: call SetHeadersForICRC before the ICRC is computed")
		}
		pkt := buf.Bytes()
		b.ICRC = b.icrc(pkt[:len(pkt)-wire.ICRCLen])
	}
	pkt := buf.Bytes()
	binary.LittleEndian.PutUint32(pkt[len(pkt)-wire.ICRCLen:], b.ICRC)
	return nil
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}

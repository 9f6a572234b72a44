package rocev2

import (
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/wire"
)

// SetHeadersForICRC names the IP and UDP layers that the packet will have, for
// SerializeTo with ComputeChecksums: the ICRC covers their addresses, ports,
// and the IPv4 identification and don't-fragment flag.
func (b *BTH) SetHeadersForICRC(ip gopacket.NetworkLayer, udp *layers.UDP) error {
	src, okSrc := netip.AddrFromSlice(ip.NetworkFlow().Src().Raw())
	dst, okDst := netip.AddrFromSlice(ip.NetworkFlow().Dst().Raw())
	if !okSrc || !okDst {
		return fmt.Errorf("rocev2: %v has no addresses for the ICRC", ip.LayerType())
	}
	var (
		id uint16
		df bool
	)
	if v4, ok := ip.(*layers.IPv4); ok {
		id, df = v4.Id, v4.Flags&layers.IPv4DontFragment != 0
	}
	state := wire.NewICRC(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(udp.SrcPort)}, uint16(udp.DstPort))
	b.icrc = func(pkt []byte) uint32 { return state.Sum(id, df, pkt) }
	return nil
}

// SerializeTo writes the header before what is in the buffer, the extension
// headers and the payload, and pad and ICRC behind it. FixLengths sets PadCount
// from the payload; ComputeChecksums sets ICRC and needs SetHeadersForICRC.
func (b *BTH) SerializeTo(buf gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		// Every extension header is a whole number of words.
		b.PadCount = uint8(-len(buf.Bytes()) & 3)
	}
	h, err := prepend(buf, bthLen)
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

	tail, err := buf.AppendBytes(int(b.PadCount&3) + icrcLen)
	if err != nil {
		return err
	}
	clear(tail)
	if opts.ComputeChecksums {
		if b.icrc == nil {
			return fmt.Errorf("rocev2: SetHeadersForICRC must come before the ICRC is computed")
		}
		pkt := buf.Bytes()
		b.ICRC = b.icrc(pkt[:len(pkt)-icrcLen])
	}
	pkt := buf.Bytes()
	wireICRC(pkt[len(pkt)-icrcLen:], b.ICRC)
	return nil
}

func wireICRC(b []byte, icrc uint32) {
	b[0], b[1], b[2], b[3] = byte(icrc), byte(icrc>>8), byte(icrc>>16), byte(icrc>>24)
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}

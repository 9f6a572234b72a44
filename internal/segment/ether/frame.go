package ether

import "encoding/binary"

// Sizes of headers.
const (
	HeaderSize = 14
	vlanSize   = 4
	ipv4Size   = 20
	ipv6Size   = 40
	tcpSize    = 20
	udpSize    = 8
)

// Types of Ethernet, and protocols of IP.
const (
	TypeIPv4 = 0x0800
	typeVLAN = 0x8100 // C-VLAN
	typeSTag = 0x88a8 // S-VLAN
	TypeIPv6 = 0x86dd

	ProtoTCP = 6
	ProtoUDP = 17
)

// Extension headers of IPv6.
const (
	extHopByHop    = 0
	extRouting     = 43
	extFragment    = 44
	extAuth        = 51
	extDestination = 60
)

// Frame is a parsed Ethernet frame. Offsets are 0 if the frame has no such header, or not all of
// it.
type Frame struct {
	Data []byte

	EtherType uint16 // behind the last VLAN tag
	Tagged    bool   // the first tag is a C-VLAN tag
	VLAN      uint16 // the first tag's control information
	VLANs     int    // how many tags

	IP       int   // offset of the IP header
	Version  uint8 // 4, 6, or 0: no IP
	Proto    uint8 // of IP: for IPv6, behind the extension headers
	Fragment bool  // only a part of an IP packet
	Short    bool  // the IP packet is longer than the frame
	L4       int   // offset of the header of TCP or UDP; 0 in a fragment
	End      int   // the end of the IP packet; padding follows
}

// Parse reads the headers of a frame. It never fails: it stops at the first header that is not
// whole.
func Parse(b []byte) Frame {
	f := Frame{Data: b, End: len(b)}
	if len(b) < HeaderSize {
		return f
	}
	at := HeaderSize
	f.EtherType = binary.BigEndian.Uint16(b[12:])
	for f.EtherType == typeVLAN || f.EtherType == typeSTag {
		if f.VLANs == maxVLANs || len(b) < at+vlanSize {
			return f
		}
		if f.VLANs == 0 {
			f.Tagged = f.EtherType == typeVLAN
			f.VLAN = binary.BigEndian.Uint16(b[at:])
		}
		f.VLANs++
		f.EtherType = binary.BigEndian.Uint16(b[at+2:])
		at += vlanSize
	}
	switch f.EtherType {
	case TypeIPv4:
		f.ipv4(at)
	case TypeIPv6:
		f.ipv6(at)
	}
	return f
}

func (f *Frame) ipv4(at int) {
	b := f.Data[at:]
	if len(b) < ipv4Size || b[0]>>4 != 4 {
		return
	}
	header := int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if total == 0 {
		total = len(b) // a packet that the adapter is to cut
	}
	if header < ipv4Size || header > len(b) || total < header {
		return
	}
	f.IP, f.Version, f.Proto = at, 4, b[9]
	f.end(at + total)
	f.Fragment = binary.BigEndian.Uint16(b[6:])&0x3fff != 0 // the offset and "more fragments"
	f.transport(at + header)
}

func (f *Frame) ipv6(at int) {
	b := f.Data[at:]
	if len(b) < ipv6Size || b[0]>>4 != 6 {
		return
	}
	f.IP, f.Version = at, 6
	// Length 0 belongs to a jumbogram (RFC 2675), which no frame can hold.
	f.end(at + ipv6Size + int(binary.BigEndian.Uint16(b[4:])))
	next, at := b[6], at+ipv6Size
	for range maxExtensions {
		size := f.extension(next, at)
		if size == 0 {
			break
		}
		if at+size > f.End {
			f.Proto = next
			return
		}
		header := f.Data[at : at+size]
		part := uint16(0)
		if next == extFragment {
			part = binary.BigEndian.Uint16(header[2:])
		}
		f.Fragment = f.Fragment || part&0xfff9 != 0
		next = header[0]
		at += size
		if part>>3 != 0 {
			break // not the first fragment: no header follows
		}
	}
	f.Proto = next
	f.transport(at)
}

// extension returns the size of the extension header at a place. 0: it is none.
func (f *Frame) extension(next uint8, at int) int {
	if next == extFragment {
		return 8
	}
	if next != extHopByHop && next != extRouting && next != extAuth && next != extDestination {
		return 0
	}
	if at+2 > f.End {
		return 8 // more than there is
	}
	if next == extAuth {
		return (int(f.Data[at+1]) + 2) * 4
	}
	return (int(f.Data[at+1]) + 1) * 8
}

func (f *Frame) end(end int) {
	if f.Short = end > len(f.Data); !f.Short {
		f.End = end
	}
}

func (f *Frame) transport(at int) {
	size := tcpSize
	switch f.Proto {
	case ProtoTCP:
	case ProtoUDP:
		size = udpSize
	default:
		return
	}
	if !f.Fragment && at+size <= f.End {
		f.L4 = at
	}
}

// toMany reports that the destination is a multicast address, or all stations.
func (f *Frame) toMany() bool { return len(f.Data) > 0 && f.Data[0]&1 != 0 }

// addresses returns the addresses of the IP header: source, then destination.
func (f *Frame) addresses() []byte {
	switch f.Version {
	case 4:
		return f.Data[f.IP+12 : f.IP+20]
	case 6:
		return f.Data[f.IP+8 : f.IP+40]
	}
	return nil
}

package mlx5

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/segment/ether"
)

// fte is what a flow rule asks of a frame, in the layout of an entry of a flow table (struct
// mlx5_ifc_fte_match_param_bits).
type fte [fteSize]byte

// fteMask says which bits of an fte count.
type fteMask struct{ fte }

// matchable has the bits that frames are matched by (struct mlx5_ifc_dr_match_spec_bits, and the
// flow label of struct mlx5_ifc_dr_match_set_misc_bits).
var matchable = func() (m fte) {
	for i := range fteSection {
		m[i] = 0xff
	}
	m[fteBits] &^= 1                                // NS of the flags of TCP
	m[fteTTL-3], m[fteTTL-2], m[fteTTL-1] = 0, 0, 0 // the header's length, and checksums
	m[fteFlow+1], m[fteFlow+2], m[fteFlow+3] = 15, 255, 255
	return m
}()

// parseMask reads the mask of a matcher. criteria has a bit for each section that it has
// (check_valid_mask of fs_core.c).
func parseMask(b []byte, criteria byte) (m fteMask, err error) {
	if criteria>>mostCriteria != 0 {
		return m, refuse("match_criteria_enable", "has unknown bits", "use the sections that match_mask has")
	}
	for i, bits := range b {
		switch {
		case bits == 0:
		case i/fteSection >= mostCriteria || criteria>>(i/fteSection)&1 == 0:
			return m, refuse("match_mask", "has bits in a section that match_criteria_enable leaves out", "enable it")
		case i >= fteSize || bits&^matchable[i] != 0:
			return m, cannot("match_mask", "asks for fields that this device cannot match", "use the outer headers of Ethernet, VLAN, IP, TCP and UDP")
		default:
			m.fte[i] = bits
		}
	}
	if v := m.fte[fteBits] & fteVersion; v != 0 && v != fteVersion {
		return m, cannot("match_mask", "asks for a part of the IP version", "use all of its bits")
	}
	return m, nil
}

// match reads the values of a rule.
func (m *fteMask) match(b []byte) (match ether.Match, err error) {
	var v fte
	copy(v[:], b)
	for i, bits := range v {
		if bits&^m.fte[i] != 0 {
			return match, refuse("match_value", "has bits outside the mask of the matcher", "clear them")
		}
	}
	if len(b) > fteSize && !dispatch.IsZero(b[fteSize:]) {
		return match, refuse("match_value", "has bits outside the mask of the matcher", "clear them")
	}
	match.Eth(v.eth(), m.eth())
	match.Loose(v.loose(), m.loose())
	if mask := m.ports(fteTCPDst, fteTCPSrc); mask != (ether.Ports{}) {
		match.Ports(ether.ProtoTCP, v.ports(fteTCPDst, fteTCPSrc), mask)
	}
	if mask := m.ports(fteUDPDst, fteUDPSrc); mask != (ether.Ports{}) {
		match.Ports(ether.ProtoUDP, v.ports(fteUDPDst, fteUDPSrc), mask)
	}
	if err := m.addIP(&match, &v); err != nil {
		return match, err
	}
	if match.Never() {
		return match, refuse("match_value", "contradicts itself", "ask for one version of IP, and for TCP or UDP")
	}
	return match, nil
}

// addIP adds what depends on the version of IP (struct mlx5_ifc_dr_match_spec_bits: src_ip,
// dst_ip).
func (m *fteMask) addIP(match *ether.Match, v *fte) error {
	asked := m.fte[fteBits]&fteVersion != 0
	addresses := !dispatch.IsZero(m.fte[fteSrcIP:fteSection]) || !dispatch.IsZero(m.fte[fteFlow:])
	if !asked && !addresses {
		return nil
	}
	switch version := v.version(m); {
	case version == 4:
		if !dispatch.IsZero(m.fte[fteSrcIP:fteSrcIP+12]) || !dispatch.IsZero(m.fte[fteDstIP:fteDstIP+12]) || !dispatch.IsZero(m.fte[fteFlow:]) {
			return cannot("match_mask", "asks an IPv4 packet for fields of IPv6", "use the last 4 bytes of an address")
		}
		match.IPv4(v.ipv4(), m.ipv4())
	case version == 6:
		match.IPv6(v.ipv6(), m.ipv6())
	case asked:
		return refuse("ip_version", "is neither 4 nor 6", "use one of them")
	default:
		return cannot("match_mask", "asks for addresses of any version of IP", "match ip_version or ethertype, too")
	}
	return nil
}

// version is the version of IP that the values are for; 0: they do not say it (ip_version and
// ethertype of struct mlx5_ifc_dr_match_spec_bits).
func (v *fte) version(m *fteMask) byte {
	if m.fte[fteBits]&fteVersion != 0 {
		return v[fteBits] & fteVersion >> fteVersionShift
	}
	if binary.BigEndian.Uint16(m.fte[fteEtherType:]) == 0xffff {
		switch binary.BigEndian.Uint16(v[fteEtherType:]) {
		case ether.TypeIPv4:
			return 4
		case ether.TypeIPv6:
			return 6
		}
	}
	return 0
}

func (v *fte) eth() ether.Eth {
	return ether.Eth{Dst: [6]byte(v[fteDst:]), Src: [6]byte(v[fteSrc:]), EtherType: [2]byte(v[fteEtherType:])}
}

func (v *fte) loose() ether.Loose {
	l := ether.Loose{VLAN: [2]byte(v[fteVLAN:]), Proto: v[fteProto], TOS: v[fteTOS], TTL: v[fteTTL], TCPFlags: v[fteTCPFlags]}
	if v[fteBits]&fteCVLAN != 0 {
		l.Tag |= ether.TagC
	}
	if v[fteBits]&fteSVLAN != 0 {
		l.Tag |= ether.TagS
	}
	if v[fteBits]&fteFragment != 0 {
		l.Fragment = 1
	}
	return l
}

func (v *fte) ports(dst, src int) ether.Ports {
	return ether.Ports{Dst: [2]byte(v[dst:]), Src: [2]byte(v[src:])}
}

func (v *fte) ipv4() ether.IPv4 {
	return ether.IPv4{Src: [4]byte(v[fteSrcIP+12:]), Dst: [4]byte(v[fteDstIP+12:])}
}

func (v *fte) ipv6() ether.IPv6 {
	return ether.IPv6{Src: [16]byte(v[fteSrcIP:]), Dst: [16]byte(v[fteDstIP:]), FlowLabel: [4]byte(v[fteFlow:])}
}

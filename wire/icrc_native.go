package wire

import "hash/crc32"

// lrhLen is the length of a local route header (IBA 7.7).
const lrhLen = 8

// ICRCAsSent returns the ICRC of a RoCEv2 packet over its IP and UDP headers as they
// are. It is for captured packets with unusual headers: lengths that do not agree,
// options, extension headers. For other packets ICRCState computes the same, faster.
//
// headers is everything from the IP header to the end of the UDP header, and pkt runs
// from BTH through pad. The result is false if headers has neither version of IP, or
// an impossible length.
func ICRCAsSent(headers, pkt []byte) (sum uint32, ok bool) {
	const longest = 256 + udpLen
	if len(pkt) < BTHLen || len(headers) > longest || len(headers) < ipv4Len+udpLen {
		return 0, false
	}
	var buf [8 + longest + BTHLen]byte
	for i := range 8 {
		buf[i] = 0xff
	}
	b := append(buf[:8], headers...)
	ip, udp := b[8:], b[len(b)-udpLen:]
	switch {
	case ip[0]>>4 == 4:
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff
	case ip[0]>>4 == 6 && len(headers) >= ipv6Len+udpLen:
		maskGRH(ip)
	default:
		return 0, false
	}
	udp[6], udp[7] = 0xff, 0xff
	return icrcBehind(b, pkt), true
}

// icrcBehind appends the masked BTH to masked headers, which have room for it,
// and returns the CRC of these and the rest.
func icrcBehind(headers, pkt []byte) uint32 {
	head := append(headers, pkt[:BTHLen]...)
	head[len(head)-BTHLen+4] = 0xff
	return crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, pkt[BTHLen:])
}

// maskGRH masks the fields of an IPv6 header or a GRH that may change on the way.
func maskGRH(b []byte) {
	b[0] |= 0x0f // traffic class and flow label
	b[1], b[2], b[3] = 0xff, 0xff, 0xff
	b[7] = 0xff // hop limit
}

// ICRCNative returns the ICRC of a packet that travels without IP: native InfiniBand,
// or RoCEv1 (IBA 7.8.1). network is what precedes the BTH: an LRH, an LRH and a GRH,
// or a GRH alone. The last is RoCEv1, for which eight bytes of ones stand for the LRH.
// The result is false if network has another length. pkt runs from BTH through pad.
//
// It is for captures: gorxe's devices send neither.
func ICRCNative(network, pkt []byte) (sum uint32, ok bool) {
	if len(pkt) < BTHLen {
		return 0, false
	}
	var b [lrhLen + GRHLen + BTHLen]byte
	lrh, grh := b[:lrhLen], b[lrhLen:lrhLen+GRHLen]
	var head []byte
	switch len(network) {
	case lrhLen:
		copy(lrh, network)
		lrh[0] |= 0xf0 // virtual lane
		head = b[:lrhLen]
	case GRHLen, lrhLen + GRHLen:
		// A packet that is routed loses its LRH on the way.
		for i := range lrh {
			lrh[i] = 0xff
		}
		copy(grh, network[len(network)-GRHLen:])
		maskGRH(grh)
		head = b[:lrhLen+GRHLen]
	default:
		return 0, false
	}
	return icrcBehind(head, pkt), true
}

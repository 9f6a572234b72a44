package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// pick returns one of a list.
func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// one reports true once in n times.
func one(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// What frames and rules are made of. There are few, so that they meet.
var (
	ipv4s = [][16]byte{{10, 0, 0, 1}, {10, 0, 0, 2}, {192, 0, 2, 7}}
	ipv6s = [][16]byte{{0xfd, 15: 1}, {0xfd, 15: 2}, {0x20, 1, 0xd, 0xb8, 15: 7}}
	ports = []uint16{53, 80, 4791}
	tcis  = []uint16{5, 0x2005, 9}
	tos   = []byte{0, 0x20, 0xff}
	ttls  = []byte{1, 64}
)

func deviceMAC(i int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(i)} }

// drawMAC returns the address of a device, one that was made up, or one of a group.
func drawMAC(rng *rand.Rand) [6]byte {
	switch rng.IntN(8) {
	case 0:
		return [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	case 1:
		return [6]byte{1, 0, 0x5e, 0, 0, byte(rng.IntN(2))}
	case 2, 3:
		return [6]byte{2, 9, 0, 0, 0, byte(rng.IntN(3))}
	default:
		return deviceMAC(rng.IntN(3))
	}
}

const (
	typeIPv4, typeIPv6, typeTag, typeSTag, typeOther = 0x0800, 0x86dd, 0x8100, 0x88a8, 0x88b5

	tcp, udp = 6, 17
)

type tag struct{ tpid, tci uint16 }

// frame is what a frame is made from.
type frame struct {
	dst, src  [6]byte
	tags      []tag
	version   int // 4, 6, or 0: not IP
	proto     byte
	tos, ttl  byte
	flow      uint32
	flags     byte // of IPv4: 2: do not fragment; 1: more fragments
	offset    int  // of a fragment, in units of 8 bytes
	id        uint16
	srcIP     [16]byte
	dstIP     [16]byte
	options   int // IPv4: words; IPv6: extension headers of 8 bytes
	fragment6 bool
	sport     uint16
	dport     uint16
	tcpFlags  byte
	seq       uint32
	payload   []byte
	ipSum     uint16 // before it is computed
	l4Sum     uint16

	padding int // behind the IP packet
	cut     int // bytes that are missing at the end
}

func drawFrame(rng *rand.Rand) *frame {
	f := &frame{dst: drawMAC(rng), src: drawMAC(rng), version: pick(rng, 0, 4, 4, 4, 6, 6), proto: pick[byte](rng, tcp, tcp, udp, udp, 1),
		tos: pick(rng, tos...), ttl: pick(rng, ttls...), flow: pick[uint32](rng, 0, 0xabcde), flags: pick[byte](rng, 0, 0, 0, 2, 1),
		id: uint16(rng.Uint32()), sport: pick(rng, ports...), dport: pick(rng, ports...), tcpFlags: byte(rng.Uint32()), seq: rng.Uint32(),
		payload: make([]byte, rng.IntN(pick(rng, 8, 60, 300))), ipSum: uint16(rng.Uint32()), l4Sum: pick(rng, 0, uint16(rng.Uint32()))}
	for range pick(rng, 0, 0, 0, 1, 1, 2, 3) {
		f.tags = append(f.tags, tag{pick[uint16](rng, typeTag, typeTag, typeSTag), pick(rng, tcis...)})
	}
	for i := range f.payload {
		f.payload[i] = byte(rng.Uint32())
	}
	f.srcIP, f.dstIP = pick(rng, ipv4s...), pick(rng, ipv4s...)
	if f.version == 6 {
		f.srcIP, f.dstIP = pick(rng, ipv6s...), pick(rng, ipv6s...)
		f.fragment6 = one(rng, 8)
	}
	if one(rng, 4) {
		f.options = rng.IntN(3)
	}
	if one(rng, 12) {
		f.offset = 1 + rng.IntN(3)
	}
	if one(rng, 8) {
		f.padding = rng.IntN(20)
	}
	if one(rng, 8) {
		f.cut = min(rng.IntN(60), len(f.build().data)-14)
	}
	return f
}

// view is what the model knows of a frame that was built.
type view struct {
	data    []byte
	fields  map[string][]byte // that rules ask for
	version int               // 0: no whole IP header
	ip, l4  int               // offsets; 0: none that is whole
	proto   byte
	end     int  // of the IP packet
	short   bool // the IP packet is longer than the frame
	tagged  bool
	tci     uint16
	toMany  bool
	vlan    uint16 // by which a switch learns
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// build makes the frame.
func (f *frame) build() *view {
	b := slices.Concat(f.dst[:], f.src[:])
	etherType := uint16(typeOther)
	switch f.version {
	case 4:
		etherType = typeIPv4
	case 6:
		etherType = typeIPv6
	}
	for _, t := range f.tags {
		b = slices.Concat(b, be16(t.tpid), be16(t.tci))
	}
	b = append(b, be16(etherType)...)
	ip, header := len(b), f.ipHeader()
	l4 := ip + len(header)
	b = slices.Concat(b, header, f.l4Header(), f.payload)
	end := len(b)
	b = append(b, make([]byte, f.padding)...)
	switch f.version {
	case 4:
		binary.BigEndian.PutUint16(b[ip+2:], uint16(end-ip))
	case 6:
		binary.BigEndian.PutUint16(b[ip+4:], uint16(end-ip-40))
	}
	b = b[:len(b)-f.cut]
	return f.view(b, etherType, ip, l4, end)
}

func (f *frame) ipHeader() []byte {
	switch f.version {
	case 4:
		b := []byte{0x45 + byte(f.options), f.tos, 0, 0}
		b = append(b, be16(f.id)...)
		b = append(b, be16(uint16(f.flags)<<13|uint16(f.offset))...)
		b = append(b, f.ttl, f.proto)
		b = slices.Concat(b, be16(f.ipSum), f.srcIP[:4], f.dstIP[:4])
		return append(b, make([]byte, 4*f.options)...)
	case 6:
		b := binary.BigEndian.AppendUint32(nil, 6<<28|uint32(f.tos)<<20|f.flow)
		next := []byte{}
		for range f.options {
			next = append(next, 60) // destination options
		}
		if f.fragment6 {
			next = append(next, 44)
		}
		next = append(next, f.proto)
		b = slices.Concat(b, []byte{0, 0, next[0], f.ttl}, f.srcIP[:], f.dstIP[:])
		for i, kind := range next[:len(next)-1] {
			ext := make([]byte, 8)
			if ext[0] = next[i+1]; kind == 44 {
				copy(ext[2:], be16(uint16(f.offset)<<3|uint16(f.flags&1)))
			}
			b = append(b, ext...)
		}
		return b
	}
	return nil
}

func (f *frame) l4Header() []byte {
	if f.version == 0 {
		return nil
	}
	b := slices.Concat(be16(f.sport), be16(f.dport))
	switch f.proto {
	case tcp:
		b = binary.BigEndian.AppendUint32(b, f.seq)
		b = append(b, 0, 0, 0, 0, 0x50, f.tcpFlags, 0xff, 0xff)
		return append(append(b, be16(f.l4Sum)...), 0, 0)
	case udp:
		return slices.Concat(b, be16(uint16(8+len(f.payload))), be16(f.l4Sum))
	}
	return nil
}

// isFragment reports that the packet is a part only.
func (f *frame) isFragment() bool {
	return (f.version == 4 || f.fragment6) && (f.offset > 0 || f.flags&1 != 0)
}

// view says which of the headers are whole in b.
func (f *frame) view(b []byte, etherType uint16, ip, l4, end int) *view {
	v := &view{data: b, end: min(end, len(b)), toMany: f.dst[0]&1 != 0, fields: make(map[string][]byte)}
	set := func(name string, value ...byte) { v.fields[name] = value }
	set("dst", f.dst[:]...)
	set("src", f.src[:]...)
	for i, t := range f.tags {
		if len(b) < 14+4*(i+1) {
			set("type", be16(t.tpid)...)
			return v
		}
		if i == 0 {
			set("vlan", be16(t.tci)...)
			set("tagged", 2)
		}
		if i == 0 && t.tpid == typeTag {
			v.tagged, v.tci = true, t.tci
			v.vlan = t.tci & 0xfff
			set("tagged", 1)
		}
	}
	set("type", be16(etherType)...)
	least := map[int]int{4: 20 + 4*f.options, 6: 40}[f.version]
	if f.version == 0 || len(b) < ip+least {
		return v
	}
	v.version, v.ip, v.short = f.version, ip, end > len(b)
	set("version", byte(f.version))
	set("tos", f.tos)
	set("ttl", f.ttl)
	v.proto = f.proto
	if f.version == 4 {
		set("flags", f.flags&2|f.flags&1<<2)
		set("srcIP", f.srcIP[:4]...)
		set("dstIP", f.dstIP[:4]...)
	} else {
		set("flow", 0, byte(f.flow>>16), byte(f.flow>>8), byte(f.flow))
		set("srcIP", f.srcIP[:]...)
		set("dstIP", f.dstIP[:]...)
		for at := ip + 40; at < l4; at += 8 {
			if at+8 > v.end {
				v.proto = 60 // the extension header that is not whole
				if f.fragment6 && at+8 == l4 {
					v.proto = 44
				}
				set("proto", v.proto)
				return v
			}
		}
	}
	set("proto", v.proto)
	if f.isFragment() {
		set("fragment", 1)
	}
	size := map[byte]int{tcp: 20, udp: 8}[f.proto]
	if size > 0 && !f.isFragment() && l4+size <= v.end {
		v.l4 = l4
		set("l4", 1)
		set("sport", be16(f.sport)...)
		set("dport", be16(f.dport)...)
		if f.proto == tcp {
			set("tcpFlags", b[l4+13])
		}
	}
	return v
}

// onesSum is the sum of RFC 1071, of all parts, whose length is even, except for the last.
func onesSum(parts ...[]byte) uint16 {
	sum := uint32(0)
	for _, b := range parts {
		for i := 0; i < len(b); i++ {
			if i%2 == 0 {
				sum += uint32(b[i]) << 8
			} else {
				sum += uint32(b[i])
			}
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func (v *view) ipHeader() []byte { return v.data[v.ip:][:int(v.data[v.ip]&15)*4] }

// covered is what the checksum of TCP or UDP is over, with the pseudo header in front; nil: the
// frame does not have all of it.
func (v *view) covered() (pseudo, rest []byte) {
	if v.l4 == 0 || v.short {
		return nil, nil
	}
	rest = v.data[v.l4:v.end]
	n := len(rest)
	return slices.Concat(v.fields["srcIP"], v.fields["dstIP"], []byte{0, v.proto, byte(n >> 8), byte(n)}), rest
}

// sumAt is where the checksum is in the header of TCP or UDP.
func (v *view) sumAt() int { return map[byte]int{tcp: 16, udp: 6}[v.proto] }

// setSums is what a device does before it sends.
func (v *view) setSums(ip, l4 bool) {
	if ip && v.version == 4 {
		h := v.ipHeader()
		copy(h[10:], []byte{0, 0})
		copy(h[10:], be16(^onesSum(h)))
	}
	if pseudo, b := v.covered(); l4 && b != nil {
		at := v.sumAt()
		copy(b[at:], []byte{0, 0})
		sum := ^onesSum(pseudo, b)
		if sum == 0 && v.proto == udp {
			sum = 0xffff
		}
		copy(b[at:], be16(sum))
	}
}

// sums reports which checksums are right.
func (v *view) sums() (ip, l4 bool) {
	if v.version == 0 {
		return false, false
	}
	ip = v.version == 6 || onesSum(v.ipHeader()) == 0xffff
	pseudo, b := v.covered()
	if b == nil {
		return ip, false
	}
	if at := v.sumAt(); v.proto == udp && b[at] == 0 && b[at+1] == 0 {
		return ip, v.version == 4
	}
	return ip, onesSum(pseudo, b) == 0xffff
}

// segments are the frames into which a TCP frame is cut; nil: it cannot be.
func (f *frame) segments(headers, mss int) []*view {
	whole := f.build()
	if whole.l4 == 0 || whole.proto != tcp || headers != whole.l4+20 {
		return nil
	}
	var list []*view
	for at := 0; at == 0 || at < len(f.payload); at += mss {
		s := *f
		s.payload = f.payload[at:min(at+mss, len(f.payload))]
		s.seq += uint32(at)
		s.id += uint16(len(list))
		if at+mss < len(f.payload) {
			s.tcpFlags &^= 1 | 8 // FIN and PSH are of the last one
		}
		if at > 0 {
			s.tcpFlags &^= 0x80 // CWR is of the first one
		}
		v := s.build()
		v.setSums(true, true)
		list = append(list, v)
	}
	return list
}

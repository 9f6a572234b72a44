package capture

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// The pcapng format (draft-ietf-opsawg-pcapng). A file is a list of sections, each with
// its own byte order and interfaces. A section is a list of blocks, each with its
// length at both ends.

// Block types.
const (
	blockInterface  = 1
	blockPacket     = 2 // obsolete
	blockSimple     = 3
	blockStatistics = 5
	blockEnhanced   = 6
	blockSection    = 0x0a0d0d0a
)

const (
	blockOverhead = 12
	optionEnd     = 0
	optionComment = 1
	// Options of an interface.
	optionTSResol  = 9
	optionTSOffset = 14
	// Option of an interface's statistics: lost for lack of resources.
	optionIfDrop = 5

	// maxInterfaces bounds what a damaged file can ask for.
	maxInterfaces = 1 << 16
)

// iface is an Interface Description Block.
type iface struct {
	link   LinkType
	snap   uint32
	offset int64 // seconds
	// A timestamp is ticks of 1/rate seconds; rate is a power of 10 or of 2.
	rate  uint64
	drops uint64
}

// section reads a Section Header Block, which shows the byte order of the section.
func (r *Reader) section() error {
	head, err := r.peek(12)
	if err != nil {
		return r.bad("no whole section header")
	}
	switch binary.LittleEndian.Uint32(head[8:]) {
	case 0x1a2b3c4d:
		r.little = true
	case 0x4d3c2b1a:
		r.little = false
	default:
		return r.bad("byte order % x", head[8:12])
	}
	r.interfaces = r.interfaces[:0]
	total := r.u32(head[4:])
	if total < 28 || total%4 != 0 || total > 1<<30 {
		return r.bad("a section header of %d bytes", total)
	}
	return r.discard(int(total))
}

// nextNG reads blocks up to the next packet.
func (r *Reader) nextNG(p *Packet) error {
	for {
		kind, body, err := r.block()
		if err != nil {
			return err
		}
		switch kind {
		case blockInterface:
			err = r.interfaceBlock(body)
		case blockStatistics:
			r.statisticsBlock(body)
		case blockPacket, blockSimple, blockEnhanced:
			return r.packetBlock(kind, body, p)
		}
		if err != nil {
			return err
		}
	}
}

// block reads a block and returns its body, which is valid until the next call. It returns none of
// a section header, which it has read, and of a block that says nothing of packets.
func (r *Reader) block() (kind uint32, body []byte, err error) {
	head, err := r.peek(8)
	if err != nil {
		return 0, nil, err
	}
	kind, total := r.u32(head), r.u32(head[4:])
	if kind == blockSection {
		return kind, nil, r.section()
	}
	if total < blockOverhead || total%4 != 0 || total > 1<<31-4 {
		return kind, nil, r.bad("a block of %d bytes", total)
	}
	switch kind {
	case blockInterface, blockPacket, blockSimple, blockStatistics, blockEnhanced:
	default:
		return kind, nil, r.discard(int(total))
	}
	if total > maxFrame {
		return kind, nil, r.bad("a block of %d bytes", total)
	}
	whole, err := r.peek(int(total))
	if err != nil {
		return kind, nil, err
	}
	r.skip(int(total))
	return kind, whole[8 : len(whole)-4], nil
}

func (r *Reader) interfaceBlock(b []byte) error {
	if len(b) < 8 {
		return r.bad("an interface of %d bytes", len(b))
	}
	if len(r.interfaces) == maxInterfaces {
		return r.bad("more than %d interfaces", maxInterfaces)
	}
	i := iface{link: LinkType(r.u16(b)), snap: r.u32(b[4:]), rate: 1e6}
	r.options(b[8:], func(code uint16, v []byte) {
		switch {
		case code == optionTSResol && len(v) >= 1:
			i.rate = tickRate(v[0])
		case code == optionTSOffset && len(v) >= 8:
			lo, hi := r.u32(v), r.u32(v[4:])
			if !r.little {
				lo, hi = hi, lo
			}
			i.offset = int64(uint64(hi)<<32 | uint64(lo))
		}
	})
	r.interfaces = append(r.interfaces, i)
	return nil
}

// tickRate returns the ticks per second of an if_tsresol option: a negative power of 10
// or, with the top bit, of 2. It takes a resolution that no clock has for
// microseconds.
func tickRate(resol byte) uint64 {
	n := resol & 0x7f
	if resol&0x80 != 0 {
		if n > 63 {
			return 1e6
		}
		return 1 << n
	}
	if n > 19 {
		return 1e6
	}
	rate := uint64(1)
	for range n {
		rate *= 10
	}
	return rate
}

func (i *iface) time(ticks uint64) time.Time {
	switch i.rate {
	case 1e6:
		return time.Unix(i.offset+int64(ticks/1e6), int64(ticks%1e6)*1000)
	case 1e9:
		return time.Unix(i.offset+int64(ticks/1e9), int64(ticks%1e9))
	}
	hi, lo := bits.Mul64(ticks%i.rate, 1e9)
	nanos, _ := bits.Div64(hi, lo, i.rate)
	return time.Unix(i.offset+int64(ticks/i.rate), int64(nanos))
}

// options calls f for each option of a block.
func (r *Reader) options(b []byte, f func(code uint16, value []byte)) {
	for len(b) >= 4 {
		code, n := r.u16(b), int(r.u16(b[2:]))
		padded := (n + 3) &^ 3
		if code == optionEnd || 4+padded > len(b) {
			return
		}
		f(code, b[4:4+n])
		b = b[4+padded:]
	}
}

// statisticsBlock reads the count of drops since the beginning of the capture.
func (r *Reader) statisticsBlock(b []byte) {
	if len(b) < 12 || r.u32(b) >= uint32(len(r.interfaces)) {
		return
	}
	i := &r.interfaces[r.u32(b)]
	r.options(b[12:], func(code uint16, v []byte) {
		if code != optionIfDrop || len(v) < 8 {
			return
		}
		lo, hi := r.u32(v), r.u32(v[4:])
		if !r.little {
			lo, hi = hi, lo
		}
		if n := uint64(hi)<<32 | uint64(lo); n > i.drops {
			r.drops += n - i.drops
			i.drops = n
		}
	})
}

func (r *Reader) packetBlock(kind uint32, b []byte, p *Packet) error {
	head := 20
	if kind == blockSimple {
		head = 4
	}
	if len(b) < head {
		return r.bad("a packet block of %d bytes", len(b))
	}
	number := uint32(0)
	switch kind {
	case blockEnhanced:
		number = r.u32(b)
	case blockPacket:
		number = uint32(r.u16(b))
		if drops := r.u16(b[2:]); drops != 0xffff {
			r.drops += uint64(drops)
		}
	}
	if number >= uint32(len(r.interfaces)) {
		return r.bad("a packet of interface %d of %d", number, len(r.interfaces))
	}
	i := &r.interfaces[number]
	*p = Packet{Link: i.link}
	var captured, length uint32
	if kind == blockSimple {
		length = r.u32(b)
		captured = min(length, uint32(len(b)-head))
		if i.snap > 0 {
			captured = min(captured, i.snap)
		}
	} else {
		ticks := uint64(r.u32(b[4:]))<<32 | uint64(r.u32(b[8:]))
		captured, length = r.u32(b[12:]), r.u32(b[16:])
		p.Time = i.time(ticks)
	}
	if captured > uint32(len(b)-head) {
		return r.bad("a packet of %d bytes in a block of %d", captured, len(b))
	}
	r.number++
	p.Number = r.number
	p.Frame = b[head : head+int(captured)]
	p.Length = frameLength(length, captured)
	if kind == blockEnhanced {
		if rest := b[head+int(captured+3)&^3:]; len(rest) > 0 {
			r.options(rest, func(code uint16, v []byte) {
				if code == optionComment && p.Comment == nil {
					p.Comment = v
				}
			})
		}
	}
	p.Decode()
	return nil
}

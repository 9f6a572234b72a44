package mlx5

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// fteOf has the fields of a frame in the layout of a flow table's entry.
func fteOf(f *ether.Frame) (v fte) {
	b := f.Data
	if len(b) < ether.HeaderSize {
		return v
	}
	copy(v[8:], b[:6])
	copy(v[0:], b[6:12])
	binary.BigEndian.PutUint16(v[6:], f.EtherType)
	if f.VLANs > 0 {
		binary.BigEndian.PutUint16(v[14:], f.VLAN)
		v[18] = 0x40
		if f.Tagged {
			v[18] = 0x80
		}
	}
	if f.Fragment {
		v[18] |= 0x20
	}
	v[16], v[18] = f.Proto, v[18]|f.Version<<1
	switch ip := b[f.IP:]; f.Version {
	case 4:
		v[17], v[27] = ip[1], ip[8]
		copy(v[44:], ip[12:16])
		copy(v[60:], ip[16:20])
	case 6:
		word := binary.BigEndian.Uint32(ip)
		v[17], v[27] = byte(word>>20), ip[7]
		binary.BigEndian.PutUint32(v[64+28:], word&0xfffff)
		copy(v[32:], ip[8:40])
	}
	if f.L4 > 0 {
		at := 20
		if f.Proto == ether.ProtoUDP {
			at = 28
		} else {
			v[19] = b[f.L4+13]
		}
		copy(v[at:], b[f.L4:f.L4+4])
	}
	return v
}

// asks reports that a mask has bits there.
func asks(mask fte, from, to int) bool {
	for _, b := range mask[from:to] {
		if b != 0 {
			return true
		}
	}
	return false
}

// takes is what a rule says of a frame by the layout alone: the masked fields are equal.
func takes(mask, value fte, f *ether.Frame) bool {
	has := fteOf(f)
	for i := range mask {
		if (has[i]^value[i])&mask[i] != 0 {
			return false
		}
	}
	tcp, udp, ip := asks(mask, 19, 24), asks(mask, 28, 32), asks(mask, 32, 64) || asks(mask, 92, 96)
	return (!ip || f.Version > 0) && (!tcp || f.Proto == ether.ProtoTCP && f.L4 > 0) && (!udp || f.Proto == ether.ProtoUDP && f.L4 > 0)
}

// FuzzFlowMatch: a matcher has a mask that it can match, or is refused. A rule takes the frames
// whose fields are those of its value, by a second reading of the layout.
func FuzzFlowMatch(f *testing.F) {
	v4 := []byte("\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x08\x00\x45\x00\x00\x2e\x00\x00\x00\x00\x40\x06\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02" +
		"\x00\x01\x13\x88\x00\x00\x00\x00\x00\x00\x00\x00\x50\x12\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	tagged := ether.AppendVLAN(nil, v4, 5)
	part := append([]byte(nil), v4...)
	part[20] = 0x20
	v6 := append([]byte("\x02\x00\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x0b\x86\xdd\x6a\xba\xbc\xde\x00\x08\x11\x40"), make([]byte, 40)...)
	v6[37], v6[55] = 1, 2
	for _, frame := range [][]byte{v4, tagged, part, v6, v4[:20], {}} {
		parsed := ether.Parse(frame)
		has := fteOf(&parsed)
		for i, b := range has {
			var mask fte
			mask[i] = b | 1
			f.Add(mask[:], has[:], byte(3), frame)
			mask[18] |= 0x1e
			f.Add(mask[:], has[:], byte(3), frame)
		}
		f.Add(matchable[:], has[:], byte(3), frame)
	}
	f.Add(make([]byte, mostFTE), make([]byte, mostFTE), byte(0x7f), v4)
	f.Add([]byte{1}, []byte{1}, byte(0), v4)
	f.Add([]byte{1}, []byte{1}, byte(0x80), v4)
	f.Fuzz(func(t *testing.T, mask, value []byte, criteria byte, frame []byte) {
		if len(mask) > mostFTE || len(value) > mostFTE {
			return // the schema refuses them
		}
		m, err := parseMask(mask, criteria)
		if err != nil {
			if !errors.Is(err, rxe.ErrInvalid) && !errors.Is(err, rxe.ErrNotSupported) {
				t.Fatal(err)
			}
			return
		}
		for i, b := range mask {
			if b != 0 && m.fte[i] != b {
				t.Fatalf("byte %d of the mask is %#x, not %#x", i, m.fte[i], b)
			}
		}
		value = append([]byte(nil), value...)
		for i := range value { // most rules have no bits outside the mask
			if i < fteSize {
				value[i] &= m.fte[i]
			}
		}
		match, err := m.match(value)
		if err != nil {
			return
		}
		var table ether.Table
		if err := table.Add(&ether.Rule{Match: match, To: 1}); err != nil {
			t.Fatal(err)
		}
		parsed := ether.Parse(frame)
		var v fte
		copy(v[:], value)
		if _, taken := table.Decide(&parsed, nil); taken != takes(m.fte, v, &parsed) {
			t.Fatalf("mask % x, value % x, frame % x: taken %t", m.fte, v, frame, taken)
		}
	})
}

// TestFlowMatch: each field is matched, and not its neighbours.
func TestFlowMatch(t *testing.T) {
	frame := []byte("\x02\x03\x04\x05\x06\x07\x0a\x0b\x0c\x0d\x0e\x0f\x81\x00\x71\x23\x08\x00\x45\x2d\x00\x2e\x00\x00\x00\x00\x21\x06\x00\x00\x0a\x01\x02\x03\x0a\x04\x05\x06" +
		"\x01\x02\x03\x04\x00\x00\x00\x00\x00\x00\x00\x00\x50\x12\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	f := ether.Parse(frame)
	for _, c := range []struct {
		what  string
		at    int
		value string
	}{
		{"source", 0, "\x0a\x0b\x0c\x0d\x0e\x0f"}, {"type", 6, "\x08\x00"}, {"destination", 8, "\x02\x03\x04\x05\x06\x07"},
		{"VLAN", 14, "\x71\x23"}, {"protocol", 16, "\x06"}, {"TOS", 17, "\x2d"}, {"bits", 18, "\x88"}, {"flags of TCP", 19, "\x12"},
		{"source port", 20, "\x01\x02"}, {"destination port", 22, "\x03\x04"}, {"TTL", 27, "\x21"},
		{"IPv4 source", 44, "\x0a\x01\x02\x03"}, {"IPv4 destination", 60, "\x0a\x04\x05\x06"},
	} {
		for bit := range 8*len(c.value) + 1 {
			var mask, value fte
			mask[18], value[18] = 0x1e, 4<<1
			for i := range c.value {
				mask[c.at+i], value[c.at+i] = 0xff&matchable[c.at+i], c.value[i]
			}
			if bit > 0 {
				value[c.at+(bit-1)/8] ^= 0x80 >> ((bit - 1) % 8)
			}
			m, err := parseMask(mask[:], 1)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			match, err := m.match(value[:])
			if err != nil {
				continue // another version of IP, or a bit that is not matched
			}
			var table ether.Table
			if err := table.Add(&ether.Rule{Match: match, To: 1}); err != nil {
				t.Fatal(err)
			}
			if _, taken := table.Decide(&f, nil); taken != (bit == 0) {
				t.Errorf("%s, with bit %d changed: taken %t", c.what, bit, taken)
			}
		}
	}
}

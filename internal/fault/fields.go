package fault

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire"
)

// field is a header field: bits of a big-endian word of up to eight bytes. The header's offset
// is 0 for the BTH, and negative for a header that an opcode does not have.
type field struct {
	name   string
	header func(*wire.OpInfo) int
	at     int // of the word, in the header
	bytes  int
	shift  uint
	bits   uint
}

// fieldICRC is the ICRC. It is not a header field.
const fieldICRC = "icrc"

func inBTH(*wire.OpInfo) int { return 0 }

// in returns the offset of an extension header; 0 in the table of opcodes means that there is
// none.
func in(offset func(*wire.OpInfo) uint8) func(*wire.OpInfo) int {
	return func(i *wire.OpInfo) int {
		if off := int(offset(i)); off > 0 {
			return off
		}
		return -1
	}
}

var (
	inRETH = in(func(i *wire.OpInfo) uint8 { return i.RETH })
	inAETH = in(func(i *wire.OpInfo) uint8 { return i.AETH })
	inDETH = in(func(i *wire.OpInfo) uint8 { return i.DETH })
	inImm  = in(func(i *wire.OpInfo) uint8 { return i.Imm })
	inIETH = in(func(i *wire.OpInfo) uint8 { return i.IETH })
)

// fields are the header fields that a rule may change (IBA 9.2, 9.3). The source queue pair of
// a datagram is not one of them: a program must not pretend to be another.
var fields = []field{
	{"opcode", inBTH, 0, 1, 0, 8},
	{"se", inBTH, 1, 1, 7, 1},
	{"migreq", inBTH, 1, 1, 6, 1},
	{"pad", inBTH, 1, 1, 4, 2},
	{"tver", inBTH, 1, 1, 0, 4},
	{"pkey", inBTH, 2, 2, 0, 16},
	{"dest_qp", inBTH, 4, 4, 0, 24},
	{"ack_req", inBTH, 8, 1, 7, 1},
	{"psn", inBTH, 8, 4, 0, 24},
	{"va", inRETH, 0, 8, 0, 64},
	{"rkey", inRETH, 8, 4, 0, 32},
	{"dma_len", inRETH, 12, 4, 0, 32},
	{"syndrome", inAETH, 0, 1, 0, 8},
	{"msn", inAETH, 0, 4, 0, 24},
	{"qkey", inDETH, 0, 4, 0, 32},
	{"imm", inImm, 0, 4, 0, 32},
	{"ieth_rkey", inIETH, 0, 4, 0, 32},
}

func findField(name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// max returns the largest value of the field.
func (f *field) max() uint64 { return ^uint64(0) >> (64 - f.bits) }

// in reports whether packets with this opcode have the field.
func (f *field) in(op wire.Opcode) bool { return f.header(op.Info()) >= 0 }

// set changes the field of a packet that has it.
func (f *field) set(pkt []byte, value *uint64) {
	var word [8]byte
	at := f.header(wire.Opcode(pkt[0]).Info()) + f.at
	b := pkt[at : at+f.bytes]
	copy(word[8-f.bytes:], b)
	w := binary.BigEndian.Uint64(word[:])
	if value == nil {
		w ^= 1 << f.shift
	} else {
		w = w&^(f.max()<<f.shift) | *value<<f.shift
	}
	binary.BigEndian.PutUint64(word[:], w)
	copy(b, word[8-f.bytes:])
}

// ChangeField sets the field that a Corrupt rule names, in a packet that the rule has hit: to
// the rule's value, or with its lowest bit inverted. It reports false if the rule names none.
func (e *Effect) ChangeField(pkt []byte) bool {
	f := findField(e.Field)
	if f == nil {
		return false
	}
	f.set(pkt, e.Value)
	return true
}

// DamagesICRC reports whether the rule changes only the ICRC.
func (e *Effect) DamagesICRC() bool { return e.Field == fieldICRC }

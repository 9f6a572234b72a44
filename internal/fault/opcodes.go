package fault

import (
	"fmt"
	"path"
	"strings"

	"github.com/gorxe/gorxe/wire"
)

// opcodes is a set of opcodes.
type opcodes [4]uint64

func (o *opcodes) has(op wire.Opcode) bool { return o[op>>6]&(1<<(op&63)) != 0 }
func (o *opcodes) add(op wire.Opcode)      { o[op>>6] |= 1 << (op & 63) }
func (o opcodes) empty() bool              { return o == opcodes{} }

// some reports whether ok is true for one of the opcodes.
func (o *opcodes) some(ok func(wire.Opcode) bool) bool {
	for i := range 256 {
		if op := wire.Opcode(i); o.has(op) && ok(op) {
			return true
		}
	}
	return false
}

// known are the opcodes that a device sends, and opcodeNames their names. opcodeNumbers has the
// opcode of each name.
var known, opcodeNames, opcodeNumbers = func() (set opcodes, names []string, numbers []wire.Opcode) {
	for i := range 256 {
		info := wire.Opcode(i).Info()
		switch info.Service {
		case wire.ServiceRC, wire.ServiceUC, wire.ServiceUD:
			if info.Valid() {
				set.add(wire.Opcode(i))
				names = append(names, info.Name)
				numbers = append(numbers, wire.Opcode(i))
			}
		default:
		}
	}
	return set, names, numbers
}()

// parseOpcodes returns the opcodes that a list names.
func parseOpcodes(list string) (set opcodes, err error) {
	if err := tooMany(list, opcodeNames); err != nil {
		return set, err
	}
	for name := range strings.SplitSeq(list, "|") {
		pattern, found := strings.ToUpper(name), false
		if strings.Trim(pattern, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*") != "" {
			return set, fmt.Errorf("the name of an opcode has letters, digits and _; * stands for any of them")
		}
		for i, known := range opcodeNames {
			if ok, _ := path.Match(pattern, known); ok {
				set.add(opcodeNumbers[i])
				found = true
			}
		}
		if !found {
			if near := Nearest(name, opcodeNames); near != "" {
				return set, fmt.Errorf("there is no opcode %s: is it %s?", pattern, near)
			}
			return set, fmt.Errorf("there is no opcode %s: names are those of the specification, as RC_SEND_ONLY or RC_RDMA_WRITE_*", pattern)
		}
	}
	return set, nil
}

// compile returns the opcodes of a rule's candidates. The rule's Opcode is valid.
func (r *Rule) compile() (set opcodes) {
	if r.asked() != WherePacket {
		return set
	}
	named := known
	if r.Opcode != "" {
		named, _ = parseOpcodes(r.Opcode)
	}
	for i := range 256 {
		if op := wire.Opcode(i); named.has(op) && (r.Type == "" || op.Service().String() == r.Type) {
			set.add(op)
		}
	}
	return set
}

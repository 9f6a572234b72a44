package backtrace

import (
	"encoding/binary"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
)

// The registers of DWARF on amd64 that an unwinder needs (System V ABI, figure 3.36).
const (
	regRBP = 6
	regRSP = 7
	regRIP = 16
	regs   = 17
)

// word is the size of a register.
const word = 8

// machine has the registers of one function.
type machine struct {
	known [regs]bool
	value [regs]uint64
	stack *sanitize.Stack
}

// load reads a word of the stack.
func (m *machine) load(address uint64) (uint64, bool) {
	off := address - m.stack.SP
	if off > uint64(len(m.stack.Bytes)) || uint64(len(m.stack.Bytes))-off < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(m.stack.Bytes[off:]), true
}

// up goes to the caller of the function at an address, and reports whether it is known.
func (n *namer) up(m *machine, im *image, address uint64) bool {
	entry, err := im.frames.FDEForPC(address)
	if err != nil || len(entry.Instructions)+len(entry.CIE.InitialInstructions) > mostRules {
		return false
	}
	ctx, err := entry.EstablishFrame(address)
	if err != nil || ctx.CFA.Rule != frame.RuleCFA || ctx.CFA.Reg >= regs {
		return false
	}
	if ctx.CFA.Reg == regRBP && ctx.CFA.Offset == 2*word && !m.known[regRBP] {
		m.value[regRBP], m.known[regRBP] = n.framePointer(m, im, entry.Begin())
	}
	if !m.known[ctx.CFA.Reg] {
		return false
	}
	cfa := m.value[ctx.CFA.Reg] + uint64(ctx.CFA.Offset)
	next := *m
	for r := range uint64(regs) {
		rule, ok := ctx.Regs[r]
		switch {
		case !ok || rule.Rule == frame.RuleSameVal:
		case rule.Rule == frame.RuleOffset:
			next.value[r], next.known[r] = m.load(cfa + uint64(rule.Offset))
		default:
			next.known[r] = false
		}
	}
	if rule, ok := ctx.Regs[regRIP]; !ok || rule.Rule != frame.RuleOffset {
		return false // the first function of a thread
	}
	next.value[regRSP], next.known[regRSP] = cfa, true
	*m = next
	return m.known[regRIP]
}

// framePointer finds the frame pointer of a function that has one, and whose callees did not save
// it. It points to that of the caller. Behind that is an address that follows a call of the
// function. entry is where the function begins, in im.
func (n *namer) framePointer(m *machine, im *image, entry uint64) (uint64, bool) {
	for a := (m.value[regRSP] + 15) &^ 15; ; a += 16 { // the ABI aligns it
		saved, ok := m.load(a)
		back, ok2 := m.load(a + word)
		if !ok || !ok2 {
			return 0, false
		}
		if saved > a || saved <= 1 { // main's is not one
			if n.calls(back, im, entry) {
				return a, true
			}
		}
	}
}

// calls reports whether the instruction before an address calls a function of im: directly, or from
// another image.
func (n *namer) calls(back uint64, im *image, entry uint64) bool {
	where := at(n.here, back-1)
	if where == nil {
		return false
	}
	from := n.image(where)
	if from == nil {
		return false
	}
	address, ok := from.address(back - where.Start + where.Offset)
	if !ok {
		return false
	}
	const length = 5 // of call rel32
	code := from.code(address-length, length)
	switch {
	case code == nil:
		return false
	case code[0] == 0xe8:
		to := address + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:]))))
		return from == im && to == entry || from != im
	case code[3] == 0xff, code[0] == 0xff, code[1] == 0xff, code[2] == 0xff:
		// call by a register or by memory
		return from != im
	}
	return false
}

// namer names the frames of a report.
type namer struct {
	maps   [][]procmaps.Mapping
	images map[string]*image  // nil: it cannot be read
	left   budget             // what may still be read
	here   []procmaps.Mapping // of the stack in hand
}

// budget is how many bytes of files a report may take.
type budget struct{ unwind, symbols, debug uint64 }

func newBudget() budget { return budget{mostUnwind, mostSymbols, mostDebug} }

func (n *namer) image(m *procmaps.Mapping) *image {
	im, ok := n.images[m.Path]
	if !ok && len(n.images) < mostImages {
		n.images[m.Path] = nil // if the parsers panic
		im = n.open(m.Path, m.Inode)
		n.images[m.Path] = im
	}
	return im
}

// frames unwinds a stack.
func (n *namer) frames(s *sanitize.Stack) (list []sanitize.Frame) {
	// the parsers may panic on a malformed file: then the rest is not known
	defer func() { _ = recover() }()
	if s.Maps < 0 || s.Maps >= len(n.maps) {
		return nil
	}
	m := machine{stack: s}
	m.value[regRSP], m.known[regRSP] = s.SP, true
	m.value[regRIP], m.known[regRIP] = s.PC, true
	n.here = n.maps[s.Maps]
	for range mostFrames {
		pc := m.value[regRIP]
		if len(list) > 0 {
			pc-- // of the call, not of what follows it
		}
		where := at(n.here, pc)
		if where == nil {
			break
		}
		im := n.image(where)
		if im == nil {
			break
		}
		address, ok := im.address(pc - where.Start + where.Offset)
		if !ok {
			break
		}
		list = append(list, im.describe(address)...)
		if !n.up(&m, im, address) {
			break
		}
	}
	return list
}

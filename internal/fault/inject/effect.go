package inject

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/wire"
)

// effect is what all rules that hit a packet do to it.
type effect struct {
	lost bool
	// the first rule that keeps the packet, and pays for that; nil: it goes on now
	keeper   *fault.Hit
	wait     time.Duration
	hold     *fault.Hit // the rule that has it overtaken, or nil
	copies   int
	mark     bool // with "congestion experienced"
	markable bool // likewise, if it is ECN-capable
	data     []byte
	changed  bool   // data is a copy
	damage   uint32 // of the ICRC
}

// effectOf returns what hits do to a packet, whose data has no ICRC.
func effectOf(hits []fault.Hit, data []byte) (e effect) {
	e.data = data
	for i := range hits {
		h := &hits[i]
		switch h.What {
		case fault.Delay:
			e.keep(h, h.Wait())
		case fault.Reorder:
			if e.hold == nil {
				e.hold = h
			}
			e.keep(h, holdTime(h))
		case fault.Duplicate:
			e.copies = min(e.copies+int(max(h.Copies, 1)), maxCopies)
		case fault.Corrupt, fault.Truncate:
			e.change(h)
		case fault.Shape:
			pass := h.Passage()
			e.markable = e.markable || pass.Mark
			if pass.Wait > 0 {
				e.keep(h, pass.Wait)
			}
		case fault.Mark:
			e.mark = true
		default: // the others lose it
		}
		e.lost = e.lost || h.Loses()
	}
	return e
}

func (e *effect) keep(h *fault.Hit, wait time.Duration) {
	if e.keeper == nil {
		e.keeper = h
	}
	e.wait += wait
}

// change changes the bytes of the packet, if an earlier rule has left it what the rule changes.
func (e *effect) change(h *fault.Hit) {
	if !h.Changes(e.data) {
		return
	}
	if !e.changed {
		e.changed, e.data = true, slices.Clone(e.data)
	}
	switch {
	case h.What == fault.Truncate:
		e.data = e.data[:h.Length]
	case h.DamagesICRC():
		e.damage = ^e.damage
	case h.Bit != nil:
		was := slices.Clone(e.data)
		e.data[*h.Bit/octetBits] ^= highBit >> (*h.Bit % octetBits)
		e.damage ^= wire.DamageOf(was, e.data)
	default:
		h.ChangeField(e.data)
	}
}

// class returns the traffic class that the packet has then.
func (e *effect) class(was uint8) uint8 {
	if e.mark || e.markable && was&congested != 0 {
		return was | congested
	}
	return was
}

// congested is the ECN codepoint "congestion experienced" (RFC 3168).
const congested = 3

// holdTime is how long a packet waits for those that overtake it.
func holdTime(h *fault.Hit) time.Duration { return cmp.Or(h.Time, defaultHold) }

// acts are what rules did, as a capture says it.
var acts = map[fault.What]string{
	fault.Drop: "lost", fault.Silent: "lost", fault.HalfOpen: "lost", fault.Delay: "delayed", fault.Reorder: "held back",
	fault.Duplicate: "doubled", fault.Corrupt: "corrupted", fault.Truncate: "cut short", fault.Mark: "marked",
}

// note says what hits did to a packet, for a capture.
func note(hits []fault.Hit) string {
	var parts []string
	for i := range hits {
		if act := actOf(&hits[i]); act != "" {
			parts = append(parts, act+" by fault rule "+hits[i].Label())
		}
	}
	return strings.Join(parts, "; ")
}

func actOf(h *fault.Hit) string {
	if h.What != fault.Shape {
		return acts[h.What]
	}
	switch pass := h.Passage(); {
	case pass.Lost:
		return "lost"
	case pass.Wait > 0:
		return "delayed"
	case pass.Mark:
		return "marked"
	default:
		return ""
	}
}

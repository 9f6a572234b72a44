package ether

import (
	"errors"
	"sync/atomic"
)

// Type says when a rule applies: enum ib_flow_attr_type.
type Type uint32

const (
	// Normal rules have a Match and a priority.
	Normal Type = iota
	// AllDefault rules take the frames that no other rule has trapped.
	AllDefault
	// MulticastDefault rules take those of them that go to a multicast address.
	MulticastDefault
	// Sniffer rules take a copy of each frame of the port, also of the sent ones.
	Sniffer
)

// Why a Table refuses a rule.
var (
	ErrType     = errors.New("no type of rule")
	ErrPriority = errors.New("no such priority")
	ErrConflict = errors.New("a rule with the same match and priority has another action")
	ErrFull     = errors.New("too many rules")
)

// Counter counts the frames that a rule has taken. Several rules may share one.
type Counter struct{ packets, bytes atomic.Uint64 }

func (c *Counter) add(n int) {
	if c != nil {
		c.packets.Add(1)
		c.bytes.Add(uint64(n))
	}
}

// Load returns what was counted.
func (c *Counter) Load() (packets, bytes uint64) { return c.packets.Load(), c.bytes.Load() }

// Point is a value that a counters object has: bytes or frames, and its place.
type Point struct {
	Bytes bool
	Index uint32
}

// Read adds the values of points to the places in out. It reports false if one has no place there.
func (c *Counter) Read(points []Point, out []uint64) bool {
	packets, bytes := c.Load()
	for _, p := range points {
		if int(p.Index) >= len(out) {
			return false
		}
		if p.Bytes {
			out[p.Index] += bytes
		} else {
			out[p.Index] += packets
		}
	}
	return true
}

// Rule is a flow rule. To is the receiver; a Table only compares it.
type Rule struct {
	Type     Type
	Priority int // 0 goes first
	// DontTrap gives the receiver a copy: the frame goes on to the rules behind.
	DontTrap bool
	Match    Match

	To    any
	Tag   uint32 // of completions
	Drop  bool   // nobody receives the frame, not even To
	Miss  bool   // not with Drop: To does not receive the frame, which goes on to the default rules
	Count *Counter

	made uint64 // which rule of the table it is
}

// Delivery is a receiver of a frame. The tag is that of its rule.
type Delivery struct {
	To  any
	Tag uint32
}

// check refuses what no Table has.
func (r *Rule) check() error {
	if r.Type > Sniffer {
		return ErrType
	}
	if r.Type == Normal && (r.Priority < 0 || r.Priority >= Priorities) {
		return ErrPriority
	}
	return nil
}

// stage is the place of a normal rule among the others. Rules that do not trap go before those of
// their priority that do.
func (r *Rule) stage() int {
	if r.DontTrap {
		return 2 * r.Priority
	}
	return 2*r.Priority + 1
}

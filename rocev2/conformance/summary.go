package conformance

import (
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
)

// Summary counts what a Checker has seen.
type Summary struct {
	Packets     uint64 // frames in the capture
	RoCEv2      uint64
	RoCEv1      uint64
	InfiniBand  uint64
	Other       uint64
	Truncated   uint64 // of those with a transport
	Bytes       uint64 // of all frames, as captured
	First, Last time.Time
	Forgotten   int // flows, to bound memory: Options.MaxFlows
	// ClockSteps counts the packets that are much earlier than the one before: the clock was set
	// back, or captures were joined. ClockBack is the longest of these steps.
	ClockSteps int
	ClockBack  time.Duration

	PerRule                     []RuleCount // in the order of Rules
	Notes, Warnings, Violations uint64
	Flows                       []*Flow

	past FlowStats // what went wrong in the flows that were forgotten
}

// RuleCount counts the findings of a rule.
type RuleCount struct {
	Notes, Warnings, Violations uint64
	FirstPacket                 int // 0 for never
}

// Total is the number of findings.
func (r RuleCount) Total() uint64 { return r.Notes + r.Warnings + r.Violations }

func (s *Summary) add(x *Finding) {
	r := &s.PerRule[x.Rule.index]
	if r.FirstPacket == 0 {
		r.FirstPacket = x.Packet
	}
	switch x.Severity {
	case Note:
		r.Notes++
		s.Notes++
	case Warning:
		r.Warnings++
		s.Warnings++
	default:
		r.Violations++
		s.Violations++
	}
}

// Of returns the count of one rule. It is zero if no rule has that name, or if the
// Summary is the zero one.
func (s *Summary) Of(rule string) RuleCount {
	if r := RuleByName(rule); r != nil && r.index < len(s.PerRule) {
		return s.PerRule[r.index]
	}
	return RuleCount{}
}

// Summary returns the counts so far. It shares its flows with the checker, so they
// change with the next Add.
func (c *Checker) Summary() Summary {
	s := c.summary
	s.PerRule = append([]RuleCount(nil), s.PerRule...)
	s.Flows = c.list()
	return s
}

func (c *Checker) count(p *capture.Packet) {
	s := &c.summary
	if s.Packets == 0 {
		s.First = p.Time
	}
	if back := s.Last.Sub(p.Time); s.Packets > 0 && back > crossing {
		s.ClockSteps++
		s.ClockBack = max(s.ClockBack, back)
		c.stepped = p.Number
	}
	s.Packets++
	s.Last = p.Time
	s.Bytes += uint64(len(p.Frame))
	switch p.Kind {
	case capture.RoCEv2:
		s.RoCEv2++
	case capture.RoCEv1:
		s.RoCEv1++
	case capture.InfiniBand:
		s.InfiniBand++
	default:
		s.Other++
		return
	}
	if p.Truncated() {
		s.Truncated++
	}
}

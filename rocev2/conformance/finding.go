package conformance

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Severity is how much a finding weighs.
type Severity uint8

// The severities, by weight.
const (
	// Note: legal, and worth knowing.
	Note Severity = iota + 1
	// Warning: against a recommendation; or against a rule, if it was not the
	// capture or the network that made it look so.
	Warning
	// Violation: no device that obeys the specification sends this.
	Violation
)

func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Violation:
		return "violation"
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// Finding is one packet that a rule has something to say about.
type Finding struct {
	Packet   int // its number in the capture
	Time     time.Time
	Flow     *Flow // nil for a packet without a flow, such as a damaged one
	Rule     *Rule
	Severity Severity // the rule's, or less
	Expected string
	Seen     string
}

func (f *Finding) String() string {
	where := ""
	if f.Flow != nil {
		where = f.Flow.String() + ": "
	}
	return fmt.Sprintf("packet %d: %s%s: %s: expected %s, seen %s (%s)",
		f.Packet, where, f.Severity, f.Rule.Name, f.Expected, f.Seen, f.Rule.Clause)
}

// ICRC is what is known of a packet's invariant CRC.
type ICRC uint8

// The states of an ICRC.
const (
	ICRCUnknown ICRC = iota // the packet is cut
	ICRCGood
	ICRCBad
)

// Class is how a packet relates to those of its stream before it.
type Class uint8

// The classes.
const (
	// ClassUnknown: not of a stream with PSNs that count, or damaged.
	ClassUnknown Class = iota
	// ClassNew is the next of its stream, or the first seen.
	ClassNew
	// ClassAfterGap is new, and PSNs before it have not been seen.
	ClassAfterGap
	// ClassLate fills a gap: reordered, or sent again after a loss.
	ClassLate
	// ClassRetransmission has been seen before, and was sent again.
	ClassRetransmission
	// ClassDuplicate is the very packet seen before: doubled by the network or the
	// capture.
	ClassDuplicate
)

func (c Class) String() string {
	names := [...]string{"", "new", "after gap", "late", "retransmission", "duplicate"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Verdict is what Add made of one packet. It is valid until the next Add.
type Verdict struct {
	// Flow is nil if the frame carries no transport, or a damaged one.
	Flow *Flow
	// Packet is the parsed transport, valid if Parsed. Of a truncated packet
	// only the headers are there.
	Packet wire.Packet
	Parsed bool
	ICRC   ICRC
	Class  Class
	// Findings are those that this packet gave cause for; some are about
	// earlier ones.
	Findings []Finding
}

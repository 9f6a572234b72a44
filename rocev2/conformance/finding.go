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
	// Warning: against a recommendation; or against a rule, unless the capture or
	// the network only made it look so.
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

// Finding says that a packet breaks a rule, or is worth knowing.
type Finding struct {
	Packet   int // its number in the capture
	Time     time.Time
	Flow     *Flow // nil for a packet without a flow, such as a damaged one
	Rule     *Rule
	Severity Severity // that of the rule, or less
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
	// ClassUnknown: damaged, or not of a stream with PSNs in order.
	ClassUnknown Class = iota
	// ClassNew is the next of its stream, or the first seen.
	ClassNew
	// ClassAfterGap is new, and some PSNs before it were not seen.
	ClassAfterGap
	// ClassLate fills a gap: reordered, or sent again after a loss.
	ClassLate
	// ClassRetransmission was seen before, and was sent again.
	ClassRetransmission
	// ClassDuplicate is the same packet as before, doubled by the network or the
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

// Verdict is the result of Add for one packet. It is valid until the next Add.
type Verdict struct {
	// Flow is nil if the frame has no transport, or a damaged one.
	Flow *Flow
	// Packet is the parsed transport, valid if Parsed. A truncated packet has only
	// its headers.
	Packet wire.Packet
	Parsed bool
	ICRC   ICRC
	Class  Class
	// Findings are those that this packet caused; some may be about earlier packets.
	Findings []Finding
}

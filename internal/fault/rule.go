package fault

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/wire"
)

// Where is the place of a fault.
type Where uint8

const (
	WherePacket Where = iota + 1
	WhereVerb
	WhereCompletion
	WherePeer
	WherePort
	WhereDevice
	WhereLimits

	wheres = int(WhereLimits) + 1
)

// What is a fault.
type What uint8

const (
	Drop       What = iota + 1 // a packet is lost
	Duplicate                  // a packet arrives more than once
	Delay                      // a packet, a verb or a completion comes late
	Reorder                    // packets of the same flow overtake a packet
	Corrupt                    // a packet arrives with other bits
	Truncate                   // a packet arrives without its end
	Mark                       // a packet is marked with ECN's "congestion experienced"
	Shape                      // a packet passes a slow or lossy link
	Down                       // a port is down
	GIDRemoved                 // a port lacks a GID
	GIDMoved                   // a GID has another index
	Speed                      // a port has another speed
	RNR                        // a message finds no receive
	Smaller                    // a device has lower limits
	Silent                     // nothing leaves, and nothing arrives
	HalfOpen                   // the same in one direction
	Killed                     // the program is killed at a work request
	Removed                    // the device is unplugged
	Fail                       // a verb fails with an errno, or a work request with a status

	whats = iota + 1
)

// Direction says which end of a packet must be within the scope.
type Direction uint8

const (
	Out    Direction = 1 << iota // the sender
	In                           // the receiver
	Either = Out | In
)

// Range is the numbers from Min to Max.
type Range struct{ Min, Max uint64 }

// Rule is one fault rule. Parse reads one, and Check says whether it can fire. The zero value of
// a field means that it is not given.
type Rule struct {
	Where Where
	What  What
	Name  string // for reports
	Scope
	Choice
	Effect
}

// Scope says which candidates a rule has.
type Scope struct {
	WholeDevice bool // those of all programs, and not only of one session
	Device      string
	QP          wire.QPN
	Type        string // of the queue pair: RC, UC or UD
	Peer        netip.Addr
	Direction   Direction // Either if not given
	Opcode      string    // names with a bar between them; a * stands for any letters
	Size        *Range    // of the payload, in bytes
	PSN         *wire.PSN
	Verb        string // verbs by their names, as Opcode
	Program
}

// Program says which programs a rule concerns.
type Program struct {
	PID     uint64 // of the process that opened the device
	Command string // its name
	Label   string // of its session
}

// Choice says which of the candidates are hit. Those that are not spared have the numbers 1, 2, ….
type Choice struct {
	After     uint64        // candidates are spared at first,
	AfterTime time.Duration // and those of this time
	Until     time.Duration // candidates are not hit any more after this time
	First     uint64        // only candidates up to this number
	Every     uint64        // only multiples of it
	P         float64       // the probability
	Seed      uint64        // of what is drawn
	Count     uint64        // how many are hit at most
}

// Effect says what happens to a candidate that is hit.
type Effect struct {
	Time, Jitter time.Duration
	Copies       uint64
	By           uint64
	Bit          *uint64
	Field        string
	Value        *uint64
	Length       uint64
	Rate         uint64 // bits a second
	Latency      time.Duration
	Loss         float64
	Queue, ECN   uint64
	Errno        unix.Errno
	Status       WCStatus
	VendorErr    *uint64
	Event        AsyncEvent
	Times        uint64
	GID          *uint64
	Gbps         uint64
	Limits       map[string]uint64 // by their names, as max_qp
}

// asked is the place whose list has the rule.
func (r *Rule) asked() Where {
	switch r.What {
	case Silent, HalfOpen:
		return WherePacket
	case Killed:
		return WhereDevice
	default:
		return r.Where
	}
}

// direction returns the direction with its default.
func (s *Scope) direction() Direction {
	if s.Direction == 0 {
		return Either
	}
	return s.Direction
}

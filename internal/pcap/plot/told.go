package plot

import (
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// First is the first packet of a kind, and how many there are.
type First struct {
	At     time.Duration // since Start
	Number int
	Seen   uint64
}

func (l *list) told() First {
	if len(l.points) == 0 {
		return First{}
	}
	p := l.points[0] // thinning keeps it
	return First{At: p.at, Number: p.number, Seen: l.seen}
}

// Told is what sentences say of one direction: of its requests, and of the answers that its sender
// gives to the requests of the other direction.
type Told struct {
	Lost, Again                First // requests
	RNR, NAK, CNP, LostAnswers First // answers
	Hit, HitAnswers            First
	// Timeout is the packet that was sent again because of the first timeout, and Stall that after
	// the longest silence of both ends, which is Silence.
	Timeout, Stall First
	Silence        time.Duration
	// requests from FIRST to LAST; those without an acknowledgement
	Messages, Open               uint64
	Slowest, SlowestFrom, Median time.Duration // until the acknowledgement
	// of the packet that the slowest one begins with; 0: there is none
	SlowestNumber int
}

// Late returns the packets that only later ones show to matter; 0: there is none. The slowest
// message begins with the first of them. The second one was sent again after the first timeout, and
// the third one after the longest silence.
func (c *Collector) Late(of *conformance.Flow) [3]int {
	f := c.flows[of]
	if f == nil {
		return [3]int{}
	}
	return [3]int{f.slowest.Number, f.timeout.Number, f.stall.Number}
}

// Told returns what is known of a flow; all is 0 if nothing is.
func (c *Collector) Told(of *conformance.Flow) (t Told) {
	f := c.flows[of]
	if f == nil {
		return t
	}
	t = Told{
		Lost: f.sent[Lost].told(), Again: f.sent[Again].told(), Hit: f.sent[Hit].told(),
		RNR: f.came[RNR].told(), NAK: f.came[NAK].told(), CNP: f.came[CNP].told(), LostAnswers: f.came[Lost].told(), HitAnswers: f.came[Hit].told(),
		Messages: f.messages, Median: time.Duration(f.latencies.percentile(50)),
		Slowest: f.slowest.End - f.slowest.Begin, SlowestFrom: f.slowest.Begin, SlowestNumber: f.slowest.Number,
		Timeout: f.timeout, Stall: f.stall, Silence: f.silence,
	}
	if f.of.Peer != nil || f.latencies.n > 0 {
		t.Open = uint64(len(f.pending)) + f.missed
	}
	return t
}

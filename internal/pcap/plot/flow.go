package plot

import (
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxPending bounds the messages of a flow that wait for their acknowledgement.
	maxPending = 1024
	// maxEarly bounds the responses of a flow whose requests are not known yet.
	maxEarly = 1024
)

// Flow is one direction of a connection: its requests, and the responses to those of the other one.
type Flow struct {
	of                  *conformance.Flow
	requests, responses track
	sent                [kinds]list // about its requests
	came                [kinds]list // that it answers with
	bytes               bins
	latency, depth      bins
	latencies           histogram
	slowest             Message // until its acknowledgement
	messages            uint64  // that ended

	open    Message // of which the last packet did not come yet
	begun   bool
	pending []Message
	missed  uint64 // messages that were too many to wait for
	early   []answer
	last    time.Duration // of its last packet

	timeouts uint64 // as the checker counts them
	// the packet that the first one sent again, and that of the longest silence
	timeout, stall First
	silence        time.Duration
}

// Message is a request from its first packet to its last.
type Message struct {
	Flow     *conformance.Flow
	Begin    time.Duration // when its first packet was sent
	End      time.Duration // when it was acknowledged
	Opcode   wire.Opcode   // of its first packet
	PSN      wire.PSN      // of its first packet
	Last     wire.PSN
	Bytes    uint64
	Number   int // of its first packet
	Answered bool
}

// answer is a response.
type answer struct {
	at   time.Duration
	psn  wire.PSN // up to this one, requests are acknowledged
	part bool     // a READ that it is of goes on
}

// request adds a packet of a message. It returns true if its message ended, and waits.
func (f *Flow) request(at time.Duration, number int, pkt wire.Packet, payload uint64) (ended bool) {
	info, psn := pkt.Info(), pkt.PSN()
	if info.Has(wire.OpStart) {
		f.open = Message{Flow: f.of, Begin: at, Opcode: pkt.Opcode(), PSN: psn, Number: number}
		f.begun = true
	}
	if !f.begun {
		return false // its FIRST is not in the capture
	}
	f.open.Bytes += payload
	if info.Has(wire.HasRETH) {
		f.open.Bytes = max(f.open.Bytes, uint64(pkt.DMALen()))
	}
	if !info.Has(wire.OpEnd) {
		return false
	}
	f.begun = false
	f.open.Last = psn
	f.messages++
	if len(f.pending) == maxPending {
		f.pending = f.pending[1:]
		f.missed++
	}
	f.pending = append(f.pending, f.open)
	return true
}

// timedOut records a packet that was sent again because its timer had ended. silence is how long
// neither end had sent a packet.
func (f *Flow) timedOut(at, silence time.Duration, number int, seen uint64) {
	f.timeouts = seen
	p := First{At: at, Number: number, Seen: seen}
	if f.timeout.Number == 0 {
		f.timeout = p
	}
	if silence > f.silence {
		f.silence, f.stall = silence, p
	}
}

// answered removes the messages that a response acknowledges, and passes them to each.
func (f *Flow) answered(a answer, each func(*Message)) {
	n := 0
	for n < len(f.pending) {
		m := &f.pending[n]
		read := m.Opcode.Info().Has(wire.OpRead)
		if m.Begin > a.at || a.psn.Diff(m.Last) < 0 || read && a.part {
			break
		}
		m.End, m.Answered = a.at, true
		took := uint64(max(a.at-m.Begin, 0))
		f.latency.add(a.at, took)
		f.latencies.add(took)
		if m.End-m.Begin > f.slowest.End-f.slowest.Begin {
			f.slowest = *m
		}
		each(m)
		n++
	}
	f.pending = f.pending[n:]
	f.depth.add(a.at, uint64(len(f.pending)))
}

// responseKind says what a response is, and what it acknowledges.
func responseKind(pkt wire.Packet) (Kind, answer) {
	info := pkt.Info()
	a := answer{psn: pkt.PSN(), part: info.Has(wire.OpReadResp) && !info.Has(wire.OpEnd)}
	switch {
	case !info.Has(wire.HasAETH), pkt.Syndrome().IsACK():
		if info.Has(wire.OpReadResp | wire.HasAtomicAckETH) {
			return Response, a
		}
		return Ack, a
	case pkt.Syndrome().IsRNR():
		a.psn = a.psn.Sub(1)
		return RNR, a
	}
	a.psn = a.psn.Sub(1)
	return NAK, a
}

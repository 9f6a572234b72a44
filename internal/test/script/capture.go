package script

import (
	"fmt"
	"io"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// tap judges what a host's port sends and receives by the rules of the protocol.
type tap struct {
	checker *conformance.Checker
	number  int
}

// sentPacket is a packet as it was sent.
type sentPacket struct {
	flight
	at   rxe.Time
	what string // became of it, or made it, as a ladder says; "": nothing special
}

func (h *host) watch() {
	h.checker = newChecker(func(x *conformance.Finding) {
		if !h.s.strange {
			h.s.problem("protocol", "seen at %s: %v", h.name, x)
		}
	})
}

// newChecker returns a checker; the options are right, so there is no error.
func newChecker(violation func(x *conformance.Finding)) *conformance.Checker {
	c, err := conformance.New(conformance.Options{OnFinding: func(x *conformance.Finding) {
		if x.Severity == conformance.Violation && x.Rule.Name != "icrc" {
			violation(x)
		}
	}})
	if err != nil {
		panic(err)
	}
	return c
}

// captured gives the checker of a host a packet that its port has sent or received.
func (h *host) captured(f *flight, s *Script) {
	if h.checker == nil || f.altered {
		return
	}
	h.number++
	h.checker.Add(f.captured(h.number, s.net.Now()))
}

// captured is the packet as a capture has it.
func (f *flight) captured(number int, at rxe.Time) *capture.Packet {
	const ipv4, udp = 20, 8
	return &capture.Packet{
		Number: number, Time: time.Unix(0, int64(at)), Kind: capture.RoCEv2, Src: f.route.Src, Dst: f.route.Dst,
		IP: capture.IPHeader{Version: 4, HeaderLen: ipv4, DF: true, ID: f.id, TrafficClass: f.route.TrafficClass,
			Length: ipv4 + udp + len(f.data)},
		UDP:       capture.UDPHeader{SrcPort: f.route.SrcPort, DstPort: wire.UDPPort, Length: udp + len(f.data)},
		Transport: f.data, TransportLen: len(f.data), Network: make([]byte, ipv4+udp),
	}
}

// Sent returns the sender, opcode and PSN of each packet that the hosts have sent.
func (s *Script) Sent() (list []string) {
	for i := range s.sent {
		if p := &s.sent[i]; p.what != doubled {
			list = append(list, fmt.Sprintf("%s %v %d", p.from.name, wire.Opcode(p.data[0]), psnOf(p.data)))
		}
	}
	return list
}

// doubled says in a ladder that a packet is a copy.
const doubled = "doubled by the script"

// WriteLadder draws all packets that were sent, with those that a command has lost.
func (s *Script) WriteLadder(w io.Writer) error {
	checker := newChecker(func(*conformance.Finding) {})
	c := &ladder.Collector{}
	for i := range s.sent {
		p := s.sent[i].captured(i+1, s.sent[i].at)
		if what := s.sent[i].what; what != "" {
			p.Comment = []byte("gorxe: " + what)
		}
		c.Add(p, checker.Add(p))
	}
	c.Findings(checker.Close())
	if err := c.WriteText(w, false); err != nil {
		return fmt.Errorf("the ladder: %w", err)
	}
	return nil
}

package conformance

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// sentLate appends a request once more, later.
func (s *scene) sentLate(p *scenePacket, after time.Duration) {
	s.now += after
	s.add(p.fromB, p.headers, p.payload)
}

// TestHappened: what goes wrong without breaking a rule is counted.
func TestHappened(t *testing.T) {
	const late = 200 * time.Millisecond
	for name, test := range map[string]struct {
		play func(s *scene)
		want string
	}{
		"nothing": {func(s *scene) { s.clean() }, ""},
		"a lost request": {func(s *scene) {
			s.sends(20)
			p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
			s.sentLate(p, late)
			s.ack()
			s.sends(2)
		}, "1 retransmission, 1 timeout"},
		"a NAK": {func(s *scene) {
			s.sends(20)
			p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
			s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), p.headers.PSN)
			s.sentLate(p, late)
			s.ack()
		}, "1 retransmission, 1 NAK (PSN sequence error)"},
		"a refusal": {func(s *scene) {
			s.sends(20)
			p := s.request(wire.RCSendOnlyInv, wire.Headers{InvRKey: 7}, 16)
			s.answer(wire.SyndromeNAK(wire.NAKRemoteAccess), p.headers.PSN)
		}, "1 NAK (remote access error)"},
		"a peer that is silent": {func(s *scene) {
			s.sends(20)
			p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
			for range 7 {
				s.sentLate(p, late)
			}
		}, "1 flow whose last request was sent again and not acknowledged, 7 retransmissions, 7 timeouts"},
		"a peer that never answers": {func(s *scene) {
			p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
			for range 7 {
				s.sentLate(p, late)
			}
		}, "1 flow whose last request was sent again and not acknowledged, 7 retransmissions"},
		"a receiver that is never ready": {func(s *scene) {
			s.sends(20)
			p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
			for range 3 {
				s.answer(wire.SyndromeRNR(1), p.headers.PSN)
				s.sentLate(p, late)
			}
			s.answer(wire.SyndromeRNR(1), p.headers.PSN)
		}, "1 flow whose last request was sent again and not acknowledged, 3 retransmissions, 4 RNR NAKs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			test.play(s)
			r := checkScene(t, s)
			if got := r.Happened(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func checkScene(t *testing.T, s *scene) *Report {
	t.Helper()
	r, err := Check(bytes.NewReader(s.file(t)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Findings {
		t.Error(&r.Findings[i])
	}
	return r
}

// TestForgottenPairs: a checker with too little memory forgets both directions of a connection at
// once, so that the next packets of the two are paired again. What happened to them is still
// counted.
func TestForgottenPairs(t *testing.T) {
	s := newScene()
	stranger := func(i int) { s.datagram(0x99, 1, nil).dst = fmt.Sprintf("198.51.100.%d", i) }
	stranger(0)
	s.sends(20)
	p := s.request(wire.RCSendOnly, wire.Headers{}, 16)
	s.sentLate(p, time.Second)
	s.ack()
	s.request(wire.RCSendOnly, wire.Headers{}, 16)
	for i := range 6 { // the last one is too many: a stranger and the responses are the oldest two
		stranger(1 + i)
	}
	s.sends(20)
	c, err := New(Options{MaxFlows: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range load(t, "scene", s.file(t)).packets {
		c.Add(&p)
	}
	c.Close()
	sum := c.Summary()
	if sum.Forgotten == 0 {
		t.Fatal("no flow was forgotten")
	}
	paired := 0
	for _, f := range sum.Flows {
		if f.Peer == nil {
			continue
		}
		if paired++; f.Peer.Peer != f || f.Peer.forgotten {
			t.Errorf("%v: its peer %v is forgotten, or another's", f, f.Peer)
		}
	}
	if paired != 2 {
		t.Errorf("%d of 2 directions are paired", paired)
	}
	if got, want := sum.Happened(), "1 retransmission, 1 timeout"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestClockBack: a clock that is set back makes no correct device break a rule, and is counted.
func TestClockBack(t *testing.T) {
	const timer, waits = 0, 656 * time.Millisecond
	for _, back := range []time.Duration{0, 300 * time.Millisecond, time.Hour} {
		s := newScene()
		s.sends(20)
		p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.answer(wire.SyndromeRNR(timer), p.headers.PSN)
		s.now += waits
		s.datagram(0x99, 1, nil)
		s.now -= back
		s.sentLate(p, 0)
		s.ack()
		s.sends(20)
		r, err := Check(bytes.NewReader(s.file(t)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		if back > 0 {
			steps = 1
		}
		if r.Violations > 0 || r.ClockSteps != steps || back > 0 && (back-r.ClockBack).Abs() > time.Millisecond {
			t.Errorf("back by %v: %d steps of %v, %v", back, r.ClockSteps, r.ClockBack, r.Findings)
		}
	}
}

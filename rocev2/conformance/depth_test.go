package conformance

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// reads appends READs of one packet, so many before the first is answered.
func (s *scene) reads(n int) (requests []*scenePacket) {
	for range n {
		requests = append(requests, s.request(wire.RCReadRequest, wire.Headers{DMALen: 8}, 0))
	}
	return requests
}

func (s *scene) answerReads(requests []*scenePacket) {
	for _, p := range requests {
		s.readResponse(p.headers.PSN, wire.RCReadResponseOnly, 8)
	}
}

// TestReadsOutstanding: the statistic counts only what is certain, whatever packets the
// capture lacks.
func TestReadsOutstanding(t *testing.T) {
	for name, test := range map[string]struct {
		play func(s *scene)
		want int
	}{
		"one by one": {func(s *scene) {
			for range 5 {
				s.answerReads(s.reads(1))
			}
		}, 1},
		"five":                 {func(s *scene) { s.answerReads(s.reads(5)) }, 5},
		"as many as there are": {func(s *scene) { s.answerReads(s.reads(maxDepth)) }, maxDepth},
		"of several packets":   {func(s *scene) { s.read(600) }, 1},
		"with an atomic": {func(s *scene) {
			one := s.reads(2)
			two := s.request(wire.RCFetchAdd, wire.Headers{VA: 0x30000, RKey: 0x1234, SwapAdd: 1}, 0)
			s.answerReads(one)
			s.atomicAck(two, 41)
		}, 3},
		"responses not in here": {func(s *scene) { s.reads(7); s.answerReads(s.reads(2)) }, 2},
		"unanswered":            {func(s *scene) { s.reads(7) }, 0},
		"sent again": {func(s *scene) {
			one := s.reads(3)
			for _, p := range one {
				s.again(p)
			}
			s.answerReads(one)
			s.answerReads(one)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.sends(calm)
			test.play(s)
			s.sends(calm)
			r := s.report(t)
			if n := r.Flows[0].Stats.MaxReads; n != test.want {
				t.Errorf("%d, want %d", n, test.want)
			}
			if n := r.Of(ruleReadDepth.Name); n.Total() > 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestReadDepth: more are outstanding than the responder agreed to, or than any can
// have.
func TestReadDepth(t *testing.T) {
	for name, test := range map[string]struct {
		agreed, sent, times int
	}{
		"as agreed":            {4, 4, 0},
		"more than agreed":     {4, 5, 1},
		"many more":            {4, 60, 1},
		"nothing agreed":       {0, maxDepth, 0},
		"more than can be":     {0, maxDepth + 1, 1},
		"far more than can be": {0, maxDepth + 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			if test.agreed > 0 {
				s.connect(byte(test.agreed))
			}
			s.sends(calm)
			reads := s.reads(test.sent)
			s.answerReads(reads)
			s.sends(calm)
			r := s.report(t)
			if n := r.Of(ruleReadDepth.Name); int(n.Violations) != test.times || n.Warnings+n.Notes > 0 {
				t.Fatalf("%+v", n)
			}
			if test.times == 0 {
				return
			}
			limit := test.agreed
			if limit == 0 {
				limit = maxDepth
			}
			for _, x := range r.Findings {
				if x.Rule == ruleReadDepth && s.packets[x.Packet-1].headers.PSN.Diff(reads[0].headers.PSN) < int32(limit) {
					t.Errorf("it is packet %d, which is not the one too many: %v", x.Packet, &x)
				}
			}
		})
	}
}

// TestReadRefused: if a READ is refused while others are outstanding, there is a note.
func TestReadRefused(t *testing.T) {
	for name, test := range map[string]struct {
		before int
		notes  uint64
	}{"alone": {0, 0}, "with others": {3, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.sends(calm)
			s.reads(test.before)
			p := s.reads(1)[0]
			s.answer(wire.SyndromeNAK(wire.NAKInvalidRequest), p.headers.PSN)
			if n := s.report(t).Of(ruleReadDepth.Name); n.Notes != test.notes || n.Violations+n.Warnings > 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

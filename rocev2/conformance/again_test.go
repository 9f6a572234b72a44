package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestGoBack: after a sequence NAK the requester goes back to the PSN of the NAK.
// Requests that were in flight when the NAK came are not a fault.
func TestGoBack(t *testing.T) {
	for name, test := range map[string]struct {
		play     func(s *scene, lost *scenePacket)
		warnings int
	}{
		"goes back": {func(s *scene, lost *scenePacket) { s.again(lost) }, 0},
		"some under way": {func(s *scene, lost *scenePacket) {
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.again(lost)
		}, 0},
		"goes back late": {func(s *scene, lost *scenePacket) {
			s.now += time.Second
			s.again(lost)
		}, 0},
		"goes on": {func(s *scene, _ *scenePacket) {
			for range 5 {
				s.now += crossing / 2
				s.request(wire.RCSendOnly, wire.Headers{}, 64)
			}
		}, 1},
		"begins beyond": {func(s *scene, lost *scenePacket) {
			behind := s.packets[len(s.packets)-2]
			s.again(behind)
			s.again(lost)
			s.again(behind)
		}, 1},
		"begins beyond, and stays there": {func(s *scene, _ *scenePacket) {
			s.again(s.packets[len(s.packets)-2])
			for range reorderedBy + 1 {
				s.request(wire.RCSendOnly, wire.Headers{}, 64)
			}
		}, 1},
		"begins beyond, at the end": {func(s *scene, _ *scenePacket) {
			s.again(s.packets[len(s.packets)-2])
		}, 1},
		"overtaken by the next": {func(s *scene, lost *scenePacket) {
			s.again(s.packets[len(s.packets)-2])
			s.again(lost)
		}, 0},
		"overtaken, and seen for the first time": {func(s *scene, lost *scenePacket) {
			behind := s.packets[len(s.packets)-2]
			i := slices.Index(s.packets, lost)
			s.packets = slices.Delete(s.packets, i, i+1) // the network has lost it
			s.again(behind)
			s.again(lost)
			s.msn++
			s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), behind.headers.PSN)
			s.again(behind)
		}, 0},
		"overtaken by new requests": {func(s *scene, lost *scenePacket) {
			behind := s.packets[len(s.packets)-2]
			s.again(lost)
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.now += time.Millisecond
			s.again(behind)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.clean()
			s.msn--
			lost := s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.msn -= 2
			s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), lost.headers.PSN)
			test.play(s, lost)
			r := s.report(t)
			if n := r.Of(ruleGoBack.Name); int(n.Warnings) != test.warnings || n.Violations+n.Notes > 0 {
				t.Errorf("%+v, want %d warnings", n, test.warnings)
			}
		})
	}
}

// TestNAKCrossesRun: a NAK may come while the requester sends requests again. The requester goes on
// until the NAK arrives, and then goes back.
func TestNAKCrossesRun(t *testing.T) {
	for name, test := range map[string]struct {
		wait     time.Duration
		rest     []int
		warnings int
	}{
		"goes on and back":     {0, []int{3, 4, 1, 2, 3, 4}, 0},
		"goes back":            {0, []int{1, 2, 3, 4}, 0},
		"goes on for too long": {crossing, []int{3, 4, 1, 2, 3, 4}, 1},
		"overtakes itself":     {0, []int{4, 3, 1, 2, 3, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.clean()
			var sent []*scenePacket
			for range 5 {
				sent = append(sent, s.request(wire.RCSendOnly, wire.Headers{}, 64))
			}
			s.now += time.Second // a timeout
			for _, p := range sent[:3] {
				s.again(p)
			}
			s.msn -= 4
			s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), sent[1].headers.PSN)
			s.now += test.wait
			for _, i := range test.rest {
				s.again(sent[i])
			}
			s.msn += 4
			s.ack()
			r := s.report(t)
			if n := r.Of(ruleGoBack.Name); int(n.Warnings) != test.warnings || n.Violations+n.Notes > 0 {
				t.Errorf("%+v, want %d warnings", n, test.warnings)
			}
		})
	}
}

// TestGoBackInTime: after a timeout, a requester begins with the first request that is
// not acknowledged.
func TestGoBackInTime(t *testing.T) {
	for name, test := range map[string]struct {
		first    int
		warnings int
	}{"at the first": {0, 0}, "beyond it": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.clean()
			var sent []*scenePacket
			for range 3 {
				sent = append(sent, s.request(wire.RCSendOnly, wire.Headers{}, 64))
			}
			s.now += time.Second
			for _, p := range sent[test.first:] {
				s.again(p)
			}
			r := s.report(t)
			if n := r.Of(ruleGoBack.Name); int(n.Warnings) != test.warnings || n.Violations+n.Notes > 0 {
				t.Errorf("%+v, want %d warnings", n, test.warnings)
			}
		})
	}
}

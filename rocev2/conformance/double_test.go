package conformance

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// classes returns the classes of a scene's packets after the first skip.
func (s *scene) classes(t *testing.T, skip int) (all []Class) {
	t.Helper()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range load(t, "scene", s.file(t)).packets {
		all = append(all, c.Add(&p).Class)
	}
	return all[skip:]
}

// batch appends requests with identifications that count from 0, as the kernel does.
func (s *scene) batch(n int) (packets []*scenePacket) {
	for i := range n {
		p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		p.id = uint16(i)
		packets = append(packets, p)
	}
	return packets
}

// resend appends packets again, with their identifications.
func (s *scene) resend(packets []*scenePacket) {
	for _, p := range packets {
		s.add(p.fromB, p.headers, p.payload).id = p.id
	}
}

// TestDoubled: packets that were sent again and packets that the network doubled are
// distinguished.
func TestDoubled(t *testing.T) {
	const fresh, resent, doubled = ClassNew, ClassRetransmission, ClassDuplicate
	for name, test := range map[string]struct {
		play func(s *scene)
		want []Class // of the last packets
	}{
		"each packet": {func(s *scene) {
			for range 3 {
				s.resend([]*scenePacket{s.request(wire.RCSendOnly, wire.Headers{}, 64)})
			}
		}, []Class{fresh, doubled, fresh, doubled, fresh, doubled}},
		"one, out of order": {func(s *scene) {
			p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.sends(2)
			s.resend([]*scenePacket{p})
		}, []Class{doubled}},
		"in what was sent again": {func(s *scene) {
			a, b := s.request(wire.RCSendOnly, wire.Headers{}, 64), s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.again(a)
			s.again(b)
			s.resend(s.packets[len(s.packets)-1:])
		}, []Class{fresh, fresh, resent, resent, doubled}},
		"identification used again": {func(s *scene) {
			p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.now += 20 * time.Millisecond
			s.resend([]*scenePacket{p})
		}, []Class{fresh, resent}},
		"a batch, sent again": {func(s *scene) { s.resend(s.batch(3)) },
			[]Class{fresh, fresh, fresh, resent, resent, resent}},
		"a batch, sent again twice": {func(s *scene) {
			b := s.batch(3)
			s.resend(b)
			s.resend(b)
		}, []Class{resent, resent, resent, resent, resent, resent}},
		"a batch whose first was lost": {func(s *scene) {
			b := s.batch(3)
			s.packets = slices.Delete(s.packets, len(s.packets)-3, len(s.packets)-2)
			s.resend(b)
		}, []Class{ClassAfterGap, fresh, ClassLate, resent, resent}},
		"some of several batches": {func(s *scene) {
			s.batch(3)
			b := s.batch(3)
			s.resend(b[1:])
		}, []Class{fresh, fresh, fresh, resent, resent}},
		"the same identification throughout": {func(s *scene) {
			a, b := s.request(wire.RCSendOnly, wire.Headers{}, 64), s.request(wire.RCSendOnly, wire.Headers{}, 64)
			a.id, b.id = 7, 7
			s.resend([]*scenePacket{b})
		}, []Class{fresh, fresh, resent}},
		"a response": {func(s *scene) {
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			s.resend([]*scenePacket{s.ack()})
		}, []Class{fresh, fresh, doubled}},
		"a response, later": {func(s *scene) {
			s.request(wire.RCSendOnly, wire.Headers{}, 64)
			p := s.ack()
			s.now += 20 * time.Millisecond
			s.resend([]*scenePacket{p})
		}, []Class{fresh, fresh, fresh}},
		"responses of the same identification": {func(s *scene) {
			for range 2 {
				s.request(wire.RCSendOnly, wire.Headers{}, 64)
				s.ack().id = 7
			}
			s.resend(s.packets[len(s.packets)-1:])
		}, []Class{fresh, fresh, fresh, fresh, fresh}},
	} {
		s := newScene()
		s.sends(calm)
		test.play(s)
		if got := s.classes(t, len(s.packets)-len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestResentBatches: gorxe sends nine packets again, in the same batches as before.
func TestResentBatches(t *testing.T) {
	each(t, filepath.Join(captures, "interop-not-ready.pcap"), func(p *capture.Packet, v *Verdict) {
		if p.Number >= 12 && p.Number <= 20 && v.Class != ClassRetransmission {
			t.Errorf("packet %d is %v", p.Number, v.Class)
		}
	})
}

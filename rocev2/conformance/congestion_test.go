package conformance

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// report returns the verdict on a scene.
func (s *scene) report(t *testing.T) *Report {
	t.Helper()
	r, err := Check(bytes.NewReader(s.file(t)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only fails the test unless the findings are so many of one rule, none of them above
// a severity.
func (r *Report) only(t *testing.T, rule *Rule, severity Severity, times int) {
	t.Helper()
	n := 0
	for i := range r.Findings {
		if x := &r.Findings[i]; x.Rule != rule || x.Severity > severity {
			t.Error(x)
		} else {
			n++
		}
	}
	if n != times {
		t.Errorf("%s: %d times, want %d", rule.Name, n, times)
	}
}

// notified appends, so many times, a stream, a CNP to its sender, and what the sender
// sends after that.
func (s *scene) notified(times, packets int, then func()) {
	for range times {
		s.stream((pause+3)*slotTime, packets)
		s.cnp()
		s.now -= sceneGap
		then()
	}
	s.stream((reaction+3)*slotTime, packets)
	s.send(0)
}

// TestCNPReaction: a finding says that CNPs have no effect only if that is certain.
func TestCNPReaction(t *testing.T) {
	const fast = steady + 2
	for name, test := range map[string]struct {
		play  func(s *scene)
		notes int
	}{
		"goes on":          {func(s *scene) { s.notified(obstinate, fast, func() {}) }, 1},
		"goes on for long": {func(s *scene) { s.notified(3*obstinate, fast, func() {}) }, 1},
		"too few":          {func(s *scene) { s.notified(obstinate-1, fast, func() {}) }, 0},
		"too slow to tell": {func(s *scene) { s.notified(obstinate, steady/2, func() {}) }, 0},
		"halves its rate":  {func(s *scene) { s.notified(obstinate, fast, func() { s.stream(3*slotTime, fast/2) }) }, 0},
		"slows down late": {func(s *scene) {
			s.notified(obstinate, fast, func() { s.stream(9*slotTime, fast); s.stream(3*slotTime, fast*3/4) })
		}, 0},
		"pauses":         {func(s *scene) { s.notified(obstinate, fast, func() { s.now += 2 * slotTime }) }, 0},
		"ends":           {func(s *scene) { s.notified(obstinate-1, fast, func() {}); s.stream(5*slotTime, fast); s.cnp() }, 0},
		"CNPs too close": {func(s *scene) { s.close(12) }, 0},
		"slows down at last": {func(s *scene) {
			s.notified(obstinate-1, fast, func() {})
			s.notified(1, fast, func() { s.stream(3*slotTime, fast/2) })
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.clean()
			test.play(s)
			s.sends(calm + 2)
			s.report(t).only(t, ruleCNPReaction, Note, test.notes)
		})
	}
	t.Run("responses unseen", func(t *testing.T) {
		s := newScene()
		s.clean()
		s.notified(obstinate, fast, func() {})
		kept := s.packets[:0]
		for _, p := range s.packets {
			if !p.fromB || p.headers.Opcode == wire.OpCNP {
				kept = append(kept, p)
			}
		}
		s.packets = kept
		s.report(t).only(t, ruleCNPReaction, Note, 0)
	})
}

// close appends CNPs that each come while the one before still has its effect.
func (s *scene) close(times int) {
	for range times {
		s.stream((pause-2)*slotTime, steady+2)
		s.cnp()
		s.now -= sceneGap
	}
}

// TestCNPs: their number is compared with the marks of their own queue pair. How close
// they come is only a statistic.
func TestCNPs(t *testing.T) {
	s := newScene()
	s.clean()
	s.marked(3)
	s.cnp()
	s.now += 40 * time.Microsecond
	s.cnp()
	s.now += 500 * time.Microsecond
	s.cnp()
	s.sends(calm)
	r := s.report(t)
	r.only(t, ruleCNPRate, Note, 0)
	if f := r.Flows[1]; f.Stats.CNPs != 3 || f.Stats.CNPGap != 50*time.Microsecond {
		t.Errorf("%d CNPs, %v apart", f.Stats.CNPs, f.Stats.CNPGap)
	}

	s = newScene()
	s.clean()
	s.marked(1)
	s.datagram(0x44, 1, make([]byte, 64)).tos = 3 // of another queue pair
	s.cnp()
	s.cnp()
	s.sends(calm)
	s.report(t).only(t, ruleCNPRate, Warning, 1)
}

// TestCNPFormat: each field of a CNP is judged. One that the figure in the
// specification does not have gives a warning.
func TestCNPFormat(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(p *scenePacket)
		severity Severity
	}{
		"PSN":      {func(p *scenePacket) { p.headers.PSN = 1 }, Violation},
		"SE":       {func(p *scenePacket) { p.headers.Solicited = true }, Violation},
		"M":        {func(p *scenePacket) { p.headers.MigReq = true }, Violation},
		"reserved": {func(p *scenePacket) { p.before = func(b []byte) { b[wire.BTHLen+5] = 1 } }, Violation},
		"BECN":     {func(p *scenePacket) { p.headers.BECN = false }, Warning},
		"FECN":     {func(p *scenePacket) { p.headers.FECN = true }, Warning},
		"AckReq":   {func(p *scenePacket) { p.headers.AckReq = true }, Warning},
		"P_Key":    {func(p *scenePacket) { p.headers.PKey = 0x8001 }, Warning},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.clean()
			s.marked(1)
			test.change(s.cnp())
			s.sends(calm)
			r := s.report(t)
			r.only(t, ruleCNPFormat, test.severity, 1)
			if len(r.Findings) == 1 && r.Findings[0].Severity != test.severity {
				t.Errorf("a %v", r.Findings[0].Severity)
			}
		})
	}
}

package sanitize

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

// posted posts a work request without a stop.
func (r *rig) posted(va uint64) {
	r.Posted(r.qp, rxe.SendWR{ID: 9, Op: rxe.WRSend, SGL: []rxe.SGE{{Addr: va, Length: 8, LKey: key}}})
}

// TestNear: of posts that were not stopped, a finding has the last stop, and says that it is not
// their own. One of comparedOf is compared.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*rig)
		near []bool // of the first place of each finding
	}{
		{"stopped", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.Rang(r.qp); r.memory[64]++; r.complete(false) }, []bool{false}},
		{"not stopped", func(r *rig) {
			r.Posting(r.qp, at(4))
			r.Rang(r.qp)
			for range comparedOf {
				r.posted(64)
				r.memory[64]++
				r.complete(false)
			}
		}, []bool{true}},
		{"the stop comes after others", func(r *rig) {
			r.Posting(r.qp, &Stack{PC: 4, Near: true, Maps: -1})
			r.posted(64)
			r.Rang(r.qp)
			r.memory[64]++
			r.complete(false)
		}, []bool{true}},
		{"not compared", func(r *rig) {
			r.Posting(r.qp, at(4))
			r.Rang(r.qp)
			for range comparedOf - 1 {
				r.posted(64)
				r.memory[64]++
				r.complete(false)
			}
		}, nil},
		{"nobody stops it", func(r *rig) { r.posted(64); r.memory[64]++; r.complete(false) }, []bool{false}},
	} {
		r := newRig(t, sendBufferChanged)
		c.do(r)
		report := r.s.Report()
		if len(report.Findings) != len(c.near) {
			t.Errorf("%s: %d findings, want %d", c.name, len(report.Findings), len(c.near))
			continue
		}
		for i, near := range c.near {
			p := &report.Findings[i].Places[0]
			var out bytes.Buffer
			report.Write(&out)
			if got := p.Stack != nil && p.Stack.Near; got != near || strings.Contains(out.String(), "too fast") != near {
				t.Errorf("%s: near is %v, want %v:\n%s", c.name, got, near, out.String())
			}
		}
	}
}

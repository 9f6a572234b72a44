package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/script"
)

// A run that fails is reduced in three steps: to parameters that are as simple as possible
// (simplest), to a script of package script (record_test.go), and to few commands
// (script.Shrink).

// recordable reports whether a run can be written as a script: one pair of queue pairs, on two
// hosts, without what scripts have no words for.
func (p *params) recordable() bool {
	return len(p.pairs) == 1 && p.pairs[0].hosts[0] != p.pairs[0].hosts[1] && !p.srq && !p.pairs[0].xrc && !p.chaos && p.net.Mark == 0
}

// withSeed returns the same kind of run with other draws.
func (p params) withSeed(seed uint64) params {
	p.seed, p.net.Seed = seed, seed
	return p
}

// simplifications make a run simpler. The first ones make it recordable.
var simplifications = []func(p *params){
	func(p *params) { p.pairs = p.pairs[:1] },
	func(p *params) { p.pairs = p.pairs[len(p.pairs)-1:] },
	func(p *params) { p.pairs[0].hosts = [2]int{0, 1} },
	func(p *params) { p.srq = false },
	func(p *params) { p.pairs[0].xrc = false },
	func(p *params) { p.chaos = false },
	func(p *params) { p.net.Mark = 0 },
	func(p *params) { p.v6, p.tap, p.costlyMemory, p.activeQPs = false, false, false, 0 },
	func(p *params) { p.pairs[0].pause, p.pairs[0].long = false, false },
	func(p *params) { p.net.Corrupt = 0 },
	func(p *params) { p.net.Duplicate = 0 },
	func(p *params) { p.net.Reorder = 0 },
	func(p *params) { p.net.Loss = 0 },
	func(p *params) { p.net.MaxBatch, p.net.PerByte = 1, 0 },
	func(p *params) { p.recvDelay = 0 },
	func(p *params) { p.pairs[0].ops[1] = 0 },
	fewer, fewer, fewer,
	func(p *params) { p.pairs[0].limit(4, 4*int(p.pairs[0].mtu)) },
}

func fewer(p *params) { p.pairs[0].ops[0] = (p.pairs[0].ops[0] + 1) / 2 }

// attempts is how many seeds are tried for a simpler kind of run.
const attempts = 40

// simplest returns a run that fails too, of the simplest kind that is found.
func simplest(p params) params {
	for _, simplify := range simplifications {
		q := p
		q.pairs = append([]pairParams(nil), p.pairs...)
		simplify(&q)
		for i := range uint64(attempts) {
			r := q.withSeed(p.seed + i)
			if _, err := runWorld(r); err != nil {
				p = r
				break
			}
		}
	}
	return p
}

// shrink returns a small script that fails as runs of this kind do, or an error that says why
// there is none.
func shrink(p params) (best []string, err error) {
	p = simplest(p)
	if !p.recordable() {
		return nil, fmt.Errorf("no run fails that a script could describe; the simplest that fails: %+v", p)
	}
	failed := 0
	for i := uint64(0); i < 10*attempts && failed < 5; i++ {
		var rec *recorder
		_, err := runWorldWith(p.withSeed(p.seed+i), func(w *world) { rec = record(w) })
		if err == nil || rec == nil {
			continue
		}
		failed++
		lines := script.Shrink(rec.script())
		if lines != nil && (best == nil || len(lines) < len(best)) {
			best = lines
		}
	}
	if best == nil {
		return nil, fmt.Errorf("the run fails, and its script does not: %+v", p)
	}
	return best, nil
}

// shrinkSeeds reduces the first of the seeds that can be reduced.
func shrinkSeeds(seeds []uint64, force func(*params)) string {
	var reasons []string
	for _, seed := range seeds[:min(len(seeds), 5)] {
		p := drawParams(seed, scaleOf(seed))
		force(&p)
		lines, err := shrink(p)
		if err == nil {
			return fmt.Sprintf("seed %d, reduced:\n%s", seed, script.Report(lines))
		}
		reasons = append(reasons, fmt.Sprintf("seed %d: %v", seed, err))
	}
	return strings.Join(reasons, "\n")
}

// TestRecorded: a run that was written as a script plays without a problem, and the script's
// devices send the same packets in the same order.
func TestRecorded(t *testing.T) {
	runs := 0
	for seed := uint64(1); seed < 400; seed++ {
		p := drawParams(seed, scaleOf(seed))
		if !p.recordable() {
			continue
		}
		var rec *recorder
		if _, err := runWorldWith(p, func(w *world) { rec = record(w) }); err != nil {
			t.Fatal(err)
		}
		o := script.Play(rec.script())
		if o.Problem != nil || o.Invalid != nil {
			t.Fatalf("seed %d: %v, %v\n%s", seed, o.Problem, o.Invalid, o.Output)
		}
		if got := o.Script.Sent(); !slices.Equal(got, rec.sent) {
			t.Fatalf("seed %d: the script has sent %d packets, the run %d, or others:\n%s", seed, len(got), len(rec.sent), o.Output)
		}
		runs++
	}
	if runs < 50 {
		t.Errorf("only %d runs can be recorded", runs)
	}
}

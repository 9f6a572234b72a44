package work

import (
	"slices"
	"time"
)

const (
	// maxSteps is how many steps of time a Depth has at most.
	maxSteps = 256
	// firstStep is the shortest step. It doubles as the run gets longer.
	firstStep = time.Microsecond
)

// Step is what happened in one step of time.
type Step struct {
	Most uint64 `json:"most"`
	Last uint64 `json:"last"` // at its end
}

// Depth is how many requests were under way over time.
type Depth struct {
	Start time.Duration `json:"start"` // of the first step
	Width time.Duration `json:"width"`
	Steps []Step        `json:"steps"`
}

func (d *Depth) add(at time.Duration, n uint64) {
	if d.Width == 0 {
		d.Start, d.Width = at, firstStep
	}
	at -= d.Start
	for at/d.Width >= maxSteps {
		d.double()
	}
	i := int(max(at, 0) / d.Width)
	before := d.last()
	for len(d.Steps) <= i {
		d.Steps = append(d.Steps, Step{Most: before, Last: before})
	}
	s := &d.Steps[i]
	s.Most, s.Last = max(s.Most, n), n
}

// last returns the depth at the end.
func (d *Depth) last() uint64 {
	if len(d.Steps) == 0 {
		return 0
	}
	return d.Steps[len(d.Steps)-1].Last
}

// Until returns the depth up to the end of a run.
func (d *Depth) Until(end time.Duration) Depth {
	out := d.clone()
	end -= d.Start
	for out.last() > 0 && end/out.Width >= maxSteps {
		out.double()
	}
	for n := out.last(); n > 0 && time.Duration(len(out.Steps))*out.Width < end; {
		out.Steps = append(out.Steps, Step{Most: n, Last: n})
	}
	return out
}

// double joins each pair of steps.
func (d *Depth) double() {
	d.Width *= 2
	for i := range d.Steps {
		s := d.Steps[i]
		if i%2 == 0 {
			d.Steps[i/2] = s
			continue
		}
		t := &d.Steps[i/2]
		t.Most, t.Last = max(t.Most, s.Most), s.Last
	}
	d.Steps = d.Steps[:(len(d.Steps)+1)/2]
}

func (d *Depth) clone() Depth { return Depth{d.Start, d.Width, slices.Clone(d.Steps)} }

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Config says what to measure, and with what.
type Config struct {
	Gorxe       string   // path of the binary
	Self        []string // a command that calls Role with the arguments that follow
	Rows        []Row
	Repetitions int
	Target      time.Duration // of one measurement, without starting and ending
	Device      string        // its name; empty: rxe0
	Doorbells   string        // of the daemons' flag; empty: theirs to choose
	// directory where the daemons' segments are joined; empty: they are not
	Segment  string
	Looks    string // where the daemons record their looks; empty: nowhere
	Profiles string // directory for CPU profiles of the daemons; then nothing is compared
	Progress io.Writer
}

// run is the state of one Run.
type run struct {
	cfg       Config
	places    map[string]*place
	baselines []baseline
	udp       map[baseline]*Series
	rows      []*Result
	done, all int
}

// Run measures. It repeats all rows in turn, so other work on the machine affects all of them.
// If it returns an error and a report, some rows could not be measured. These rows have the
// reason.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	report := &Report{Machine: thisMachine(), Repetitions: cfg.Repetitions}
	dir, err := os.MkdirTemp("", "gorxe-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch
	r := &run{cfg: cfg, places: map[string]*place{}, udp: map[baseline]*Series{}}
	defer r.close()
	if report.Missing, err = r.open(ctx, dir); err != nil {
		return nil, err
	}
	r.plan()
	err = r.measure(ctx)
	report.Machine.LoadAfter = load()
	report.fill(r)
	return report, err
}

// close closes the places.
func (r *run) close() {
	for _, p := range r.places {
		if !p.oneRun {
			p.close()
		}
	}
}

// open makes the places that the rows need, and the one where calls are trapped.
func (r *run) open(ctx context.Context, dir string) (missing string, err error) {
	one, err := newOneDaemon(ctx, r.cfg, dir)
	if err != nil {
		return "", err
	}
	r.places[OneDaemon], r.places[OneRun] = one, one.inOneRun()
	for _, row := range r.cfg.Rows {
		if row.Place != TwoDaemons {
			continue
		}
		two, err := newTwoDaemons(ctx, r.cfg, dir)
		switch {
		case errors.Is(err, errNoHosts):
			return err.Error(), nil
		case err != nil:
			return "", err
		}
		r.places[TwoDaemons] = two
		break
	}
	return "", nil
}

// plan lists the measurements for which there is a place.
func (r *run) plan() {
	want := func(b baseline) {
		// Nothing but the rows shall be in a profile.
		if r.udp[b] == nil && r.cfg.Profiles == "" {
			r.udp[b] = &Series{}
			r.baselines = append(r.baselines, b)
		}
	}
	want(trapped)
	if runtime.NumCPU() > 1 {
		want(apart)
	}
	for _, row := range r.cfg.Rows {
		if r.places[row.Place] != nil {
			want(row.udp())
			want(row.library())
			for _, p := range row.leasts() {
				want(p.of)
			}
			r.rows = append(r.rows, &Result{Row: row, Name: row.Name()})
		}
	}
	r.all = r.cfg.Repetitions * (len(r.baselines) + len(r.rows))
}

func (r *run) measure(ctx context.Context) error {
	for range r.cfg.Repetitions {
		for _, b := range r.baselines {
			v, err := b.measure(ctx, r.cfg, r.places[b.place])
			if err != nil {
				return fmt.Errorf("%s: %w", b.name(), err)
			}
			r.udp[b].add(v)
			r.progress(b.name(), b.kind, v)
		}
		for _, res := range r.rows {
			if res.Failed == "" {
				r.repeat(ctx, res)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	failed := 0
	for _, res := range r.rows {
		if res.Failed != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rows could not be measured", failed, len(r.rows))
	}
	return nil
}

// repeat measures a row once more.
func (r *run) repeat(ctx context.Context, res *Result) {
	s, err := r.once(ctx, res)
	if err != nil {
		res.Failed = err.Error()
		fmt.Fprintf(r.cfg.Progress, "%s: %v\n", res.Name, err)
		return
	}
	res.add(s.figure)
	if few := res.firstTry(); res.Iterations > few {
		res.Processor.add(perMessage(res.first, s, few, res.Iterations))
	}
	r.progress(res.Name, res.Kind, s.figure)
}

func (r *run) once(ctx context.Context, res *Result) (sample, error) {
	place := r.places[res.Place]
	if res.Iterations == 0 {
		n := res.firstTry()
		for i := range firstTries {
			s, err := res.run(ctx, place, n)
			if err != nil {
				return sample{}, err
			}
			if i == 0 || s.processor < res.first.processor {
				res.first = s
			}
		}
		res.Iterations = scale(n, r.cfg.Target, res.each(res.first.figure))
	}
	return res.run(ctx, place, res.Iterations)
}

func (r Row) run(ctx context.Context, p *place, n int) (s sample, err error) {
	before, err := p.processorTime()
	if err != nil {
		return sample{}, err
	}
	out, err := p.run(ctx, r, n)
	if err != nil {
		return sample{}, err
	}
	after, err := p.processorTime()
	if err != nil {
		return sample{}, err
	}
	s.processor = after - before
	s.figure, err = r.figure(out)
	return s, err
}

// firstTries is how often the first try is made. The one that took the least processor time counts:
// the very first start of a program takes longer, and that is not the price of messages.
const firstTries = 2

// growth bounds how much longer than the first try a measurement is, because the first try may
// have been too fast by chance.
const growth = 1000

// scale is how many messages take the target time, if a try with n of them took
// each for one.
func scale(n int, target, each time.Duration) int {
	want := int(target / max(each, time.Nanosecond))
	want = min(max(want, n), n*growth)
	return (want + txDepth - 1) / txDepth * txDepth
}

func (r *run) progress(name string, k Kind, v float64) {
	r.done++
	fmt.Fprintf(r.cfg.Progress, "[%d/%d] %-36s %s %s\n", r.done, r.all, name, number(k, v), k.Unit())
}

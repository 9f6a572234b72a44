package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The curve shows what many pairs of programs get at once, on the processors that there are.

// CurvePairs are the numbers of pairs.
var CurvePairs = []int{1, 2, 4, 8, 16}

// curveRows are what each pair does.
func curveRows(place string) []Row {
	return []Row{
		{Place: place, Tool: "ib_write_bw", Kind: Messages, Size: 8, MTU: 4096},
		{Place: place, Tool: "ib_write_bw", Kind: Bandwidth, Size: 64 << 10, MTU: 4096},
		{Place: place, Tool: "ib_send_bw", Kind: Messages, Size: 8, MTU: 4096},
		{Place: place, Tool: "ib_write_lat", Kind: Latency, Size: 2, MTU: 4096},
	}
}

// Point is what so many pairs have at once. Figures are sums over the pairs; a latency is the
// median of the pairs.
type Point struct {
	Row
	Pairs   int     `json:"pairs"`
	Figure  float64 `json:"figure"`
	Library float64 `json:"library"` // the Go library, each pair with devices of its own
	UDP     float64 `json:"udp"`     // plain UDP in datagrams of the same size
	// Processors is how many processors the daemons kept busy while the programs ran, with their
	// starts and ends.
	Processors float64 `json:"processors"`
	// States are how the policy saw the programs, in parts of its looks (sched.State).
	States map[string]float64 `json:"states"`
	Failed string             `json:"failed,omitempty"`
}

// Curve measures. Each point has daemons of its own.
func Curve(ctx context.Context, cfg Config) (points []Point, machine Machine, err error) {
	machine = thisMachine()
	dir, err := os.MkdirTemp("", "gorxe-curve-")
	if err != nil {
		return nil, machine, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch
	for _, where := range []string{OneDaemon, TwoDaemons} {
		for _, r := range curveRows(where) {
			for _, n := range CurvePairs {
				p, err := curvePoint(ctx, cfg, dir, r, n)
				if errors.Is(err, errNoHosts) {
					fmt.Fprintf(cfg.Progress, "%s: %v\n", r.Name(), err)
					break
				}
				if ctx.Err() != nil {
					return points, machine, ctx.Err()
				}
				if err != nil {
					p.Failed = err.Error()
				}
				points = append(points, p)
				fmt.Fprintf(cfg.Progress, "%s, %d pairs: %.4g %s\n", r.Name(), n, p.Figure, r.Kind.Unit())
			}
		}
	}
	machine.LoadAfter = load()
	return points, machine, nil
}

func curvePoint(ctx context.Context, cfg Config, dir string, r Row, pairs int) (p Point, err error) {
	p = Point{Row: r, Pairs: pairs}
	if dir, err = os.MkdirTemp(dir, ""); err != nil {
		return p, err
	}
	cfg.Looks = filepath.Join(dir, "looks")
	open := newOneDaemon
	if r.Place == TwoDaemons {
		open = newTwoDaemons
	}
	at, err := open(ctx, cfg, dir)
	if err != nil {
		return p, err
	}
	err = p.measure(ctx, cfg, at)
	at.close() // the daemons write their looks
	if err != nil {
		return p, err
	}
	p.States, err = states(cfg.Looks)
	return p, err
}

// measure measures the programs, and then what they are compared with.
func (p *Point) measure(ctx context.Context, cfg Config, at *place) (err error) {
	if p.Figure, p.Processors, err = at.together(ctx, p.Row, p.Pairs, cfg.Target); err != nil {
		return err
	}
	if p.UDP, err = atOnce(p.Pairs, p.Kind, func(int) (float64, error) { return p.udp().measure(ctx, cfg, at) }); err != nil {
		return err
	}
	p.Library, err = atOnce(p.Pairs, p.Kind, func(i int) (float64, error) { return p.limit(ctx, cfg.Target, i) })
	return err
}

// together runs so many pairs of a row's programs at the same time.
func (p *place) together(ctx context.Context, r Row, pairs int, span time.Duration) (figure, processors float64, err error) {
	ports := make([]int, 0, pairs)
	for len(ports) < pairs {
		if port := p.port(); !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	before, err := p.processorTime()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	figure, err = atOnce(pairs, r.Kind, func(i int) (float64, error) {
		o, err := p.pair(ctx, ports[i], append([]string{r.Tool, "-p", strconv.Itoa(ports[i])}, r.argsFor(span, pairs)...))
		if err != nil {
			return 0, err
		}
		return r.figure(o)
	})
	took := time.Since(began)
	after, clockErr := p.processorTime()
	return figure, (after - before).Seconds() / took.Seconds(), errors.Join(err, clockErr)
}

// Round trips of a latency, because perftest prints no median for a time. Many pairs that poll
// share the processors, so each of them has fewer.
const (
	latencyRounds = 10_000 // of all pairs
	leastRounds   = 500    // of each
)

// argsFor are the arguments of perftest for a measurement of so long, beside so many pairs in all.
func (r Row) argsFor(span time.Duration, pairs int) []string {
	if r.Kind == Latency {
		return r.args(max(latencyRounds/pairs, leastRounds))
	}
	args := r.args(0)
	at := slices.Index(args, "-n")
	args[at], args[at+1] = "-D", strconv.Itoa(max(int(span.Seconds()), 1))
	return slices.DeleteFunc(args, func(a string) bool { return a == "-N" }) // -D means it
}

// atOnce calls measure so many times at once. It returns the sum of the figures, or their median if
// they are latencies.
func atOnce(n int, k Kind, measure func(int) (float64, error)) (float64, error) {
	figures, errs := make([]float64, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { figures[i], errs[i] = measure(i) })
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return 0, err
	}
	if k == Latency {
		slices.Sort(figures)
		return (figures[(n-1)/2] + figures[n/2]) / 2, nil
	}
	sum := 0.0
	for _, f := range figures {
		sum += f
	}
	return sum, nil
}

// PrintCurve prints a table for each row.
func PrintCurve(w io.Writer, m Machine, points []Point) {
	fmt.Fprintf(w, "%d processors, %s, Linux %s. Load %.1f before, %.1f after.\n", m.CPUs, m.Arch, m.Kernel, m.LoadBefore, m.LoadAfter)
	for i, p := range points {
		if i == 0 || p.Row != points[i-1].Row {
			fmt.Fprintf(w, "\n%s, %s\n%5s  %12s  %12s  %12s  %10s  %s\n", p.Name(), p.Kind.Unit(),
				"pairs", "gorxe", "Go library", "plain UDP", "processors", "the policy saw")
		}
		if p.Failed != "" {
			fmt.Fprintf(w, "%5d  failed: %s\n", p.Pairs, p.Failed)
			continue
		}
		fmt.Fprintf(w, "%5d  %12.4g  %12.4g  %12.4g  %10.2f  %s\n", p.Pairs, p.Figure, p.Library, p.UDP, p.Processors, shares(p.States))
	}
}

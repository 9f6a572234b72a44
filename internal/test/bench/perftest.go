package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Outcome is the line of figures that one of perftest's programs prints.
type Outcome struct {
	Size, Iterations int

	// Of the _bw programs.
	Average float64 // MiB/s
	Rate    float64 // messages/s

	// Of the _lat programs, µs.
	Typical, P99 float64
}

// The titles of perftest's tables, without the spaces between them, which vary. Releases before
// 25.01 write MB for MiB.
const (
	bwTitles  = "#bytes#iterationsBWpeak[MiB/sec]BWaverage[MiB/sec]MsgRate[Mpps]"
	latTitles = "#bytes#iterationst_min[usec]t_max[usec]t_typical[usec]t_avg[usec]t_stdev[usec]99%percentile[usec]99.9%percentile[usec]"
)

var errNoFigures = errors.New("no figures in the program's output")

// Parse reads the output of a perftest program that ran with one message size
// and a number of iterations.
func Parse(output string) (Outcome, error) {
	titles := ""
	for line := range strings.Lines(output) {
		switch packed := strings.ReplaceAll(strings.Join(strings.Fields(line), ""), "MB/sec", "MiB/sec"); {
		case packed == bwTitles, packed == latTitles:
			titles = packed
		case strings.HasPrefix(packed, "#bytes"):
			return Outcome{}, fmt.Errorf("unknown table: %s", strings.TrimSpace(line))
		case titles != "":
			v, err := numbers(line)
			if err != nil {
				continue // a warning between the titles and the figures
			}
			return outcome(titles, v)
		}
	}
	return Outcome{}, errNoFigures
}

// numbers are the figures of a line. None is negative, but the deviation of
// latencies sometimes is "-nan".
func numbers(line string) ([]float64, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil, errNoFigures
	}
	v := make([]float64, len(fields))
	for i, f := range fields {
		var err error
		if v[i], err = strconv.ParseFloat(strings.TrimPrefix(f, "-"), 64); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func outcome(titles string, v []float64) (Outcome, error) {
	switch {
	case titles == bwTitles && len(v) == 5:
		return Outcome{Size: int(v[0]), Iterations: int(v[1]), Average: v[3], Rate: v[4] * 1e6}, nil
	case titles == latTitles && len(v) == 9:
		return Outcome{Size: int(v[0]), Iterations: int(v[1]), Typical: v[4], P99: v[7]}, nil
	}
	return Outcome{}, fmt.Errorf("%d figures under titles for others: %v", len(v), v)
}

// figure is the row's figure in its unit. Bandwidth comes from the rate of
// messages, which has more digits than the average.
func (r Row) figure(o Outcome) (float64, error) {
	if o.Size != r.Size {
		return 0, fmt.Errorf("figures for messages of %d bytes, not %d", o.Size, r.Size)
	}
	v := 0.0
	switch r.Kind {
	case Bandwidth:
		v = o.Rate * float64(o.Size) / (1 << 30)
	case Latency:
		v = o.Typical
	default:
		v = o.Rate
	}
	if v <= 0 {
		return 0, fmt.Errorf("nothing measured: %+v", o)
	}
	return v, nil
}

// each is how long one message of a figure takes: a half round trip, or its share
// of a stream.
func (r Row) each(v float64) time.Duration {
	seconds := 0.0
	switch r.Kind {
	case Bandwidth:
		seconds = float64(r.Size) / (v * (1 << 30))
	case Messages:
		seconds = 1 / v
	default:
		seconds = v / 1e6
	}
	return time.Duration(seconds * float64(time.Second))
}

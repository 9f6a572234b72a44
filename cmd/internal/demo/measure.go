package demo

import (
	"context"
	"slices"
	"time"

	"github.com/gorxe/gorxe/verbsapi"
)

const (
	latencySize = 8 // the largest message whose latency is measured, bytes

	// bytesUnderWay is how much a bandwidth measurement keeps posted, in messages
	// of its size, but never less than two.
	bytesUnderWay = 4 << 20
)

// measure prints one table of bandwidth and one of latency.
func measure(ctx context.Context, p *pair, cfg *Config, r *reporter) error {
	ops := []struct {
		name string
		op   verbsapi.WROpcode
	}{
		{"SEND", verbsapi.WRSend},
		{"RDMA WRITE", verbsapi.WRWrite},
		{"RDMA READ", verbsapi.WRRead},
	}
	var speeds []bandwidth
	for _, size := range cfg.Sizes {
		for _, op := range ops {
			r.progress("measuring %s of %s", op.name, sizeString(size))
			b, err := measureBandwidth(ctx, p, op.op, size, cfg.Duration)
			if err != nil {
				return err
			}
			b.name = op.name
			speeds = append(speeds, b)
		}
	}
	latencies := []struct {
		name string
		op   verbsapi.WROpcode
		size int
	}{
		{"SEND, half a round trip", verbsapi.WRSend, 2},
		{"RDMA WRITE, to its completion", verbsapi.WRWrite, 2},
		{"RDMA READ, to its completion", verbsapi.WRRead, 2},
		{"FETCH AND ADD, to its completion", verbsapi.WRFetchAdd, 8},
	}
	var delays []latency
	for _, l := range latencies {
		r.progress("measuring latency: %s", l.name)
		once := func() error { return complete(ctx, p, p.a.request(l.op, l.size, p.b)) }
		trips := 1
		if l.op == verbsapi.WRSend {
			once, trips = func() error { return pingPong(ctx, p, l.size) }, 2
		}
		d, err := measureLatency(once, trips, cfg.Duration)
		if err != nil {
			return err
		}
		d.name, d.size = l.name, l.size
		delays = append(delays, d)
	}
	r.tables(speeds, delays)
	return nil
}

// bandwidth is the result of a throughput measurement.
type bandwidth struct {
	name     string
	size     int // bytes per message
	messages int
	elapsed  time.Duration
}

// measureBandwidth keeps a window of messages under way for the duration, from
// one goroutine, and compares the data at the end.
func measureBandwidth(ctx context.Context, p *pair, op verbsapi.WROpcode, size int, d time.Duration) (bandwidth, error) {
	src, dst := p.a, p.b
	if op == verbsapi.WRRead {
		src, dst = p.b, p.a
	}
	fill(src.mr.Bytes()[:size], uint64(op)+1)
	clear(dst.mr.Bytes()[:size])

	window := min(max(bytesUnderWay/size, 2), queueDepth/2)
	wr := p.a.request(op, size, p.b)
	batch := make([]verbsapi.SendWR, window)
	for i := range batch {
		batch[i] = wr
	}
	b := bandwidth{size: size}
	start := time.Now()
	for posted, more := 0, true; more || b.messages < posted; {
		if n := window - (posted - b.messages); more && n > 0 {
			if err := p.postBatch(batch[:n]); err != nil {
				return b, err
			}
			posted += n
		}
		wcs, err := p.a.wait(ctx, p.a.send, window)
		if err != nil {
			return b, err
		}
		b.messages += len(wcs)
		if op == verbsapi.WRSend {
			if err := p.b.drain(ctx, len(wcs)); err != nil {
				return b, err
			}
		}
		more = time.Since(start) < d
	}
	b.elapsed = time.Since(start)
	return b, compare("the destination", dst.mr.Bytes()[:size], src.mr.Bytes()[:size])
}

// postBatch posts requests on side a, and the receives that they will take
// first, so that no SEND finds the receive queue empty.
func (p *pair) postBatch(wrs []verbsapi.SendWR) error {
	if wrs[0].Op == verbsapi.WRSend {
		for range wrs {
			if err := p.b.postRecv(int(wrs[0].SGL[0].Length)); err != nil {
				return err
			}
		}
	}
	_, err := p.a.qp.PostSend(wrs)
	return err
}

// drain takes n completions from the receive queue.
func (s *side) drain(ctx context.Context, n int) error {
	for n > 0 {
		wcs, err := s.wait(ctx, s.recv, n)
		if err != nil {
			return err
		}
		n -= len(wcs)
	}
	return nil
}

// pingPong sends size bytes from a to b and back.
func pingPong(ctx context.Context, p *pair, size int) error {
	for _, dir := range []pair{{p.a, p.b}, {p.b, p.a}} {
		if err := dir.b.postRecv(size); err != nil {
			return err
		}
		if err := dir.a.post(dir.a.request(verbsapi.WRSend, size, dir.b)); err != nil {
			return err
		}
		if _, err := dir.b.wait(ctx, dir.b.recv, 1); err != nil {
			return err
		}
	}
	// The acknowledgements are under way at most one round trip longer.
	for _, s := range []*side{p.a, p.b} {
		if _, err := s.wait(ctx, s.send, 1); err != nil {
			return err
		}
	}
	return nil
}

// latency is the result of a latency measurement.
type latency struct {
	name        string
	size        int // bytes
	samples     int
	median, p99 time.Duration
}

// measureLatency repeats once, which makes the given number of trips, for the
// duration.
func measureLatency(once func() error, trips int, d time.Duration) (latency, error) {
	var samples []time.Duration
	for start := time.Now(); time.Since(start) < d || len(samples) == 0; {
		before := time.Now()
		if err := once(); err != nil {
			return latency{}, err
		}
		samples = append(samples, time.Since(before)/time.Duration(trips))
	}
	slices.Sort(samples)
	return latency{
		samples: len(samples),
		median:  samples[len(samples)/2],
		p99:     samples[len(samples)*99/100],
	}, nil
}

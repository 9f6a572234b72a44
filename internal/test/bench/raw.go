package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Raw compares frames of raw packet queue pairs with those of plain sockets.

// RawSizes are the sizes of frames: the shortest of perftest, and what an MTU of 1500 allows.
var RawSizes = []int{64, 1514}

// RawResult is one line of the table, for one size.
type RawResult struct {
	What    string `json:"what"`
	Size    int    `json:"size"`
	Sent    Series `json:"sent"`    // frames/s
	Arrived Series `json:"arrived"` // of them, 1 for all
	// µs of gorxe's daemons, or of both sockets' threads, for a frame that arrives
	Processor Series `json:"processor"`
	Failed    string `json:"failed,omitempty"`
}

// rawSample is one measurement.
type rawSample struct{ sent, arrived, processor float64 }

// rawWay is one way of frames.
type rawWay struct {
	what    string
	measure func(ctx context.Context, cfg Config, size int) (rawSample, error)
	close   func()
}

// Raw measures all ways in turn.
func Raw(ctx context.Context, cfg Config) (results []*RawResult, machine Machine, err error) {
	machine = thisMachine()
	dir, err := os.MkdirTemp("", "gorxe-raw-")
	if err != nil {
		return nil, machine, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch
	ways, err := rawWays(ctx, cfg, dir)
	for _, w := range ways {
		defer w.close()
	}
	if err != nil {
		return nil, machine, err
	}
	for _, size := range RawSizes {
		for _, w := range ways {
			results = append(results, &RawResult{What: w.what, Size: size})
		}
	}
	for range cfg.Repetitions {
		for i, res := range results {
			if res.Failed != "" {
				continue
			}
			s, err := ways[i%len(ways)].measure(ctx, cfg, res.Size)
			if ctx.Err() != nil {
				return results, machine, ctx.Err()
			}
			if err != nil {
				res.Failed = err.Error()
				fmt.Fprintf(cfg.Progress, "%s, %d bytes: %v\n", res.What, res.Size, err)
				continue
			}
			res.Sent.add(s.sent)
			res.Arrived.add(s.arrived)
			res.Processor.add(s.processor)
			fmt.Fprintf(cfg.Progress, "%s, %d bytes: %.0f frames/s, %.0f%% arrive, %.2f µs\n", res.What, res.Size, s.sent, 100*s.arrived, s.processor)
		}
	}
	machine.LoadAfter = load()
	return results, machine, nil
}

func rawWays(ctx context.Context, cfg Config, dir string) (ways []rawWay, err error) {
	cfg.Device = "mlx5_0"
	one, err := newOneDaemon(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	ways = append(ways, one.rawWay("raw_ethernet_bw, one daemon", nil))
	at, err := newTwoDaemons(ctx, cfg, dir)
	if err != nil {
		return ways, err
	}
	ways = append(ways, at.rawWay("raw_ethernet_bw, two daemons, veth", nil))
	joined := filepath.Join(dir, "joined")
	if err := os.Mkdir(joined, 0o700); err != nil {
		return ways, err
	}
	cfg.Segment, cfg.Profiles = filepath.Join(dir, "segment"), "" // whose names others have
	two, err := newTwoDaemons(ctx, cfg, joined)
	if err != nil {
		return ways, err
	}
	without := []string{"setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"}
	ways = append(ways, two.rawWay("raw_ethernet_bw, two daemons, joined segments", without))
	hosts, err := newSocketHosts()
	if err != nil {
		return ways, err
	}
	for _, kind := range []struct {
		what string
		open openSocket
	}{{"packet sockets, veth", openPacket}, {"UDP sockets, veth", openUDP}} {
		ways = append(ways, rawWay{kind.what, func(_ context.Context, cfg Config, size int) (rawSample, error) {
			return hosts.flood(kind.open, size, cfg.Target)
		}, func() {}})
	}
	ways[len(ways)-1].close = hosts.close
	return ways, nil
}

const rawServer, rawClient = "02:00:00:00:00:02", "02:00:00:00:00:01"

// rawWay has perftest's programs in a place send frames, with what is before their commands.
func (p *place) rawWay(what string, under []string) rawWay {
	return rawWay{what, func(ctx context.Context, cfg Config, size int) (rawSample, error) {
		return p.rawFlood(ctx, cfg, size, under)
	}, p.close}
}

func (p *place) rawFlood(ctx context.Context, cfg Config, size int, under []string) (s rawSample, err error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	stop, err := p.rawReceiver(ctx, size, under)
	if err != nil {
		return s, err
	}
	defer stop()
	row := Row{Tool: "raw_ethernet_bw", Kind: Messages, Size: size}
	run := func(n int) (t rawTotals, rate float64, err error) {
		argv := slices.Concat(under, []string{row.Tool, "-d", p.client.device, "-s", strconv.Itoa(size), "-n", strconv.Itoa(n), "-N", "--client", "-B", rawClient, "-E", rawServer})
		before, err := p.rawTotals(ctx)
		if err != nil {
			return t, 0, err
		}
		client, err := launch(ctx, p.client, argv...)
		if err != nil {
			return t, 0, err
		}
		if err := client.wait(); err != nil {
			return t, 0, err
		}
		out, err := client.outcome()
		if err != nil {
			return t, 0, err
		}
		after, err := p.rawTotals(ctx)
		return rawTotals{after.sent - before.sent, after.arrived - before.arrived, after.processor - before.processor}, out.Rate, err
	}
	few := row.firstTry()
	first, rate, err := run(few)
	if err != nil {
		return s, err
	}
	many, rate, err := run(scale(few, cfg.Target, row.each(rate)))
	if err != nil {
		return s, err
	}
	s.sent, s.arrived = rate, float64(many.arrived)/float64(many.sent)
	s.processor = float64((many.processor - first.processor).Nanoseconds()) / 1e3 / float64(max(int64(many.arrived-first.arrived), 1))
	return s, nil
}

// rawReceiver starts the program that receives, and returns when it has its flow rule.
func (p *place) rawReceiver(ctx context.Context, size int, under []string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	argv := slices.Concat([]string{"run", "--"}, under, []string{"stdbuf", "-oL", "raw_ethernet_bw", "-d", p.server.device, "-s", strconv.Itoa(size), "-D", "600", "--server", "-B", rawServer, "-E", rawClient})
	cmd := p.server.command(ctx, argv...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = p.server.host.Do(cmd.Start)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	stop = func() {
		cancel()
		cmd.Wait() //nolint:errcheck // it was ended
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "MAC attached") {
			go io.Copy(io.Discard, out) //nolint:errcheck // until it ends
			return stop, nil
		}
	}
	stop()
	return nil, fmt.Errorf("raw_ethernet_bw does not begin: %w", lines.Err())
}

// rawTotals is what a place has done so far.
type rawTotals struct {
	sent, arrived uint64
	processor     time.Duration
}

func (p *place) rawTotals(ctx context.Context) (t rawTotals, err error) {
	if t.sent, err = p.client.counter(ctx, "raw_sent_frames"); err != nil {
		return t, err
	}
	if t.arrived, err = p.server.counter(ctx, "raw_rcvd_frames"); err != nil {
		return t, err
	}
	t.processor, err = p.processorTime()
	return t, err
}

// counter reads a counter of the daemon's device.
func (d *daemon) counter(ctx context.Context, name string) (uint64, error) {
	var status struct {
		Devices []struct {
			Counters map[string]uint64 `json:"counters"`
		} `json:"devices"`
	}
	text, err := d.command(ctx, "status", "--json").Output()
	if err != nil {
		return 0, fmt.Errorf("gorxe status: %w", err)
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("gorxe status: %w", err)
	}
	if len(status.Devices) == 0 {
		return 0, fmt.Errorf("gorxe status has no device")
	}
	return status.Devices[0].Counters[name], nil
}

// PrintRaw prints a table of Markdown.
func PrintRaw(w io.Writer, m Machine, results []*RawResult) {
	fmt.Fprintf(w, "%d processors, %s, Linux %s. Load %.1f before, %.1f after.\n\n", m.CPUs, m.Arch, m.Kernel, m.LoadBefore, m.LoadAfter)
	fmt.Fprint(w, "| frames | bytes | sent, 1,000/s | arrive | processor, one that arrives |\n|---|--:|--:|--:|--:|\n")
	for _, r := range results {
		if r.Failed != "" || len(r.Sent.Samples) == 0 {
			fmt.Fprintf(w, "| %s | %d | failed | | |\n", r.What, r.Size)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %.0f (%.0f to %.0f) | %.0f %% | %.1f µs (%.1f to %.1f) |\n", r.What, r.Size, r.Sent.Median/1e3, r.Sent.Low/1e3, r.Sent.High/1e3,
			100*r.Arrived.Median, r.Processor.Median, r.Processor.Low, r.Processor.High)
	}
}

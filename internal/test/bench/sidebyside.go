package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// devices are what SideBySide compares.
var devices = []string{deviceName, "mlx5_0"}

// SideRows are what SideBySide measures: what programs wait for, and how much they send.
func SideRows() (rows []Row) {
	for _, place := range []string{OneRun, OneDaemon, TwoDaemons} {
		rows = append(rows,
			Row{Place: place, Tool: "ib_write_lat", Kind: Latency, Size: 2, MTU: 4096},
			Row{Place: place, Tool: "ib_send_lat", Kind: Latency, Size: 2, MTU: 4096},
			Row{Place: place, Tool: "ib_read_lat", Kind: Latency, Size: 8, MTU: 4096},
			Row{Place: place, Tool: atomicLat, Kind: Latency, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_write_bw", Kind: Messages, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_send_bw", Kind: Messages, Size: 8, MTU: 4096},
			Row{Place: place, Tool: "ib_write_bw", Kind: Bandwidth, Size: 64 << 10, MTU: 4096},
		)
	}
	return rows
}

// SideBySide measures the rows with rxe0 and with mlx5_0, which take turns. It returns the results
// of each device in the order of the rows. Those of a row without a place have no figure.
func SideBySide(ctx context.Context, cfg Config) (results [][]*Result, machine Machine, err error) {
	machine = thisMachine()
	runs := make([]*run, 0, len(devices))
	defer func() {
		for _, r := range runs {
			r.close()
		}
	}()
	for _, device := range devices {
		dir, err := os.MkdirTemp("", "gorxe-bench-")
		if err != nil {
			return nil, machine, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // scratch
		cfg.Device = device
		r := &run{cfg: cfg, places: map[string]*place{}, all: cfg.Repetitions * len(cfg.Rows)}
		runs = append(runs, r)
		missing, err := r.open(ctx, dir)
		if err != nil {
			return nil, machine, err
		}
		for _, row := range cfg.Rows {
			res := &Result{Row: row, Name: row.Name() + "/" + device}
			if r.places[row.Place] == nil {
				res.Failed = missing
			}
			r.rows = append(r.rows, res)
		}
		results = append(results, r.rows)
	}
	for range cfg.Repetitions {
		for i := range cfg.Rows {
			for _, r := range runs {
				if r.rows[i].Failed == "" {
					r.repeat(ctx, r.rows[i])
				}
				if err := ctx.Err(); err != nil {
					return results, machine, err
				}
			}
		}
	}
	machine.LoadAfter = load()
	return results, machine, nil
}

// PrintSideBySide prints a table of Markdown.
func PrintSideBySide(w io.Writer, m Machine, results [][]*Result) {
	fmt.Fprintf(w, "%d processors, %s, Linux %s. Load %.1f before, %.1f after.\n\n", m.CPUs, m.Arch, m.Kernel, m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(w, "| programs | what | %s | daemon, a message: %s |\n|---|---|%s\n", strings.Join(devices, " | "), strings.Join(devices, " | "),
		strings.Repeat("--:|", 2*len(devices)))
	for i, first := range results[0] {
		fmt.Fprintf(w, "| %s | `%s`, %s |", first.Place, first.what(), first.Kind.Unit())
		for _, list := range results {
			fmt.Fprintf(w, " %s |", list[i].beside(list[i].Kind, &list[i].Series))
		}
		for _, list := range results {
			fmt.Fprintf(w, " %s |", list[i].beside(Processor, &list[i].Processor))
		}
		fmt.Fprintln(w)
	}
}

// beside is the median, with its range in more than one repetition.
func (r *Result) beside(k Kind, s *Series) string {
	switch {
	case r.Failed != "":
		return "failed"
	case len(s.Samples) == 0:
		return "-"
	case len(s.Samples) == 1:
		return number(k, s.Median)
	default:
		return fmt.Sprintf("%s (%s to %s)", number(k, s.Median), number(k, s.Low), number(k, s.High))
	}
}

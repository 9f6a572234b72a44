// Command bench measures stock RDMA programs under gorxe run, beside plain UDP, the Go
// library, a trapped call, and what system calls take at least. It prints one table: see
// package bench. Progress goes to standard error.
//
// usage: go run ./scripts/bench [flags]
//
//	-rows REGEXP     only the rows whose names match, as one/ib_write_bw/64KiB/mtu4096
//	-list            print the names of the rows, and measure nothing
//	-n 3             repetitions
//	-time 1s         how long one measurement takes, without its preparation
//	-json            print the report as JSON
//	-profiles DIR    write CPU profiles of the daemons there, for go tool pprof, and
//	                 run nothing but the rows
//	-doorbells WHICH trapped or direct: gorxe daemon --help
//	-gorxe PATH      measure this binary instead of building one
//	-both            measure rxe0 and mlx5_0 in turn, and print a table for docs/connectx.md
//	-raw             measure Ethernet frames of raw packet queue pairs and of plain sockets, and
//	                 print a table for docs/connectx.md
//	-curve           measure 1 to 16 pairs of programs at once, and nothing else (make cores)
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/test/bench"
)

func main() {
	err := bench.Role(os.Args[1:])
	if errors.Is(err, bench.ErrNoRole) {
		err = measure()
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	os.Exit(1)
}

func measure() error {
	names := flag.String("rows", "", "measure only the rows whose names match this regular `expression`")
	list := flag.Bool("list", false, "print the names of the rows")
	repetitions := flag.Int("n", 3, "repetitions")
	target := flag.Duration("time", time.Second, "how long one measurement takes")
	asJSON := flag.Bool("json", false, "print JSON")
	profiles := flag.String("profiles", "", "`directory` for CPU profiles of the daemons")
	doorbells := flag.String("doorbells", "", "`which` doorbells of programs are trapped: trapped or direct")
	curve := flag.Bool("curve", false, "measure 1 to 16 pairs of programs at once")
	both := flag.Bool("both", false, "measure rxe0 and mlx5_0 in turn")
	raw := flag.Bool("raw", false, "measure Ethernet frames of raw packet queue pairs and of plain sockets")
	gorxe := flag.String("gorxe", "", "`path` of the binary; one is built otherwise")
	flag.Parse()

	want, err := regexp.Compile(*names)
	if err != nil {
		return err
	}
	rows, measured := bench.Rows(), printRows
	if *both {
		rows, measured = bench.SideRows(), printBoth
	}
	cfg := bench.Config{
		Gorxe: *gorxe, Rows: bench.Select(rows, want), Repetitions: *repetitions,
		Target: *target, Doorbells: *doorbells, Profiles: *profiles, Progress: os.Stderr,
	}
	switch {
	case *curve:
		return withBinary(cfg, func(ctx context.Context, cfg bench.Config) error { return printCurve(ctx, cfg, *asJSON) })
	case *raw:
		return withBinary(cfg, func(ctx context.Context, cfg bench.Config) error { return printRaw(ctx, cfg, *asJSON) })
	case len(cfg.Rows) == 0:
		return fmt.Errorf("no row matches %q; -list shows all", *names)
	case cfg.Repetitions < 1:
		return errors.New("-n must be at least 1")
	case *list:
		for _, r := range cfg.Rows {
			fmt.Println(r.Name())
		}
		return nil
	}
	return withBinary(cfg, func(ctx context.Context, cfg bench.Config) error { return measured(ctx, cfg, *asJSON) })
}

// printRows measures the rows.
func printRows(ctx context.Context, cfg bench.Config, asJSON bool) error {
	rep, err := bench.Run(ctx, cfg)
	if rep == nil {
		return err
	}
	if asJSON {
		return errors.Join(err, printJSON(rep))
	}
	rep.Print(os.Stdout)
	return err
}

// printBoth measures them with each kind of device.
func printBoth(ctx context.Context, cfg bench.Config, asJSON bool) error {
	results, machine, err := bench.SideBySide(ctx, cfg)
	if results == nil {
		return err
	}
	if asJSON {
		return errors.Join(err, printJSON(results))
	}
	bench.PrintSideBySide(os.Stdout, machine, results)
	return err
}

func printJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printCurve measures many pairs at once.
func printCurve(ctx context.Context, cfg bench.Config, asJSON bool) error {
	points, machine, err := bench.Curve(ctx, cfg)
	if asJSON {
		return errors.Join(err, printJSON(points))
	}
	bench.PrintCurve(os.Stdout, machine, points)
	return err
}

// printRaw measures frames.
func printRaw(ctx context.Context, cfg bench.Config, asJSON bool) error {
	results, machine, err := bench.Raw(ctx, cfg)
	if results == nil {
		return err
	}
	if asJSON {
		return errors.Join(err, printJSON(results))
	}
	bench.PrintRaw(os.Stdout, machine, results)
	return err
}

// withBinary calls do with a binary of gorxe, which it builds if none is given.
func withBinary(cfg bench.Config, do func(context.Context, bench.Config) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self}
	if cfg.Gorxe == "" {
		dir, err := os.MkdirTemp("", "gorxe-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // scratch
		cfg.Gorxe = filepath.Join(dir, "gorxe")
		build := exec.Command("go", "build", "-trimpath", "-o", cfg.Gorxe, "github.com/gorxe/gorxe/cmd/gorxe")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go build cmd/gorxe: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return do(ctx, cfg)
}

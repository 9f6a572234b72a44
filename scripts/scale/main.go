// Command scale measures what idle pods cost. A pod here is `gorxe run --private` with a program,
// in a network namespace of its own: three processes of gorxe beside the program. It needs root, or
// the right to make user namespaces. docs/scale.md has its table.
//
// usage: go run ./scripts/scale [-pods 1,10,100] [-for 10s] [-gorxe PATH] [program and arguments]
//
// The program is sleep, unless one is given. `ibv_rc_pingpong -d rxe0 -g 1` opens the device, makes
// a queue pair, and waits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := measure(); err != nil {
		fmt.Fprintf(os.Stderr, "scale: %v\n", err)
		os.Exit(1)
	}
}

func measure() error {
	list := flag.String("pods", "1,10,100", "`numbers` of pods, measured one after another")
	window := flag.Duration("for", 10*time.Second, "how long wake-ups and processor time are counted")
	gorxe := flag.String("gorxe", "", "`path` of the binary; one is built otherwise")
	flag.Parse()
	program := flag.Args()
	if len(program) == 0 {
		program = []string{"sleep", "infinity"}
	}
	var numbers []int
	for s := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-pods: %q is not a number from 1 on", s)
		}
		numbers = append(numbers, n)
	}
	if *window <= 0 {
		return errors.New("-for must be more than 0")
	}
	if *gorxe == "" {
		dir, err := os.MkdirTemp("", "gorxe-scale-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // scratch
		*gorxe = filepath.Join(dir, "gorxe")
		build := exec.Command("go", "build", "-trimpath", "-o", *gorxe, "github.com/gorxe/gorxe/cmd/gorxe")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go build cmd/gorxe: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Println(header)
	for _, n := range numbers {
		r, err := measurePods(ctx, n, *gorxe, program, *window)
		if err != nil {
			return fmt.Errorf("%d pods: %w", n, err)
		}
		fmt.Println(r)
	}
	return nil
}

// result is what pods cost.
type result struct {
	pods          int
	start, window time.Duration
	usage         usage // at the end of the window
	switches      int64 // within the window
	processor     time.Duration
}

const header = `| pods | start of all, s | for each: memory, MiB | threads | descriptors | inotify | wake-ups/s | processor, % |
|---|---|---|---|---|---|---|---|`

func (r *result) String() string {
	n, seconds := float64(r.pods), r.window.Seconds()
	return fmt.Sprintf("| %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f | %.4f |", r.pods, r.start.Seconds(),
		float64(r.usage.memory)/n/(1<<20), float64(r.usage.threads)/n, float64(r.usage.descriptors)/n, float64(r.usage.inotify)/n,
		float64(r.switches)/n/seconds, 100*r.processor.Seconds()/n/seconds)
}

// settle is how long pods are left alone before the window: the daemons' runtimes give back memory,
// and their threads go to sleep.
const settle = 5 * time.Second

func measurePods(ctx context.Context, n int, gorxe string, program []string, window time.Duration) (r *result, err error) {
	r = &result{pods: n, window: window}
	var pods []*pod
	defer func() {
		for _, p := range pods {
			err = errors.Join(err, p.stop())
		}
	}()
	began := time.Now()
	for range n {
		p, err := startPod(ctx, gorxe, program)
		if err != nil {
			return nil, err
		}
		pods = append(pods, p)
	}
	r.start = time.Since(began)
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	before, err := usageOf(pods)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, window); err != nil {
		return nil, err
	}
	r.usage, err = usageOf(pods)
	r.switches, r.processor = r.usage.switches-before.switches, r.usage.processor-before.processor
	return r, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

package sim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/seeds"
)

// runWorld makes one run and returns what went wrong.
func runWorld(p params) (*world, error) { return runWorldWith(p, func(*world) {}) }

// runWorldWith is runWorld with a setup of the world before it begins.
func runWorldWith(p params, setup func(*world)) (w *world, err error) {
	err = seeds.Run(func() {
		w = newWorld(p)
		setup(w)
		w.run()
	})
	if err == nil {
		err = w.trace.err
	}
	return w, err
}

// runParams is runWorld without returning the world.
func runParams(p params) (stats runStats, sum uint64, err error) {
	w, err := runWorld(p)
	if w == nil {
		return stats, 0, err
	}
	return w.stats, w.checksum(), err
}

func seedCount(t testing.TB) int {
	few := uint64(2000)
	if race.Enabled {
		few = 300
	}
	return int(seeds.Number(t, "GORXE_SEEDS", few))
}

func seedFirst(t testing.TB) uint64 { return seeds.Number(t, "GORXE_SEED_FIRST", 1) }

// seedForce returns what GORXE_SEEDS_WITH asks of every seed: "chaos", "marks" (ECN), or both with
// a comma.
func seedForce(t testing.TB) func(*params) {
	var force []func(*params)
	for _, name := range strings.FieldsFunc(os.Getenv("GORXE_SEEDS_WITH"), func(r rune) bool { return r == ',' }) {
		switch name {
		case "chaos":
			force = append(force, func(p *params) { p.chaos = true })
		case "marks":
			force = append(force, func(p *params) { p.net.Mark = 0.1 })
		default:
			t.Fatalf("GORXE_SEEDS_WITH=%q: %q is neither chaos nor marks", os.Getenv("GORXE_SEEDS_WITH"), name)
		}
	}
	return func(p *params) {
		for _, f := range force {
			f(p)
		}
	}
}

// scaleOf returns how long the messages of a seed's run are.
func scaleOf(seed uint64) scale {
	switch {
	case seed%211 == 0:
		return bigMessages
	case seed%31 == 0:
		return longMessages
	default:
		return shortMessages
	}
}

// TestSeeds runs random traffic under random faults: GORXE_SEEDS runs, from seed
// GORXE_SEED_FIRST on. Every 50th is run twice, and must be the same bit for bit.
func TestSeeds(t *testing.T) {
	n, first, force := seedCount(t), seedFirst(t), seedForce(t)
	var total runStats
	var errs []error
	var failed []uint64
	exceeded := 0
	progress := time.Now()
	for i := range n {
		seed := first + uint64(i)
		p := drawParams(seed, scaleOf(seed))
		force(&p)
		stats, sum, err := runParams(p)
		if err == nil && seed%50 == 0 {
			if _, again, _ := runParams(p); again != sum {
				err = fmt.Errorf("second run differs: checksum %x, then %x", sum, again)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %d: %w", seed, err))
			failed = append(failed, seed)
			if len(errs) >= 20 {
				break
			}
		}
		total.add(stats)
		if stats.retryExceeded > 0 {
			exceeded++
		}
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			fmt.Printf("sim: %d of %d seeds, %d failed\n", i+1, n, len(errs))
		}
	}
	t.Logf("%d seeds: %+v; %d with retries exceeded", n, total, exceeded)
	if exceeded*50 > n+50 {
		t.Errorf("%d of %d runs ended in RETRY_EXC: the faults are too hard to prove anything", exceeded, n)
	}
	if len(failed) > 0 {
		t.Log(shrinkSeeds(failed, force))
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%v\nto repeat one: GORXE_SEED_FIRST=<seed> GORXE_SEEDS=1 go test ./rxe/sim -run TestSeeds", err)
	}
}

// TestSeedDelayedDuplicates repeats a run that loses nothing, but duplicates a fifth
// of all packets and delays the copies. Such copies of READ requests had the
// responder send data that the requester had, slower and slower, until the latest
// READ exceeded its retries.
func TestSeedDelayedDuplicates(t *testing.T) {
	const seed = 10216198
	p := drawParams(seed, scaleOf(seed))
	if p.lossy() {
		t.Fatalf("the run is no longer without loss: %+v", p.net)
	}
	if _, _, err := runParams(p); err != nil {
		t.Error(err)
	}
}

// TestSeedRefillOfFailed repeats a run whose receive queue was refilled without end: its QP failed
// between two refills that take no time.
func TestSeedRefillOfFailed(t *testing.T) {
	p := drawParams(70419, scaleOf(70419))
	p.net.Mark = 0.1
	p.giveUpAfter(2)
	stats, _, err := runParams(p)
	if err != nil || stats.retryExceeded == 0 {
		t.Errorf("%+v, %v: the run no longer exceeds its retries, or fails", stats, err)
	}
}

// TestSeedSilent repeats a run in which a program takes a QP to ERR whose last request, an
// unsignaled one, has succeeded. It does not complete.
func TestSeedSilent(t *testing.T) {
	p := drawParams(40079028, scaleOf(40079028))
	p.giveUpAfter(2)
	stats, _, err := runParams(p)
	if err != nil || stats.retryExceeded == 0 {
		t.Errorf("%+v, %v: the run no longer exceeds its retries, or fails", stats, err)
	}
}

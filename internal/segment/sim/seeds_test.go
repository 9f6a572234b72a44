package sim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/seeds"
)

// runSeed makes one run, and returns what went wrong.
func runSeed(seed uint64, m mistake) (s stats, err error) {
	err = seeds.Run(func() {
		w := newWorld(seed, m)
		w.run()
		s = w.stats
	})
	return s, err
}

// TestSeeds compares random runs with the model: GORXE_SEEDS runs, from seed GORXE_SEED_FIRST on.
func TestSeeds(t *testing.T) {
	few := uint64(10000)
	if race.Enabled {
		few = 300
	}
	n, first := seeds.Number(t, "GORXE_SEEDS", few), seeds.Number(t, "GORXE_SEED_FIRST", 1)
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // a run leaves little behind
	total := make(stats)
	var errs []error
	for seed := first; seed < first+n && len(errs) < 20; seed++ {
		s, err := runSeed(seed, noMistake)
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %d: %w", seed, err))
		}
		for name, n := range s {
			total[name] += n
		}
	}
	t.Logf("%d seeds: %v", n, total)
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v\nto repeat one: GORXE_SEED_FIRST=<seed> GORXE_SEEDS=1 go test ./internal/segment/sim -run TestSeeds", err)
	}
	if n < few || race.Enabled {
		return
	}
	// The runs prove something only if everything happened.
	for _, name := range everything {
		if total[name] == 0 {
			t.Errorf("it never happened: %s", name)
		}
	}
}

// TestMistakes: with a model that is wrong in one thing, runs fail.
func TestMistakes(t *testing.T) {
	for m := noMistake + 1; m < mistakes; m++ {
		found := false
		for seed := uint64(1); seed <= 300 && !found; seed++ {
			_, err := runSeed(seed, m)
			found = err != nil
		}
		if !found {
			t.Errorf("300 runs do not find mistake %d", m)
		}
	}
}

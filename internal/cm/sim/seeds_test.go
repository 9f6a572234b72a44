package sim

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/seeds"
)

// runSeed makes one run and returns what went wrong.
func runSeed(seed uint64) (w *world, err error) {
	err = seeds.Run(func() {
		w = newWorld(drawParams(seed))
		w.run()
	})
	return w, err
}

// TestSeeds runs random connections under random faults: GORXE_SEEDS runs, from seed
// GORXE_SEED_FIRST on. Every 50th is run twice, and must be the same bit for bit.
func TestSeeds(t *testing.T) {
	few := uint64(2000)
	if race.Enabled {
		few = 200
	}
	n, first := seeds.Number(t, "GORXE_SEEDS", few), seeds.Number(t, "GORXE_SEED_FIRST", 1)
	var total runStats
	var errs []error
	for seed := first; seed < first+n && len(errs) < 20; seed++ {
		w, err := runSeed(seed)
		if err == nil && seed%50 == 0 {
			if again, _ := runSeed(seed); again.checksum() != w.checksum() {
				err = errors.New("the second run differs")
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %d: %w", seed, err))
			continue
		}
		total.add(&w.stats)
	}
	t.Logf("%d seeds: %+v", n, total)
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%v\nto repeat one: GORXE_SEED_FIRST=<seed> GORXE_SEEDS=1 go test ./internal/cm/sim -run TestSeeds", err)
	}
	if n < few || race.Enabled {
		return
	}
	// The runs prove something only if everything happened.
	for s, count := range total.ended {
		if state := cm.State(s); count == 0 && state != cm.StateDestroyed {
			t.Errorf("no connection ended in state %v", state)
		}
	}
	for k, count := range total.events {
		if count == 0 {
			t.Errorf("there was no event %v", cm.EventKind(k))
		}
	}
	if total.retries == 0 || total.duplicates == 0 || total.stale == 0 || total.lost == 0 {
		t.Errorf("%+v", total)
	}
}

package doorbell

import "testing"

// TestInstancesShared: one user cannot take the inotify instances of all, a later user has a share,
// and those of watches that have ended come back.
func TestInstancesShared(t *testing.T) {
	var all Instances
	watches := func(own *Instances) (open []*Watch) {
		for {
			w := new(Watch)
			w.Init(&all, own, new(Extra), new(fakeOwner))
			w.mu.Lock()
			begun := w.begin()
			w.mu.Unlock()
			if !begun {
				return open
			}
			open = append(open, w)
		}
	}
	for range 2 {
		var greedy, other Instances
		taken := watches(&greedy)
		if len(taken) != freeInstances {
			t.Errorf("a lone user has %d instances of %d, and not %d", len(taken), maxInstances, freeInstances)
		}
		if got := watches(&other); len(got) != maxOwn {
			t.Errorf("beside that user, another one has %d", len(got))
		} else {
			taken = append(taken, got...)
		}
		for _, w := range taken {
			w.Close()
		}
		if n := all.open.Load() + greedy.open.Load() + other.open.Load(); n != 0 {
			t.Errorf("%d instances are counted when all are closed", n)
		}
	}
}

package bench

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// How far two processors are from each other decides what a message between two daemons costs. Two
// threads of one core share its caches. Virtual processors may be on one core in one second, and on
// two cores in the next.

// apart is the time that a cache line takes from one processor to another one, and back.
var apart = baseline{place: OneDaemon, kind: Distance}

// apartTime is long enough for thousands of rounds, and short enough for the host to leave the
// processors where they are.
const apartTime = 5 * time.Millisecond

// processorsApart returns that time in ns, between the first and the last processor that this
// process may use. It is the least of many short measurements, because others may use the
// processors, too.
func processorsApart() (ns float64, err error) {
	first, last, err := processors()
	if err != nil {
		return 0, err
	}
	var (
		line  atomic.Uint64 // odd: the answer is due
		stop  atomic.Bool
		ready = make(chan error)
	)
	go func() {
		ready <- onProcessor(last)
		for n := uint64(1); !stop.Load(); {
			if line.Load() == n {
				line.Store(n + 1)
				n += 2
			}
		}
	}()
	if err := <-ready; err != nil {
		stop.Store(true)
		return 0, err
	}
	took := make(chan float64)
	go func() {
		ready <- onProcessor(first)
		took <- rounds(&line, &stop)
	}()
	err = <-ready
	return <-took, err
}

// rounds bounces the line, and returns the time of one round in ns.
func rounds(line *atomic.Uint64, stop *atomic.Bool) float64 {
	const batch = 100
	defer stop.Store(true)
	least, n := math.Inf(1), uint64(1)
	for begin := time.Now(); time.Since(begin) < apartTime || math.IsInf(least, 1); {
		since := time.Now()
		for range batch {
			for line.Store(n); line.Load() == n; {
			}
			n += 2
		}
		least = min(least, float64(time.Since(since).Nanoseconds())/batch)
	}
	return least
}

// onProcessor binds the calling goroutine to a thread, which ends with it, and that to a processor.
func onProcessor(cpu int) error {
	runtime.LockOSThread()
	return bind(0, cpu)
}

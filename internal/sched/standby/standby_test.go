package standby

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const limit = 20 * time.Millisecond

func always() bool { return true }

// bench is a role whose worker takes calls from a queue. A call is a channel that the
// worker waits for.
type bench struct {
	watch *Watch
	role  *Role
	queue chan chan struct{}
	quit  chan struct{}
	done  atomic.Int32 // calls that returned
	runs  atomic.Int32 // times run was called
	ended atomic.Int32 // workers that ended because Leave reported false
}

func newBench(most int) *bench { return newBenchOf(most, always) }

func newBenchOf(most int, blocked func() bool) *bench {
	b := &bench{watch: newWatch(limit, blocked), queue: make(chan chan struct{}), quit: make(chan struct{})}
	b.role = b.watch.Start(most, func(h *Worker) {
		b.runs.Add(1)
		for {
			select {
			case call := <-b.queue:
				h.Enter()
				<-call
				stays := h.Leave()
				b.done.Add(1)
				if !stays {
					b.ended.Add(1)
					return
				}
			case <-b.quit:
				return
			}
		}
	})
	return b
}

func (b *bench) expect(t *testing.T, alive int, done, runs, ended int32) {
	t.Helper()
	synctest.Wait()
	if b.role.Alive() != alive || b.done.Load() != done || b.runs.Load() != runs || b.ended.Load() != ended {
		t.Errorf("alive %d, calls done %d, runs %d, sent home %d; want %d, %d, %d, %d",
			b.role.Alive(), b.done.Load(), b.runs.Load(), b.ended.Load(), alive, done, runs, ended)
	}
}

func (b *bench) stop(t *testing.T, want bool) {
	t.Helper()
	close(b.quit)
	if got := b.role.Stop(time.Second); got != want {
		t.Errorf("Stop = %v, want %v", got, want)
	}
	b.watch.Close()
}

func returned() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(3)
		// Whatever the watch was doing: awake, or asleep after a quiet hour.
		for _, quiet := range []time.Duration{0, time.Hour} {
			before := b.runs.Load()
			time.Sleep(quiet)
			blocked := make(chan struct{})
			b.queue <- blocked
			time.Sleep(limit)
			b.expect(t, 1, b.done.Load(), max(before, 1), b.ended.Load())
			time.Sleep(limit / 2)
			b.expect(t, 2, b.done.Load(), max(before, 1)+1, b.ended.Load())
			done := b.done.Load()
			b.queue <- returned()
			b.expect(t, 2, done+1, max(before, 1)+1, b.ended.Load())
			ended := b.ended.Load()
			close(blocked)
			b.expect(t, 1, done+2, max(before, 1)+1, ended+1)
		}
		b.stop(t, true)
	})
}

// While no thread waits for memory, a call that takes long has not got a processor,
// and another worker would overtake it. But not for ever.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits atomic.Bool
		b := newBenchOf(3, waits.Load)
		first, second := make(chan struct{}), make(chan struct{})
		b.queue <- first
		time.Sleep((UnconfirmedFactor - 1) * limit)
		b.expect(t, 1, 0, 1, 0)
		time.Sleep(limit * UnconfirmedFactor)
		b.expect(t, 2, 0, 2, 0)
		b.queue <- second
		time.Sleep(2 * limit)
		b.expect(t, 2, 0, 2, 0)
		waits.Store(true)
		time.Sleep(limit)
		b.expect(t, 3, 0, 3, 0)
		close(first)
		close(second)
		b.stop(t, true)
	})
}

func TestShortCallsKeepTheRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(3)
		for range 100 {
			call := make(chan struct{})
			b.queue <- call
			time.Sleep(limit / 2)
			close(call)
		}
		b.expect(t, 1, 100, 1, 0)
		b.stop(t, true)
	})
}

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(3)
		var blocked []chan struct{}
		for range 3 {
			call := make(chan struct{})
			blocked = append(blocked, call)
			b.queue <- call
			time.Sleep(2 * limit)
		}
		time.Sleep(time.Hour)
		b.expect(t, 3, 0, 3, 0)
		// The last one was not replaced, so it goes on; and once one of the
		// others is back, it can be.
		close(blocked[2])
		b.expect(t, 3, 1, 3, 0)
		again := make(chan struct{})
		b.queue <- again
		time.Sleep(time.Hour)
		b.expect(t, 3, 1, 3, 0)
		close(blocked[0])
		time.Sleep(2 * limit)
		b.expect(t, 3, 2, 4, 1)
		close(blocked[1])
		close(again)
		b.expect(t, 1, 4, 4, 3)
		b.stop(t, true)
	})
}

// TestStopLeavesBlockedWorkers: Stop does not wait for workers that were blocked before. It
// waits for the current worker until its timeout only.
func TestStopLeavesBlockedWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(8)
		first, second := make(chan struct{}), make(chan struct{})
		b.queue <- first
		time.Sleep(2 * limit)
		b.queue <- second
		begin := time.Now()
		b.stop(t, false)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Stop took %v", took)
		}
		b.expect(t, 2, 0, 2, 0)
		close(first)
		close(second)
		b.expect(t, 0, 2, 2, 2)
	})
}

func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(8)
		call := make(chan struct{})
		b.queue <- call
		time.AfterFunc(500*time.Millisecond, func() { close(call) })
		b.stop(t, true)
		b.expect(t, 0, 1, 1, 0)
	})
}

// TestRace has calls end about when the watch looks at them: no call is done
// twice, none is lost, and never do two goroutines hold the role.
func TestRace(t *testing.T) {
	w := newWatch(2*time.Millisecond, always)
	var inRun, calls atomic.Int32
	var running sync.WaitGroup
	queue := make(chan time.Duration)
	role := w.Start(64, func(h *Worker) {
		running.Add(1)
		defer running.Done()
		for d := range queue {
			if inRun.Add(1) != 1 {
				t.Error("two workers")
			}
			inRun.Add(-1)
			h.Enter()
			if d > 0 {
				<-time.After(d)
			}
			calls.Add(1)
			if !h.Leave() {
				return
			}
		}
	})
	const n = 100
	for i := range n {
		queue <- time.Duration(i%5) * time.Millisecond
	}
	close(queue)
	role.Stop(time.Minute)
	w.Close()
	running.Wait()
	if calls.Load() != n {
		t.Errorf("%d calls of %d", calls.Load(), n)
	}
}

func TestEnterLeaveAllocatesNothing(t *testing.T) {
	w := NewWatch(limit)
	defer w.Close()
	h := &Worker{watch: w}
	if n := testing.AllocsPerRun(1000, func() {
		h.Enter()
		h.Leave()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	w := NewWatch(limit)
	defer w.Close()
	h := &Worker{watch: w}
	for b.Loop() {
		h.Enter()
		h.Leave()
	}
}

// owner notes what a watch says.
type owner struct {
	tooLong, idle atomic.Int32
	sure          atomic.Int32 // of tooLong
	again         atomic.Bool
}

func (o *owner) TooLong(c Call, sure func() bool) {
	o.tooLong.Add(1)
	if sure() {
		o.sure.Add(1)
	}
}

func (o *owner) Idle(looks int) bool {
	if looks > 0 {
		o.idle.Add(1)
	}
	return o.again.Load()
}

// TestOwner: an owner is called in each tick while it wants that, and hears of a call that takes
// too long before it is sure that this is blocked.
func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(limit, func() bool { return false })
		defer w.Close()
		o := new(owner)
		e := w.Add(o)
		expect := func(idle, tooLong, sure int32) {
			t.Helper()
			synctest.Wait()
			if o.idle.Load() != idle || o.tooLong.Load() != tooLong || o.sure.Load() != sure {
				t.Errorf("idle in %d ticks, too long in %d, and surely in %d; want %d, %d and %d",
					o.idle.Load(), o.tooLong.Load(), o.sure.Load(), idle, tooLong, sure)
			}
		}
		time.Sleep(time.Hour) // nobody works, and the watch sleeps
		expect(0, 0, 0)
		o.again.Store(true)
		h := new(Worker)
		e.Appoint(h)
		const tick = limit / tooManyLooks
		time.Sleep(100*tick + tick/2)
		expect(99, 0, 0)
		h.Enter()
		time.Sleep((tooManyLooks + 1) * tick)
		expect(99, 1, 0)
		time.Sleep((unconfirmedLooks - tooManyLooks) * tick)
		expect(99, 1+unconfirmedLooks-tooManyLooks, 1)
		e.Appoint(nil)
		time.Sleep(time.Hour)
		expect(99, 1+unconfirmedLooks-tooManyLooks, 1)
		e.Appoint(h) // it has not moved
		time.Sleep((tooManyLooks+1)*tick + tick/2)
		e.Remove()
		time.Sleep(time.Hour)
		expect(99, 1+unconfirmedLooks-tooManyLooks+1, 1)
	})
}

package trap

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
)

// pollingProgram starts a program that polls until the test ends, and returns its number. It locks the test to its thread.
func pollingProgram(t *testing.T) (pid int) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("it needs two processors")
	}
	runtime.LockOSThread() // and not unlocked: the thread ends with this goroutine
	loop := exec.Command("sh", "-c", "while :; do :; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = loop.Process.Kill()
		_ = loop.Wait() // it was killed
	})
	return loop.Process.Pid
}

// TestLinger: a thread that is aside goes on looking for a while after each request. One that is not does so in
// streams only.
func TestLinger(t *testing.T) {
	pid := pollingProgram(t)
	one, none := kernel.Doorbells{Requests: 1, Awaited: 1}, kernel.Doorbells{}
	var timing timing
	timing.place.Load = &doorbell.Load{
		Ready: func() (int, bool) { return 1, true },
		Delay: func() (int64, bool) { return 0, true },
	}
	for deadline := time.Now().Add(10 * time.Second); !timing.place.Aside(); {
		if timing.mutes(none) {
			t.Fatal("a thread that is not aside lingers")
		}
		if time.Now().After(deadline) {
			t.Fatal("the thread does not go aside")
		}
		timing.found = clock.Now() // the last request came just now
		timing.came()
		timing.look, timing.from = one, pid
		timing.decide()
	}
	if timing.came(); !timing.mutes(one) {
		t.Error("the thread does not linger after a request")
	}
	timing.found = clock.Now() + int64(time.Hour)
	if !timing.mutes(none) {
		t.Error("the thread does not linger after a look that found nothing")
	}
	timing.found = clock.Now() - 2*linger
	if timing.mutes(none) {
		t.Error("the thread lingers without end")
	}
	for range maxQuick {
		timing.found = clock.Now() - 2*linger
		timing.came()
	}
	if timing.wantsAside() {
		t.Error("the thread would linger although all requests come late")
	}
	timing.end()
	if timing.place.Aside() {
		t.Error("the thread was not given back as it was")
	}
}

// TestBusy: a thread is busy while looks at a stream leave work. It is not if the program waits for each request, if
// nothing is left, or if the machine has many threads to run.
func TestBusy(t *testing.T) {
	var timing timing
	look := func(want bool, d kernel.Doorbells) {
		t.Helper()
		for range 20 { // doorbell.Pace learns in fewer
			timing.begin()
			timing.look = d
			timing.decide()
		}
		if timing.thread.Busy != want {
			t.Errorf("after looks that found %+v the thread is busy: %t, want %t", d, timing.thread.Busy, want)
		}
	}
	look(true, kernel.Doorbells{Requests: 4, More: true})
	look(false, kernel.Doorbells{Requests: 4})
	look(true, kernel.Doorbells{Requests: 4, More: true})
	look(false, kernel.Doorbells{Requests: 1, Awaited: 1, More: true})
	look(false, kernel.Doorbells{NoCredit: true})
	look(true, kernel.Doorbells{Requests: 4, More: true})
	look(true, kernel.Doorbells{NoCredit: true}) // the program of the receiver has the pauses
	look(false, kernel.Doorbells{})
	timing.contention.Load = &doorbell.Load{Ready: func() (int, bool) { return 1_000_000, true }}
	look(false, kernel.Doorbells{Requests: 4, More: true})
}

// TestCreditPause: a look at messages that wait for receive work requests is followed by a pause, unless another queue has
// work left. The device stays muted if its program posts a stream.
func TestCreditPause(t *testing.T) {
	var timing timing
	look := func(want time.Duration, d kernel.Doorbells) {
		t.Helper()
		timing.begin()
		timing.look = d
		timing.decide()
		if got := timing.left(); got != want {
			t.Errorf("after a look that found %+v the pause is %v, want %v", d, got, want)
		}
	}
	look(0, kernel.Doorbells{})
	look(creditPause, kernel.Doorbells{NoCredit: true})
	look(0, kernel.Doorbells{NoCredit: true, More: true})
	if timing.mutes(kernel.Doorbells{NoCredit: true}) {
		t.Error("the first requests of a program mute its device")
	}
	for range 20 {
		look(creditPause, kernel.Doorbells{Requests: 100, NoCredit: true})
	}
	if !timing.mutes(kernel.Doorbells{NoCredit: true}) {
		t.Error("a device that is looked at again is not muted")
	}
}

// TestOffProgram: the thread keeps off the processor of a program that posts a stream. It goes on that processor when the
// program waits for each request, and anywhere if it leads, or if the machine has many threads to run.
func TestOffProgram(t *testing.T) {
	pid := pollingProgram(t)
	allowed := func() (set unix.CPUSet) {
		t.Helper()
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	all := allowed()
	ready := 1
	var timing timing
	timing.contention.Load = &doorbell.Load{Ready: func() (int, bool) { return ready, true }}
	timing.thread.Class = new(sched.Class)
	look := func(d kernel.Doorbells, processors int) {
		t.Helper()
		var set unix.CPUSet
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			timing.begin()
			timing.look, timing.from = d, pid
			timing.decide()
			if set = allowed(); set.Count() == processors {
				return
			}
		}
		t.Errorf("after looks that found %+v the thread may use %d processors, want %d", d, set.Count(), processors)
	}
	stream, awaited := kernel.Doorbells{Requests: 100}, kernel.Doorbells{Requests: 1, Awaited: 1}
	look(stream, all.Count()-1)
	look(awaited, 1)
	look(stream, all.Count()-1)
	timing.begin()
	timing.decide()
	if allowed() == all {
		t.Error("after a look that found nothing the thread may run anywhere")
	}
	ready = 1_000_000
	look(stream, all.Count())
	ready = 1
	look(stream, all.Count()-1)
	leader := sched.Thread{Class: timing.thread.Class}
	leader.Rest()
	look(stream, all.Count())
	leader.End()
	look(stream, all.Count()-1)
	if timing.end(); allowed() != all {
		t.Error("the thread was not given back as it was")
	}
}

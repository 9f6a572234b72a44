package trap

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/notify"
)

// TestWakeUps walks the table of wakeUps.
func TestWakeUps(t *testing.T) {
	var w wakeUps
	for i, step := range []struct{ waits, handOver bool }{
		{false, true},  // it slept, and sleeps
		{true, false},  // it slept, and takes a call
		{true, false},  // it did not sleep, and takes a call
		{false, false}, // it did not sleep, and sleeps
		{false, true},
	} {
		if got := w.handOver(step.waits); got != step.handOver {
			t.Errorf("answer %d hands over: %v, want %v", i, got, step.handOver)
		}
	}
}

// fakeSyncer is a listener with calls that wait at random.
type fakeSyncer struct {
	on, quiet atomic.Bool
	refuses   atomic.Bool
}

func (f *fakeSyncer) SyncWakeUp(on bool) bool {
	if f.refuses.Load() {
		return false
	}
	time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
	f.on.Store(on)
	return true
}

func (f *fakeSyncer) Waiting() bool { return !f.quiet.Load() && rand.IntN(2) == 0 }

// TestWakeUpsOfTwo: after two receivers have answered beside each other, the listener hands over
// again.
func TestWakeUpsOfTwo(t *testing.T) {
	var l fakeSyncer
	var w wakeUps
	if !w.init(&l, true) {
		t.Fatal("there is one way only")
	}
	for range 200 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range 5 {
					w.prepare()
				}
			})
		}
		both.Wait()
		l.quiet.Store(true)
		w.prepare()
		w.prepare() // it has slept
		if !l.on.Load() {
			t.Fatal("the receiver sleeps, and callers wake up elsewhere")
		}
		l.quiet.Store(false)
	}
}

// TestWakeUpsRefused: a change that the kernel refuses is tried again. A kernel without the choice
// is not asked again.
func TestWakeUpsRefused(t *testing.T) {
	var l fakeSyncer
	var w wakeUps
	w.init(&l, true)
	l.quiet.Store(true)
	w.elsewhere = true // as after a call that waited
	l.on.Store(false)
	l.refuses.Store(true)
	w.prepare()
	l.refuses.Store(false)
	w.prepare()
	if !l.on.Load() {
		t.Error("the change was forgotten")
	}
	var old fakeSyncer
	old.refuses.Store(true)
	if w.init(&old, true) {
		t.Error("an old kernel has two ways")
	}
	w.prepare()
}

// TestFallbackWakeUps: a program wakes up on the processor of the keeper that answers it, also if
// the daemon has died while the listener said otherwise.
func TestFallbackWakeUps(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("there is one processor")
	}
	p := start(t, options{program: "where", idle: true}, "1")
	l := notify.Listener(p.listener.Fd())
	if !l.SyncWakeUp(false) {
		t.Skip("Linux before 6.6 has one way")
	}
	served := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with its affinity
		var one unix.CPUSet
		one.Set(1)
		err := unix.SchedSetaffinity(0, &one)
		if err == nil {
			err = fallback.Serve(p.listener, nil, p.fds, flushQueues)
		}
		served <- err
	}()
	must.OK(t, <-served)
	must.OK(t, p.cmd.Wait())
	n, err := strconv.Atoi(p.out.String())
	must.OK(t, err)
	if n < whereCalls*3/4 {
		t.Errorf("after %d of %d calls the program was there", n, whereCalls)
	}
}

// whereCalls is how many calls whereProgram makes.
const whereCalls = 200

// whereProgram prints after how many trapped calls it runs on another processor than before, on the
// one that is wanted.
func whereProgram(args []string) error {
	runtime.LockOSThread()
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var other, all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	other = all
	other.Clear(want)
	n := 0
	for range whereCalls {
		for _, set := range []*unix.CPUSet{&other, &all} { // it moves there
			if err := unix.SchedSetaffinity(0, set); err != nil {
				return err
			}
		}
		_ = unix.Access("/dev/infiniband/none", unix.F_OK) // there is none
		var cpu uint32
		if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
			return errno
		}
		if cpu == uint32(want) {
			n++
		}
	}
	_, err = fmt.Fprint(os.Stdout, n)
	return err
}

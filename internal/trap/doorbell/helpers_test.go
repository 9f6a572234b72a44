package doorbell

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/sealed"
)

// ringer is a file whose doorbells are counted.
type ringer struct {
	kernel.DoorbellFile
	taken    int
	more     bool
	noCredit bool
}

func (r *ringer) TakeDoorbells(credited bool) kernel.Doorbells {
	r.taken++
	return kernel.Doorbells{More: r.more, NoCredit: r.noCredit && credited}
}
func (r *ringer) Sweep() {}

// newRingers is a watch of n devices, which all have much to do, and the number of helpers
// that were started.
func newRingers(t *testing.T, n int) (w *Watch, devices []*Device, started *int) {
	t.Helper()
	w, started = new(Watch), new(int)
	w.Init(new(Instances), new(Instances), new(Extra), &fakeOwner{helped: func() { *started++ }})
	w.watches = make(map[int]*Device)
	w.wake = newWake(t)
	for wd := range n {
		d := &Device{watch: w, file: &ringer{more: true}, wd: wd}
		w.watches[wd], devices = d, append(devices, d)
	}
	return w, devices, started
}

// newWake is what Rouse writes to. Nobody waits for it.
func newWake(t *testing.T) int {
	t.Helper()
	fd, err := sealed.FixedSize("gorxe-wake", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestHelpers: a helper is started, or an idle one works, when a device has used up its share
// while another one waits. There are fewer helpers than devices.
func TestHelpers(t *testing.T) {
	w, devices, started := newRingers(t, 3)
	taker := new(fakeTaker)
	serve := func(want int) {
		t.Helper()
		if d := w.Take(taker); d == nil || !w.Serve(d, taker).More {
			t.Fatal("no device has more")
		}
		if *started != want {
			t.Fatalf("%d helpers were started, want %d", *started, want)
		}
	}
	w.enter(devices[0])
	serve(0) // nothing else waits
	w.enter(devices[1])
	serve(1)
	serve(2)
	serve(2) // one of the three devices is for this thread

	joined := make(chan bool, 1)
	go func() { joined <- w.Join() }()
	eventually(t, w, func() bool { return w.helpers.idle == 1 })
	select {
	case <-joined:
		t.Fatal("an idle helper worked although nobody wanted it")
	default:
	}
	serve(2)
	if !<-joined {
		t.Error("the helper thinks that the watch has stopped")
	}
	go func() { joined <- w.Join() }()
	w.Stop()
	if <-joined {
		t.Error("a helper joined after the watch had stopped")
	}
	serve(2)
}

// TestFewDoorbells: devices with little to do need no helper.
func TestFewDoorbells(t *testing.T) {
	w, devices, started := newRingers(t, 2)
	for _, d := range devices {
		d.file.(*ringer).more = false
	}
	w.EnterAll()
	taker := new(fakeTaker)
	for d := w.Take(taker); d != nil; d = w.Take(taker) {
		w.Serve(d, taker)
	}
	if *started != 0 || w.Pending() != 0 {
		t.Errorf("%d helpers, %d devices on the list", *started, w.Pending())
	}
}

// TestNoCredit: a device whose messages wait for receive work requests stays on the list, and needs
// no helper. A call on the device does not wait for them.
func TestNoCredit(t *testing.T) {
	w, devices, started := newRingers(t, 2)
	for _, d := range devices {
		*d.file.(*ringer) = ringer{noCredit: true}
	}
	w.EnterAll()
	taker := new(fakeTaker)
	for range 4 {
		if took := w.Serve(w.Take(taker), taker); !took.NoCredit {
			t.Fatalf("%+v", took)
		}
	}
	if *started != 0 || w.Pending() != 2 {
		t.Errorf("%d helpers, %d devices on the list", *started, w.Pending())
	}
	if devices[0].TakeInOrder(taker) {
		t.Error("a call has to wait")
	}
	gone := &fakeTaker{}
	d := w.Take(gone)
	gone.replaced.Store(true)
	w.Serve(d, gone)
	if w.Pending() != 1 {
		t.Error("a thread that was replaced left its device to others")
	}
}

// TestMaxExtra: there is a bound.
func TestMaxExtra(t *testing.T) {
	w, _, started := newRingers(t, maxExtra+10)
	w.EnterAll()
	for range 3 * maxExtra {
		taker := new(fakeTaker)
		w.Serve(w.Take(taker), taker)
	}
	if *started != maxExtra {
		t.Errorf("%d helpers, want %d", *started, maxExtra)
	}
}

// TestMissed: doorbells that come while a thread has the device in hand are taken afterwards, or
// when that thread was replaced, and by one thread at a time.
func TestMissed(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		w, devices, _ := newRingers(t, 1)
		d, first, second := devices[0], new(fakeTaker), new(fakeTaker)
		d.file.(*ringer).more = false
		w.enter(d)
		w.Take(first)
		w.enter(d)
		w.EnterAll()
		if w.Take(second) != nil {
			t.Fatal("two threads have one device in hand")
		}
		if replaced {
			first.replaced.Store(true)
			w.Replaced()
		} else {
			w.Serve(d, first)
		}
		if w.Take(second) != d {
			t.Errorf("replaced %t: a doorbell was lost", replaced)
		}
		w.Serve(d, first) // if it comes back
		if d.taker == nil && replaced {
			t.Error("a thread that was replaced took the device from another one")
		}
		w.Serve(d, second)
		if d.taker != nil || w.Pending() != 0 {
			t.Errorf("replaced %t: the device is in hand or on the list", replaced)
		}
	}
}

// eventually waits until the condition holds; it is evaluated under w.mu.
func eventually(t *testing.T, w *Watch, holds func() bool) {
	t.Helper()
	must.Eventually(t, "a condition of the watch", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return holds()
	})
}

package doorbell

import (
	"sync/atomic"
	"testing"
)

// fakeTaker is a thread that the test replaces.
type fakeTaker struct{ replaced atomic.Bool }

func (t *fakeTaker) Replaced() bool { return t.replaced.Load() }

// fakeOwner starts no receiver.
type fakeOwner struct {
	helped func()
	noPipe error
	bypass bool // it would call Watch.Bypassed
}

func (o *fakeOwner) Start(int) error     { return nil }
func (o *fakeOwner) StartHelper()        { o.helped() }
func (o *fakeOwner) AddPipe(int) error   { return o.noPipe }
func (o *fakeOwner) RemovePipe()         {}
func (o *fakeOwner) AwaitBypass(on bool) { o.bypass = on }

// TestTakeInOrder: a call waits for a doorbell in hand until that is done, or the thread that
// has it was replaced. No other thread takes the device meanwhile, however much it has to do.
func TestTakeInOrder(t *testing.T) {
	for name, end := range map[string]func(w *Watch, d *Device, taker *fakeTaker){
		"done": func(w *Watch, d *Device, taker *fakeTaker) {
			if !w.Serve(d, taker).More {
				t.Error("the device has no more")
			}
		},
		"replaced": func(w *Watch, _ *Device, taker *fakeTaker) {
			taker.replaced.Store(true)
			w.Replaced()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, devices, _ := newRingers(t, 1)
			d, taker, caller := devices[0], new(fakeTaker), new(fakeTaker)
			w.enter(d)
			if w.Take(taker) != d {
				t.Fatal("the device was not on the list")
			}
			done := make(chan bool)
			go func() { done <- d.TakeInOrder(caller) }()
			eventually(t, w, func() bool { return d.calls == 1 })
			select {
			case <-done:
				t.Fatal("it did not wait")
			default:
			}
			w.enter(d) // a doorbell comes
			end(w, d, taker)
			if !<-done {
				t.Error("the call took no doorbell")
			}
			if w.Take(taker) != d {
				t.Error("the rest is not on the list")
			}
		})
	}
}

// TestTakeInOrderFirst: while a call waits for a device, no thread takes that.
func TestTakeInOrderFirst(t *testing.T) {
	w, devices, _ := newRingers(t, 1)
	d, taker := devices[0], new(fakeTaker)
	w.enter(d)
	d.calls++
	if w.Take(taker) != nil {
		t.Error("a thread took it from the list")
	}
	w.enter(d)
	w.EnterAll()
	if w.Take(taker) != nil || !d.missed {
		t.Error("a thread took it after another doorbell, or that was forgotten")
	}
}

func TestModeText(t *testing.T) {
	for _, d := range []Mode{Auto, Trapped, Direct} {
		text, err := d.MarshalText()
		var got Mode
		if err != nil || got.UnmarshalText(text) != nil || got != d {
			t.Errorf("%v became %q and %v (%v)", d, text, got, err)
		}
	}
	if err := new(Mode).UnmarshalText([]byte("loud")); err == nil {
		t.Error("loud is taken")
	}
}

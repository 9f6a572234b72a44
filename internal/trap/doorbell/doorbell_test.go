package doorbell

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// fakeTaker is a thread that the test replaces.
type fakeTaker struct{ replaced atomic.Bool }

func (t *fakeTaker) Replaced() bool { return t.replaced.Load() }

// TestAwait: a call waits for a doorbell in hand until that is done, or the thread that has it
// was replaced, and not for a replaced one.
func TestAwait(t *testing.T) {
	for name, end := range map[string]func(w *Watch, d *Device, taker *fakeTaker){
		"done": func(w *Watch, d *Device, taker *fakeTaker) { w.release(d, taker, false) },
		"replaced": func(w *Watch, _ *Device, taker *fakeTaker) {
			taker.replaced.Store(true)
			w.Replaced()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			w.Init(new(Instances), nil, nil)
			d, taker := new(Device), new(fakeTaker)
			if w.await(d) {
				t.Error("it waited for nobody")
			}
			w.enter(d)
			if w.Take(taker) != d {
				t.Fatal("the device was not on the list")
			}
			waited := make(chan bool)
			go func() { waited <- w.await(d) }()
			runtime.Gosched() // it may wait by now
			select {
			case <-waited:
				t.Fatal("it did not wait")
			default:
			}
			end(&w, d, taker)
			<-waited // false if it began to wait too late
			if w.await(d) {
				t.Error("it waited again")
			}
		})
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

func TestPace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		calls int
		pause time.Duration
		quick int // the call that comes at once
		want  bool
	}{
		{"slow", paceCalls, 2 * slowCall, -1, true},
		{"too few to tell", paceCalls - 1, 2 * slowCall, -1, false},
		{"one undisturbed", paceCalls, 2 * slowCall, paceCalls / 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Pace
			p.Answers(7)
			for i := range tt.calls {
				p.Received(9) // another thread's
				if i != tt.quick {
					p.at.Add(-int64(tt.pause)) // as if it had been answered before
				}
				p.Received(7)
				p.Answers(0)
				p.Received(7) // nobody knows when that was answered
				p.Answers(7)
			}
			if got := p.Slow(); got != tt.want {
				t.Errorf("slow: %v after %v", got, p.Least())
			}
		})
	}
}

package trap

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/filter"
)

// doorbellFakes are fakes that count the calls and the doorbells that reach them.
type doorbellFakes struct {
	*fakes
	rung, called atomic.Int32
	late         atomic.Int32 // calls that came before the doorbell rung ahead of them
	entered      atomic.Int32 // calls of TakeDoorbells
	holds        int32        // of the first of these, that many wait for hold
	hold         chan struct{}
}

func newDoorbellFakes(t testing.TB) *doorbellFakes {
	h := &doorbellFakes{fakes: newFakes(t)}
	open := h.open
	last := int32(0)
	h.write = func(_ kernel.Caller, _, n uint64) (int64, error) {
		h.called.Add(1)
		if now := h.rung.Load(); n < filter.DoorbellSize {
			if now == last {
				h.late.Add(1)
			}
			last = now
		}
		return int64(n), nil
	}
	h.open = func(name string, who Credentials) (File, error) {
		f, err := open(name, who)
		if err != nil {
			return nil, err
		}
		return &doorbellFile{fakeFile: f.(*fakeFile), host: h}, nil
	}
	return h
}

// doorbellFile is a fakeFile that reports doorbells to its host.
type doorbellFile struct {
	*fakeFile
	host    *doorbellFakes
	working atomic.Bool // a thread has a doorbell in hand
}

func (f *doorbellFile) TakeDoorbells() bool {
	if f.host.entered.Add(1) <= f.host.holds {
		<-f.host.hold
	}
	if !f.working.CompareAndSwap(false, true) {
		return false // as librxe's queues: the thread at work takes all
	}
	for range 4 {
		runtime.Gosched() // the next call may come meanwhile
	}
	n := f.host.rung.Add(1)
	f.working.Store(false)
	return n%3 == 1 // now and then it wants to be called again
}

// TestDirectDoorbells: doorbells are not trapped, everything else is, and a doorbell
// is heard before the call that the program makes after it.
func TestDirectDoorbells(t *testing.T) {
	const rounds = 500
	h := newDoorbellFakes(t)
	out := run(t, options{program: "doorbells", host: h, doorbells: DoorbellsDirect, patient: true}, fmt.Sprint(rounds))
	h.allClosed(t)
	if out != "<nil>\n" {
		t.Errorf("%q", out)
	}
	if n := h.called.Load(); n != rounds {
		t.Errorf("%d calls were trapped, want %d", n, rounds)
	}
	if n := h.late.Load(); n != 0 {
		t.Errorf("%d calls came before the doorbell that the program had rung", n)
	}
	if h.rung.Load() == 0 {
		t.Error("nothing was heard of a doorbell")
	}
}

// TestTrappedDoorbells: doorbells are trapped by default, and where direct ones are not
// possible.
func TestTrappedDoorbells(t *testing.T) {
	const rounds = 10
	for _, tt := range []struct {
		name      string
		doorbells Doorbells
		limit     string
	}{
		{"wanted", DoorbellsTrapped, "unlimited"},
		{"limited files", DoorbellsDirect, "1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newDoorbellFakes(t)
			p := start(t, options{program: "doorbells", host: h, doorbells: tt.doorbells, ulimit: "-f " + tt.limit}, fmt.Sprint(rounds))
			p.wait()
			if n := h.called.Load(); n != 2*rounds+1 || h.rung.Load() != 0 {
				t.Errorf("%d calls and %d doorbells, want %d and none", n, h.rung.Load(), 2*rounds+1)
			}
		})
	}
	t.Run("old library", func(t *testing.T) { // it does not ask for netlink
		h := newDoorbellFakes(t)
		run(t, options{program: "doorbell", host: h, doorbells: DoorbellsDirect})
		if h.called.Load() != 1 || h.rung.Load() != 0 {
			t.Errorf("%d calls and %d doorbells", h.called.Load(), h.rung.Load())
		}
	})
}

// TestSeveralProcesses: of the processes of one session that have a device open, one
// has trapped doorbells. Those that come one after another all have them. With one
// processor, or where a trap is slow, all processes have the same doorbells.
func TestSeveralProcesses(t *testing.T) {
	const rounds = 20
	const direct, trapped = rounds, 2*rounds + 1 // calls of one program that are trapped
	for _, tt := range []struct {
		how       string
		doorbells Doorbells
		cpus      int
		slow      bool
		called    int32
	}{
		{"together", DoorbellsAuto, 2, false, 1 + 2*direct},
		{"in turn", DoorbellsAuto, 2, false, 2 * trapped},
		{"together", DoorbellsAuto, 1, false, 1 + 2*trapped},
		{"together", DoorbellsAuto, 2, true, 2 * direct},
		{"together", DoorbellsTrapped, 2, true, 1 + 2*trapped},
		{"together", DoorbellsDirect, 2, false, 2 * direct},
	} {
		t.Run(fmt.Sprintf("%s, %v, %d CPUs, slow %t", tt.how, tt.doorbells, tt.cpus, tt.slow), func(t *testing.T) {
			h := newDoorbellFakes(t)
			open := h.open
			h.open = func(name string, who Credentials) (File, error) {
				if tt.how == "in turn" {
					h.allClosed(t) // the session learns of that some time after the program's end
				}
				return open(name, who)
			}
			p := start(t, options{
				program: "several", host: h, doorbells: tt.doorbells,
				cpus: tt.cpus, slow: func() bool { return tt.slow }, patient: true,
			}, fmt.Sprint(rounds), tt.how)
			p.wait()
			if n := h.called.Load(); n != tt.called {
				t.Errorf("%d calls were trapped, want %d", n, tt.called)
			}
			if n := h.late.Load(); n != 0 && tt.called == 2*direct {
				t.Errorf("%d calls came before the doorbell that the program had rung", n)
			}
			h.allClosed(t)
		})
	}
}

// TestAwaitDoorbell: a call waits for a doorbell in hand until that is done, or the
// receiver was replaced, and not for a replaced one.
func TestAwaitDoorbell(t *testing.T) {
	for name, end := range map[string]func(h *inHand, o *object, r *receiver){
		"done": (*inHand).release,
		"replaced": func(h *inHand, _ *object, r *receiver) {
			r.markBlocked(r.state.Load())
			h.replaced()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h inHand
			h.init()
			o, r := new(object), new(receiver)
			if h.await(o) {
				t.Error("it waited for nobody")
			}
			r.begin(1)
			h.claim(o, r)
			waited := make(chan bool)
			go func() { waited <- h.await(o) }()
			runtime.Gosched() // it may wait by now
			select {
			case <-waited:
				t.Fatal("it did not wait")
			default:
			}
			end(&h, o, r)
			<-waited // false if it began to wait too late
			if h.await(o) {
				t.Error("it waited again")
			}
		})
	}
}

// TestBlockedDoorbell: doorbells whose work waits for memory that does not answer block
// neither calls nor later doorbells. Two wait: one was taken when it was rung, and the
// other one before the call that the program made next.
func TestBlockedDoorbell(t *testing.T) {
	h := newDoorbellFakes(t)
	h.holds, h.hold = 2, make(chan struct{})
	p := start(t, options{program: "doorbells", host: h, doorbells: DoorbellsDirect}, "50")
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := h.called.Load(); n != 50 {
		t.Errorf("%d calls, want 50", n)
	}
	close(h.hold)
	p.ended()
	h.allClosed(t)
}

// TestStopWithBlockedDoorbell: a call that waits for the work of a doorbell is answered,
// although the session stops meanwhile. The program goes on with the next session.
func TestStopWithBlockedDoorbell(t *testing.T) {
	h := newDoorbellFakes(t)
	h.holds, h.hold = 2, make(chan struct{})
	o := options{program: "doorbells", host: h, doorbells: DoorbellsDirect}
	p := start(t, o, "50")
	eventually(t, "both receivers have a doorbell in hand", func() bool { return h.entered.Load() >= h.holds })
	p.stop()
	if err := <-p.served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
	close(h.hold)
	p.serve(o)
	_ = p.cmd.Wait() // its device is gone, which it may see
	p.ended()
}

// TestMute: when the daemon is gone, direct doorbells fail too.
func TestMute(t *testing.T) {
	want := fmt.Sprintln(unix.EPERM, unix.ENODEV, unix.ENOENT, nil)
	if got := orphaned(t, "serve", options{program: "doorbell-until"}, DoorbellsDirect); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDoorbellsText(t *testing.T) {
	for _, d := range []Doorbells{DoorbellsAuto, DoorbellsTrapped, DoorbellsDirect} {
		text, err := d.MarshalText()
		var got Doorbells
		if err != nil || got.UnmarshalText(text) != nil || got != d {
			t.Errorf("%v became %q and %v (%v)", d, text, got, err)
		}
	}
	if err := new(Doorbells).UnmarshalText([]byte("loud")); err == nil {
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
			var p pace
			p.answers(7, pass)
			for i := range tt.calls {
				p.received(9) // another thread's
				if i != tt.quick {
					p.at.Add(-int64(tt.pause)) // as if it had been answered before
				}
				p.received(7)
				p.answers(7, verdict{kind: sent})
				p.received(7) // nobody knows when that was answered
				p.answers(7, pass)
			}
			if got := p.slow(); got != tt.want {
				t.Errorf("slow: %v after %v", got, time.Duration(p.least.Load()))
			}
		})
	}
}

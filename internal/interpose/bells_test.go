package interpose

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/filter"
)

// bellFakes are fakes that count the calls and the doorbells that reach them.
type bellFakes struct {
	*fakes
	rung, called atomic.Int32
	late         atomic.Int32 // calls that came before the doorbell rung ahead of them
	hold         chan struct{}
}

func newBellFakes(t testing.TB) *bellFakes {
	h := &bellFakes{fakes: newFakes(t)}
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
		return &bellFile{f.(*fakeFile), h}, nil
	}
	return h
}

// bellFile is a fakeFile that reports doorbells to its host.
type bellFile struct {
	*fakeFile
	host *bellFakes
}

func (f *bellFile) TakeDoorbells() bool {
	n := f.host.rung.Add(1)
	if f.host.hold != nil && n == 1 {
		<-f.host.hold
	}
	return n%3 == 1 // now and then it wants to be called again
}

// TestDirectDoorbells: doorbells are not trapped, everything else is, and a doorbell
// is heard before the call that the program makes after it.
func TestDirectDoorbells(t *testing.T) {
	const rounds = 500
	h := newBellFakes(t)
	out := run(t, options{program: "bells", host: h, bells: DoorbellsDirect}, fmt.Sprint(rounds))
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
		name  string
		bells Doorbells
		limit string
	}{
		{"wanted", DoorbellsTrapped, "unlimited"},
		{"limited files", DoorbellsDirect, "1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newBellFakes(t)
			p := start(t, options{program: "bells", host: h, bells: tt.bells, ulimit: "-f " + tt.limit}, fmt.Sprint(rounds))
			p.wait()
			if n := h.called.Load(); n != 2*rounds+1 || h.rung.Load() != 0 {
				t.Errorf("%d calls and %d doorbells, want %d and none", n, h.rung.Load(), 2*rounds+1)
			}
		})
	}
	t.Run("old library", func(t *testing.T) { // it does not ask for netlink
		h := newBellFakes(t)
		run(t, options{program: "doorbell", host: h, bells: DoorbellsDirect})
		if h.called.Load() != 1 || h.rung.Load() != 0 {
			t.Errorf("%d calls and %d doorbells", h.called.Load(), h.rung.Load())
		}
	})
}

// TestBlockedDoorbell: a doorbell whose work waits for memory that does not answer blocks
// neither calls nor later doorbells.
func TestBlockedDoorbell(t *testing.T) {
	h := newBellFakes(t)
	h.hold = make(chan struct{})
	p := start(t, options{program: "bells", host: h, bells: DoorbellsDirect}, "50")
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

// TestMute: when the daemon is gone, direct doorbells fail too.
func TestMute(t *testing.T) {
	want := fmt.Sprintln(unix.EPERM, unix.ENODEV, unix.ENOENT, nil)
	if got := orphaned(t, "bell", DoorbellsDirect); got != want {
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

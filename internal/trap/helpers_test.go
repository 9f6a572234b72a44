package trap

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
)

// meeting is where two files meet: each one's doorbells are in hand until those of the other
// one are in hand as well.
type meeting struct {
	*fakes
	opened  atomic.Int32
	helped  func() bool // the session has a helper
	arrived [2]chan struct{}
	met     chan struct{} // both have arrived
	hold    chan struct{} // the second file stays in hand until it is closed
	late    atomic.Bool
}

func newMeeting(t testing.TB) *meeting {
	m := &meeting{
		fakes: newFakes(t), met: make(chan struct{}), hold: make(chan struct{}),
		arrived: [2]chan struct{}{make(chan struct{}), make(chan struct{})},
	}
	open := m.open
	m.open = func(name string, who Credentials) (File, error) {
		f, err := open(name, who)
		if err != nil {
			return nil, err
		}
		n := m.opened.Add(1) - 1
		return &metFile{fakeFile: f.(*fakeFile), at: m, busy: n == 0, here: m.arrived[n], there: m.arrived[1-n]}, nil
	}
	return m
}

// start starts the program that opens and rings both. It goes on when out is closed.
func (m *meeting) start(t testing.TB, o options) (p *underTrap, out *os.File) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		out.Close()
	})
	o.program, o.host, o.doorbells, o.stdin = "ring-both", m, doorbell.Direct, in
	return start(t, o), out
}

// metFile is one of the two. One is busy: it has more until there is a helper.
type metFile struct {
	*fakeFile
	at          *meeting
	busy        bool
	came        atomic.Bool
	here, there chan struct{}
}

func (f *metFile) TakeDoorbells(bool) kernel.Doorbells { return kernel.Doorbells{More: f.take()} }

func (f *metFile) take() (more bool) {
	if f.busy && !f.at.helped() {
		return true
	}
	if f.came.Swap(true) {
		return false
	}
	close(f.here)
	select {
	case <-f.there:
	case <-time.After(must.Limit): // the test has failed
		f.at.late.Store(true)
	}
	if f.busy {
		close(f.at.met)
	} else {
		<-f.at.hold
	}
	return false
}

// helpersOf returns how many helpers a session has started.
func helpersOf(s *Session) (n int) {
	for _, g := range s.direct.all() {
		n += g.helpers.count()
	}
	return n
}

// TestHelper: if a device always has more to do, a helper takes the doorbells of another
// one at the same time. Neither is replaced. The session can end while one of the two threads
// is blocked: it replaces that thread, and the program's calls go on.
func TestHelper(t *testing.T) {
	for _, blocked := range []bool{false, true} {
		name := map[bool]string{false: "two at once", true: "one is blocked"}[blocked]
		t.Run(name, func(t *testing.T) {
			m := newMeeting(t)
			var session atomic.Pointer[Session]
			m.helped = func() bool {
				s := session.Load()
				return s != nil && helpersOf(s) > 0
			}
			p, out := m.start(t, options{oneRinger: true, patient: !blocked})
			session.Store(p.session)
			<-m.met
			if !blocked {
				close(m.hold)
			}
			out.Close() // the program goes on
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, p.err.String())
			}
			if blocked {
				close(m.hold)
			}
			p.ended()
			m.allClosed(t)
			if m.late.Load() {
				t.Error("one thread takes all doorbells")
			}
			if n := helpersOf(p.session); n != 1 {
				t.Errorf("%d helpers for two devices, want 1", n)
			}
		})
	}
}

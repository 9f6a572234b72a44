package trap

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/trap/inflight"
)

// TestDuty walks the table of a duty's states.
func TestDuty(t *testing.T) {
	s := &Session{cfg: ServeConfig{Budget: quota.New(quota.Cost{Threads: 1}), User: new(User)}, page: inflight.Own()}
	s.users.Add(1) // nothing is closed
	s.direct.init(s)
	s.receivers.watch = standby.NewWatch(time.Hour)
	defer s.receivers.watch.Close()
	var d duty
	var all sync.WaitGroup
	armed, leave := 0, make(chan struct{})
	d.init(s, func(*receiver) { <-leave }, all.Go)
	d.arm, d.disarm = func() { armed++ }, func() { armed-- }
	armed = 1
	expect := func(state dutyState, threads, arms int) {
		t.Helper()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.state != state || s.cfg.Budget.Used().Threads != threads || armed != arms {
			t.Errorf("state %d, %d threads, armed %d; want %d, %d, %d", d.state, s.cfg.Budget.Used().Threads, armed, state, threads, arms)
		}
	}
	hired := func() {
		t.Helper()
		for d.knock(); ; time.Sleep(time.Millisecond) {
			d.mu.Lock()
			now := d.state
			d.mu.Unlock()
			if now != hiring {
				return
			}
		}
	}

	expect(vacant, 0, 1)
	hired()
	expect(taken, 1, 0)
	first := d.current
	d.knock() // there is one
	if d.current != first {
		t.Error("a second receiver was started")
	}
	leave <- struct{}{}
	s.running.Wait()
	expect(vacant, 0, 1)

	// Another one of the user has the thread. It ends before there is one.
	if err := s.cfg.Budget.TakeNow(threadCost); err != nil {
		t.Fatal(err)
	}
	s.log = slog.New(slog.DiscardHandler)
	d.knock()
	expect(hiring, 1, 1)
	s.cfg.Budget.Give(threadCost)
	hired()
	expect(taken, 1, 0)

	// Blocked in a call: another receiver takes its place, and the thread that was paid for.
	blocked := d.current
	blocked.Enter()
	d.TooLong(blocked.Call(), nil)
	if !blocked.Replaced() || d.current == blocked || s.receivers.blocked.Load() != 1 {
		t.Error("a receiver that does not return has its place")
	}
	expect(taken, 1, 0)
	d.TooLong(d.current.Call(), nil) // which is in no call
	if d.current.Replaced() {
		t.Error("a receiver was replaced that is in no call")
	}

	d.stop()
	expect(ended, 0, 0)
	close(leave)
	s.running.Wait()
	all.Wait() // the blocked one, too
	d.knock()
	expect(ended, 0, 0)
}

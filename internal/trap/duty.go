package trap

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// User is what the sessions of one user have in common: how many of their threads
// are blocked by memory that does not answer. The zero value is ready.
type User struct {
	blocked  atomic.Int32 // receivers
	accesses procmem.User // by the engine

	doorbells doorbell.Instances
}

// duty is what one receiver at a time does: receive calls, take the direct doorbells of devices, or
// help with these. A receiver reads or writes memory of a program, and the provider of the page
// (userfaultfd(2), FUSE) may take any time to answer. Only calls that need that memory may wait for
// it. So the session's [standby.Watch] looks at the receiver, and another one takes its place.
//
// A duty has no thread while there is nothing to do. The poller then waits for something:
//
//	state    becomes
//	vacant   hiring, when the poller knocks
//	hiring   taken, when the user's budget gives a thread
//	taken    vacant, when the receiver has left: the watch sends it away after a second without a
//	         call. A helper, which the poller does not start, stays until the session stops
//	each     ended, when the session stops
type duty struct {
	s      *Session
	run    func(*receiver) // what the receiver does
	launch func(func())    // starts it
	done   chan struct{}   // closed when it has ended
	entry  *standby.Entry

	// arm makes the poller call knock when a receiver is needed, and disarm ends that. They are nil
	// for a helper.
	arm, disarm func()

	mu      sync.Mutex
	state   dutyState
	paid    bool      // the user's budget has given the receiver's thread
	current *receiver // while it is taken
}

type dutyState uint8

const (
	vacant dutyState = iota
	hiring
	taken
	ended
)

func (d *duty) init(s *Session, run func(*receiver), launch func(func())) {
	d.s, d.run, d.launch, d.done = s, run, launch, make(chan struct{})
}

// receivers is what the receivers of a session have in common.
type receivers struct {
	watch   *standby.Watch
	blocked atomic.Int32
	wakeUps wakeUps
	last    atomic.Uint64 // the number of the last call that was received
	missed  atomic.Bool   // a call ended before anybody received it

	// Tests change these before Serve: after how long a call is blocked, and how many looks find a
	// receiver with nothing to do before it is sent away.
	callLimit time.Duration
	idleLooks int
}

// received notes the number of a call. The kernel numbers calls one after the other, and delivers
// them in this order (kernel/seccomp.c: seccomp_next_notify_id). So a number that is left out is of
// a call that nobody received.
func (v *receivers) received(id uint64) {
	if last := v.last.Swap(id); last != 0 && id != last+1 {
		v.missed.Store(true)
	}
}

// exhausted reports whether no more receivers can be spared.
func (s *Session) exhausted() bool {
	return s.receivers.blocked.Load() >= maxBlocked || s.cfg.User.blocked.Load() >= maxUserBlocked
}

// countBlocked adds n to the receivers that are blocked, and returns how many they are.
func (s *Session) countBlocked(n int32) int32 {
	s.cfg.User.blocked.Add(n)
	return s.receivers.blocked.Add(n)
}

// startHelper starts the receiver of a helper's duty. It gives up its thread by itself.
func (d *duty) startHelper() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.place(nil)
}

// knock is called when a receiver is needed, and waits for nothing.
func (d *duty) knock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == vacant {
		d.state = hiring
		d.s.running.Go(d.hire)
	}
}

// hire starts a receiver, if the session does not stop before the user may have a thread more.
func (d *duty) hire() {
	if !d.enlist() {
		return
	}
	d.disarm()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != hiring {
		d.s.cfg.Budget.Give(threadCost)
		return
	}
	d.paid = true
	d.place(nil)
}

// enlist waits until the user may have one thread more. It returns false when the session stops.
// Until then the program's calls wait. The threads of those who have nothing to do come back soon.
func (d *duty) enlist() bool {
	for said := false; ; said = true {
		err := d.s.cfg.Budget.TakeNow(threadCost)
		if err == nil {
			return true
		}
		if !said {
			d.s.log.Warn("user limit reached: calls of the program wait for a thread of the daemon", "error", err,
				"hint", "RLIMIT_NPROC, TasksMax= and pids.max bound the threads of the daemon")
		}
		select {
		case <-d.done:
			return false
		case <-time.After(watchInterval):
		}
	}
}

// giveBack gives the thread back; d.mu is held.
func (d *duty) giveBack() {
	if d.paid {
		d.paid = false
		d.s.cfg.Budget.Give(threadCost)
	}
}

// place starts a receiver, which first answers call unless that is nil; d.mu is held.
func (d *duty) place(call *notify.Call) {
	if d.entry == nil {
		d.entry = d.s.receivers.watch.Add(d)
	}
	r := &receiver{s: d.s, slot: d.s.page.Slot()}
	if call != nil {
		r.n, r.inherited = *call, true
		d.s.page.Inherit(r.slot, call)
	}
	d.state, d.current = taken, r
	d.entry.Appoint(&r.Worker)
	d.s.running.Add(1)
	d.s.users.Add(1)
	d.launch(func() {
		d.run(r)
		d.s.page.Free(r.slot)
		d.s.release()
		if r.Replaced() {
			d.s.countBlocked(-1)
		} else {
			d.vacate()
			d.s.running.Done()
		}
	})
}

// vacate is called by the receiver when it leaves. The poller waits from now on.
func (d *duty) vacate() {
	d.mu.Lock()
	wait := d.state == taken && d.arm != nil
	if wait {
		d.state, d.current = vacant, nil
		d.entry.Appoint(nil)
		d.giveBack()
	}
	d.mu.Unlock()
	if wait {
		d.arm()
	}
}

// Idle implements [standby.Owner]: it sends the receiver away that has nothing to do.
func (d *duty) Idle(looks int) (again bool) {
	if d.arm == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == taken && looks >= d.s.receivers.idleLooks {
		d.current.dismiss()
	}
	return true
}

// TooLong implements [standby.Owner]: it puts another receiver in the place of one that does not
// return from a call, unless it just came back.
func (d *duty) TooLong(call standby.Call, _ func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.current
	if d.s.stopping.Load() || d.state != taken {
		return
	}
	id := r.slot.ID() // this call's, if it is blocked
	ok, answer, val := r.markBlocked(call)
	if !ok {
		return
	}
	d.s.direct.replaced()
	// Not blocked by its own memory: the doorbell was read, and works at another
	// program's, which must not hold up this one.
	if answer {
		d.s.listener.Send(&notify.Answer{ID: id, Value: val})
	}
	d.s.tellBlocked(d.s.countBlocked(1))
	d.s.running.Done() // for r
	if r.callWaits {
		d.place(&r.n) // r writes nothing there, and will see that it is blocked
	} else {
		d.place(nil)
	}
}

// tellBlocked says in the log that n receivers are blocked now.
func (s *Session) tellBlocked(n int32) {
	level := slog.LevelDebug // a few: the machine may just be busy
	if n >= fewBlocked {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level,
		"a call is blocked by memory that does not answer, or delayed by a busy machine; another thread takes over", "blocked", n)
	if n == maxBlocked {
		s.log.Error("too many calls are blocked by memory that does not answer: "+
			"devices answer EIO until some of it does", "blocked", maxBlocked)
	}
}

// stop ends the duty and its receiver. One that stays busy is not waited for:
// what it waits for may be the program's.
func (d *duty) stop() {
	close(d.done)
	d.mu.Lock()
	r := d.current
	d.state = ended
	d.giveBack()
	d.mu.Unlock()
	if r == nil {
		return
	}
	var last standby.Call
	looks := 0
	for r.tid.Load() != 0 && !r.Replaced() {
		r.nudge()
		time.Sleep(stopInterval)
		call := r.Call()
		if call != last || !call.Inside() {
			last, looks = call, 0
		} else if looks++; looks >= stopLooks {
			d.abandon(r, call)
		}
	}
}

// abandon lets the receiver finish its call alone.
func (d *duty) abandon(r *receiver, call standby.Call) {
	d.s.countBlocked(1)
	r.abandoned.Store(true)
	if ok, _, _ := r.markBlocked(call); ok {
		d.s.direct.replaced()
		d.s.running.Done()
	} else {
		d.s.countBlocked(-1)
	}
}

package trap

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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

// watchdog replaces a receiver that does not return from a call. Such a receiver reads or
// writes memory of a program, and the provider of the page (userfaultfd(2), FUSE) may take
// any time to answer. Only calls that need that memory may wait for it. A session has a
// watchdog for the receiver of calls, one for the receiver of direct doorbells, and one for each
// helper.
//
// It also sends away a receiver that has nothing to do, and starts one when there is something
// (rest). So a session that is idle has no thread. A helper gives up its thread by itself.
type watchdog struct {
	s      *Session
	run    func(*receiver) // what the receiver does
	launch func(func())    // starts it
	asleep atomic.Bool
	alarm  chan struct{} // wakes it
	done   chan struct{}

	// watch makes the poller call wake when a receiver is needed, and unwatch ends that. If they
	// are nil, receivers stay.
	watch, unwatch func()

	interval  time.Duration // between looks; tests change it before Serve
	idleLooks int           // tests change it before Serve

	paid bool // the user's budget has given the receiver's thread; of guard

	mu      sync.Mutex
	current *receiver
}

func (w *watchdog) init(s *Session, run func(*receiver), launch func(func())) {
	w.s, w.run, w.launch, w.alarm, w.done = s, run, launch, make(chan struct{}, 1), make(chan struct{})
	w.interval, w.idleLooks = watchInterval, idleLooks
}

// wake ends its rest.
func (w *watchdog) wake() {
	select {
	case w.alarm <- struct{}{}:
	default:
	}
}

// see is called by a receiver when it has a call in hand.
func (w *watchdog) see() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake()
	}
}

// exhausted reports whether no more receivers can be spared.
func (s *Session) exhausted() bool {
	return s.blocked.Load() >= maxBlocked || s.cfg.User.blocked.Load() >= maxUserBlocked
}

// countBlocked adds n to the receivers that are blocked, and returns how many they are.
func (s *Session) countBlocked(n int32) int32 {
	s.cfg.User.blocked.Add(n)
	return s.blocked.Add(n)
}

func (w *watchdog) start() {
	w.mu.Lock()
	if w.watch == nil {
		w.replace(nil)
	} else { // guard starts the first one when it is needed
		w.current = &receiver{s: w.s, dog: w}
		w.current.left.Store(true)
	}
	w.mu.Unlock()
	w.s.running.Go(w.guard)
}

// enlist waits until the user may have one thread more. It returns false when the session stops.
// Until then the program's calls wait. The threads of those who have nothing to do come back soon.
func (w *watchdog) enlist() bool {
	for said := false; ; said = true {
		err := w.s.cfg.Budget.TakeNow(threadCost)
		if err == nil {
			w.paid = true
			return true
		}
		if !said {
			w.s.log.Warn("user limit reached: calls of the program wait for a thread of the daemon", "error", err,
				"hint", "RLIMIT_NPROC, TasksMax= and pids.max bound the threads of the daemon")
		}
		select {
		case <-w.done:
			return false
		case <-time.After(w.interval):
		}
	}
}

// release gives the thread back.
func (w *watchdog) release() {
	if w.paid {
		w.paid = false
		w.s.cfg.Budget.Give(threadCost)
	}
}

// replace starts a receiver, which first answers call unless that is nil; w.mu is held.
func (w *watchdog) replace(call *notify.Call) {
	r := &receiver{s: w.s, dog: w, slot: w.s.page.Slot()}
	if call != nil {
		r.n, r.inherited = *call, true
		w.s.page.Inherit(r.slot, call)
	}
	w.current = r
	w.s.running.Add(1)
	w.s.users.Add(1)
	w.launch(func() {
		w.run(r)
		w.s.page.Free(r.slot)
		w.s.release()
		if r.Replaced() {
			w.s.countBlocked(-1)
		} else {
			r.left.Store(true)
			w.s.running.Done()
		}
	})
}

// guard looks at the receiver from time to time. A call is known by its number
// in the receiver's state, so the receiver need not read the clock.
func (w *watchdog) guard() {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	defer w.release()
	if w.watch != nil && !w.rest(ticker) {
		return
	}
	var last uint64
	looks, idle := 0, 0
	for {
		select {
		case <-w.done:
			return
		case <-ticker.C:
		}
		state := w.current.state.Load()
		switch {
		case w.current.left.Load():
			// A helper leaves when the session stops.
			if w.watch == nil || !w.rest(ticker) {
				return
			}
			last, looks, idle = 0, 0, 0
		case state != last:
			last, looks, idle = state, 0, 0
		case state&busy != 0:
			if looks++; looks >= blockedLooks {
				w.takeOver(state)
				last, looks = 0, 0
			}
		default:
			if idle++; idle < w.idleLooks {
				break
			}
			if w.watch != nil {
				w.current.dismiss()
			} else if !w.sleep(ticker) {
				return
			} else {
				idle = 0
			}
		}
	}
}

// rest waits until a receiver is needed, and starts it; false means that the session stops.
func (w *watchdog) rest(ticker *time.Ticker) bool {
	ticker.Stop()
	w.release()
	w.watch()
	select {
	case <-w.done:
		return false
	case <-w.alarm:
	}
	if !w.enlist() {
		return false
	}
	w.unwatch()
	w.mu.Lock()
	if !w.s.stopping.Load() {
		w.replace(nil)
	}
	w.mu.Unlock()
	ticker.Reset(w.interval)
	return true
}

// sleep waits for the next call; false means that the session stops.
func (w *watchdog) sleep(ticker *time.Ticker) bool {
	ticker.Stop()
	w.asleep.Store(true)
	// A call that came just before has not seen that; one that comes later has.
	if w.current.state.Load()&busy == 0 {
		select {
		case <-w.done:
			return false
		case <-w.alarm:
		}
	}
	w.asleep.Store(false)
	ticker.Reset(w.interval)
	return true
}

// takeOver puts a spare in the place of the receiver, unless it just came back.
func (w *watchdog) takeOver(state uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.current
	if w.s.stopping.Load() {
		return
	}
	id := r.slot.ID() // this call's, if it is blocked
	ok, taken, val := r.markBlocked(state)
	if !ok {
		return
	}
	w.s.direct.replaced()
	// Not blocked by its own memory: the doorbell was read, and works at another
	// program's, which must not hold up this one.
	if taken {
		w.s.listener.Send(&notify.Answer{ID: id, Value: val})
	}
	n := w.s.countBlocked(1)
	level := slog.LevelDebug // a few: the machine may just be busy
	if n >= fewBlocked {
		level = slog.LevelWarn
	}
	w.s.log.Log(context.Background(), level,
		"a call is blocked by memory that does not answer, or delayed by a busy machine; another thread takes over", "blocked", n)
	if n == maxBlocked {
		w.s.log.Error("too many calls are blocked by memory that does not answer: "+
			"devices answer EIO until some of it does", "blocked", maxBlocked)
	}
	w.s.running.Done() // for r
	if r.callWaits {
		w.replace(&r.n) // r writes nothing there, and will see that it is blocked
	} else {
		w.replace(nil)
	}
}

// stop ends the watch and the receiver. One that stays busy is not waited for:
// what it waits for may be the program's.
func (w *watchdog) stop() {
	close(w.done)
	w.mu.Lock()
	r := w.current
	w.mu.Unlock()
	var last uint64
	looks := 0
	for r.tid.Load() != 0 && !r.Replaced() {
		r.nudge()
		time.Sleep(stopInterval)
		state := r.state.Load()
		if state != last || state&busy == 0 {
			last, looks = state, 0
		} else if looks++; looks >= stopLooks {
			w.abandon(r, state)
		}
	}
}

// abandon lets the receiver finish its call alone.
func (w *watchdog) abandon(r *receiver, state uint64) {
	w.s.countBlocked(1)
	r.abandoned.Store(true)
	if ok, _, _ := r.markBlocked(state); ok {
		w.s.direct.replaced()
		w.s.running.Done()
	} else {
		w.s.countBlocked(-1)
	}
}

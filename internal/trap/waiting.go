package trap

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
)

// waiting are the calls of a session that wait: a file had nothing to return
// (kernel.ErrWait), and the program wants to wait for it. They occupy no receiver and no
// thread. One goroutine serves all of them while there are any. It detects signals and
// killed threads, and makes a call again when its file is ready.
type waiting struct {
	s    *Session
	wake chan struct{}

	mu      sync.Mutex // a leaf lock
	calls   []*waitingCall
	running int  // calls that are being made again
	looking bool // the goroutine runs
	stopped bool
}

// waitingCall is one of them. waiting.mu guards the fields that change.
type waitingCall struct {
	n      notify.Call
	o      *object
	record *inflight.Record // where the keeper finds it
	since  int64            // clock.Now
	until  int64            // when it fails with EAGAIN (SO_RCVTIMEO); 0: never

	look    int64 // when to look at its thread again
	ready   bool  // it must be made again
	running bool  // it is being made again
	shared  bool  // at the last look, a signal was pending for the process; run's alone
}

func (w *waiting) init(s *Session) { w.s, w.wake = s, make(chan struct{}, 1) }

// add leaves the call that a receiver has in hand waiting for o, and is the verdict on
// it. seen is how often the file had been ready before it said that there was nothing.
func (w *waiting) add(r *receiver, o *object, seen uint64) verdict {
	if flags, err := procfs.FileFlags(r.thread(), r.fd(0)); err == nil && flags&unix.O_NONBLOCK != 0 {
		return fail(unix.EAGAIN)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return fail(unix.ENODEV)
	}
	page := w.s.page
	c := &waitingCall{n: r.n, o: o, record: page.AddWaiting(r.n.ID), since: clock.Now()}
	if c.record == nil {
		w.s.log.Warn("too many calls of the program wait: it gets ENOMEM", "path", o.node.Path, "limit", inflight.MaxWaiting)
		return fail(unix.ENOMEM)
	}
	if o.socket != nil && o.socket.ReceiveTimeout() > 0 {
		c.until = c.since + int64(o.socket.ReceiveTimeout())
	}
	c.look = c.since + int64(lookShort)
	c.ready = o.events.Load() != seen
	w.calls = append(w.calls, c)
	if !w.looking {
		w.looking = true
		w.s.users.Add(1)
		w.s.running.Go(w.run)
	}
	if c.ready {
		w.kick()
	}
	return verdict{kind: sent}
}

// ready has the longest waiting call on o made again. It does not block, and its caller
// may hold locks.
func (w *waiting) ready(o *object) {
	o.events.Add(1) // for a call that is being made now, and finds nothing yet
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next(o)
}

// next marks the longest waiting call on o; w.mu is held.
func (w *waiting) next(o *object) {
	for _, c := range w.calls {
		if c.o == o && !c.running && !c.ready {
			c.ready = true
			w.kick()
			return
		}
	}
}

// kick has the goroutine look at the list.
func (w *waiting) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// keeps reports whether calls wait for o, which the program has closed. As in the kernel
// these still refer to it, and the last of them closes it.
func (w *waiting) keeps(o *object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.orphan = w.waits(func(c *waitingCall) bool { return c.o == o })
	return o.orphan
}

// waits reports whether a waiting call is so; w.mu is held.
func (w *waiting) waits(so func(c *waitingCall) bool) bool { return slices.ContainsFunc(w.calls, so) }

// stop answers all calls, and lets no more come. What is being made again ends alone.
func (w *waiting) stop() {
	w.mu.Lock()
	w.stopped = true
	idle := slices.DeleteFunc(slices.Clone(w.calls), func(c *waitingCall) bool { return c.running })
	w.mu.Unlock()
	for _, c := range idle {
		w.answer(c, unix.ENODEV)
	}
	w.kick()
}

// run serves the calls until there are none.
func (w *waiting) run() {
	defer w.s.release()
	timer := time.NewTimer(lookShort)
	defer timer.Stop()
	for {
		due, pause, more := w.round()
		for _, c := range due {
			w.check(c)
		}
		if !more {
			return
		}
		timer.Reset(pause)
		select {
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// round starts the calls that are ready. It returns those whose threads are due for a look,
// and the pause after that.
func (w *waiting) round() (due []*waitingCall, pause time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 || w.stopped {
		w.looking = false
		return nil, 0, false
	}
	now := clock.Now()
	pause = lookLong
	least := time.Duration(len(w.calls)) * lookCost
	for _, c := range w.calls {
		switch {
		case c.running:
		case c.ready && w.running < maxRunning:
			c.ready, c.running = false, true
			w.running++
			w.s.users.Add(1)
			go w.again(c)
		case c.look <= now:
			due = append(due, c)
			interval := max(least, min(max(time.Duration(now-c.since)/lookSlow, lookShort), lookLong))
			c.look = now + int64(interval)
			if c.until > now {
				c.look = min(c.look, c.until)
			}
			pause = min(pause, interval)
		default:
			pause = min(pause, time.Duration(c.look-now))
		}
	}
	return due, max(pause, lookShort), true
}

// again makes a call again.
func (w *waiting) again(c *waitingCall) {
	defer w.s.release()
	r := &receiver{s: w.s, n: c.n}
	r.caller.begin(r)
	seen := c.o.events.Load()
	v := verdict{kind: sent}
	if w.s.listener.Valid(c.n.ID) {
		v = r.tryFile(c.o)
	}
	w.mu.Lock()
	w.running--
	c.running = false
	if v.kind == waits && !w.stopped {
		c.ready = c.ready || c.o.events.Load() != seen
		w.kick()
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	if v.kind == waits {
		v = fail(unix.ENODEV)
	}
	r.send(v)
	w.mu.Lock()
	c.ready = true // there may be more, for the next call
	w.mu.Unlock()
	w.finish(c)
}

// answer ends a call with an error.
func (w *waiting) answer(c *waitingCall, errno unix.Errno) {
	w.s.listener.Refuse(c.n.ID, errno) // a caller that has gone needs no answer
	w.finish(c)
}

// finish forgets a call. If it should have been made again, the next one is instead.
func (w *waiting) finish(c *waitingCall) {
	w.mu.Lock()
	w.calls = slices.DeleteFunc(w.calls, func(x *waitingCall) bool { return x == c })
	c.record.Free()
	if c.ready {
		w.next(c.o)
	}
	closed := c.o.orphan && !w.waits(func(x *waitingCall) bool { return x.o == c.o })
	w.kick()
	w.mu.Unlock()
	if closed {
		w.s.closeObject(c.o)
	}
}

// check ends a call whose thread was killed, or has to take a signal.
func (w *waiting) check(c *waitingCall) {
	if !w.s.listener.Valid(c.n.ID) {
		w.finish(c)
		return
	}
	errno := w.interrupted(c)
	if errno == 0 && c.until != 0 && clock.Now() >= c.until {
		errno = unix.EAGAIN
	}
	if errno != 0 {
		w.answer(c, errno)
	}
}

// errRestart is ERESTARTSYS (linux/errno.h): the kernel runs the handler, and then restarts the
// call if the handler has SA_RESTART; otherwise the call fails with EINTR. The kernel does so only
// for a thread that it has told of a signal. All other threads would see this number.
const errRestart = unix.Errno(512)

// interrupted returns what a call is answered with because of a signal, 0 if there is
// none. After it was received, a call ends by itself only when its thread is killed
// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV). So /proc has to tell what is pending.
func (w *waiting) interrupted(c *waitingCall) unix.Errno {
	tid := int(c.n.TID)
	sig, err := procfs.ReadSignals(tid)
	if err != nil {
		return 0 // it has ended, and the next look finds its call invalid
	}
	if sig.Thread&^sig.Blocked != 0 {
		return errRestart
	}
	shared := sig.Process &^ sig.Blocked
	first := !c.shared
	c.shared = shared != 0
	switch {
	case shared == 0:
		return 0
	case tid == sig.TGID:
		// The kernel tells the first thread, if that does not block the signal
		// (kernel/signal.c: complete_signal).
		return errRestart
	case first:
		return 0 // another thread may take it
	}
	return w.sharedSignal(tid, sig.TGID, shared)
}

// sharedSignal decides for a thread other than the first. The kernel tells one thread of a
// signal for the process. A thread that was told does not sleep. So if all other threads
// that could be told sleep, it is this one; if some of them wait here too, it may be any.
func (w *waiting) sharedSignal(tid, tgid int, shared uint64) unix.Errno {
	answer := errRestart
	for _, other := range procfs.Threads(tgid) {
		if other == tid {
			continue
		}
		sig, err := procfs.ReadSignals(other)
		if err != nil || shared&^sig.Blocked == 0 || sig.Asleep {
			continue
		}
		w.mu.Lock()
		here := w.waits(func(c *waitingCall) bool { return int(c.n.TID) == other })
		w.mu.Unlock()
		if !here || other == tgid {
			return 0 // that thread takes it
		}
		answer = unix.EINTR // right for any thread, but no call is restarted
	}
	// A thread that took the signal meanwhile may have ended, and is not in the list.
	if sig, err := procfs.ReadSignals(tid); err != nil || sig.Process&^sig.Blocked == 0 {
		return 0
	}
	return answer
}

package mlx5

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/rxe"
)

// poller looks at the registers of an open, with one worker at a time.
type poller struct {
	c        *userContext
	class    *sched.Class
	once     sync.Once
	err      error // of start
	role     *standby.Role
	stopping atomic.Bool
	napping  atomic.Uint32 // 1 while the thread is in a long pause, which wake ends
	looks    atomic.Uint64 // so far
	begun    atomic.Bool   // there was a worker
}

// worker is a thread of the poller. Another one takes its place when the memory of a program blocks
// it. So it shares nothing with that one, which begins with a look at all queues: this one may have
// cleared registers that it does not come to.
type worker struct {
	*poller
	*standby.Worker
	policy sched.Polled
	all    bool // the next look is at all queues
	hit    []bool
	rung   bool // the guard has an access that waits
	stops  bool // each store shall wait
	turned bool // since the last look
	stands []stand

	pace  sched.Stops
	quick time.Duration // until then stores do not wait: they come too fast

	ready  []*queuePair
	spans  []rxe.Span
	record [][4]byte

	// What guarding has found for these:
	covers  sched.Guarding
	covered *covered
	ringing *ringing
}

// watch replaces the blocked pollers of all opens. It lives as long as there are pollers.
var watch sharedWatch

type sharedWatch struct {
	mu    sync.Mutex
	users int
	watch *standby.Watch
}

func (s *sharedWatch) start(run func(*standby.Worker)) *standby.Role {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users == 1 {
		s.watch = standby.NewWatch(standby.CallLimit)
	}
	return s.watch.Start(pollers, run)
}

func (s *sharedWatch) stop(r *standby.Role) {
	r.Stop(stopTimeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.watch.Close()
	}
}

func (p *poller) init(c *userContext, class *sched.Class) {
	p.c, p.class = c, class
}

// start starts the thread, once, if the user may have one more. Threads are left for the calls of
// the user's programs, which would wait for one.
func (p *poller) start() error {
	p.once.Do(func() {
		budget := p.c.budget
		if p.err = budget.Take(quota.Cost{Threads: pollerCost.Threads + leftThreads}); p.err == nil {
			budget.Give(quota.Cost{Threads: leftThreads})
			p.role = watch.start(p.run)
		}
	})
	return p.err
}

// stop ends it, and waits for it, but not if it is blocked.
func (p *poller) stop() {
	p.stopping.Store(true)
	p.once.Do(func() {}) // it does not start any more
	p.wake()
	p.c.guard.rouse()
	if p.role != nil {
		watch.stop(p.role)
	}
}

// wake ends a long pause: the program may ring soon.
func (p *poller) wake() {
	if p.napping.Load() != 0 && p.napping.CompareAndSwap(1, 0) {
		// nobody may sleep
		_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.napping)), futexWake, 1)
	}
}

func (p *poller) run(in *standby.Worker) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	exact := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil // or 50 µs more pass
	defer func() {
		if exact {
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: the default
		}
	}()
	thread := sched.Thread{Class: p.class}
	defer thread.End()
	again := p.begun.Swap(true)
	if again { // others bound how many workers memory blocks (procmem.User)
		p.c.budget.Charge(pollerCost)
	}
	defer p.c.budget.Give(pollerCost)
	w := worker{poller: p, Worker: in, all: again, policy: sched.Polled{Processors: runtime.NumCPU(), Ready: procfs.Ready}}
	// the worker before this one was blocked
	if p.c.guard.armed.Load() && !w.call(p.c.guard.release) {
		return
	}
	for !p.stopping.Load() {
		found, inPlace := w.look()
		if !inPlace {
			return
		}
		pause := w.policy.Observe(sched.Now(), found, w.guarding())
		if w.stops && w.c.guard.usable() {
			pause = sched.Pause{For: stoppedPause, Guard: true}
			if w.turned { // a store lands now, and perhaps another one that stood beside it
				pause.For, w.turned = landedPause, false
			}
		}
		thread.UpdateClass(w.policy.Class())
		if !w.wait(pause) {
			return
		}
	}
}

// call calls what may block. It reports whether the worker is still in its place.
func (w *worker) call(f func()) (inPlace bool) {
	w.Enter()
	f()
	return w.Leave()
}

// guarding returns what of the program a guarded pause does not miss.
func (w *worker) guarding() sched.Guarding {
	c, r := w.c.guard.covered.Load(), w.c.doorbells.current.Load()
	if c == w.covered && r == w.ringing {
		return w.covers
	}
	w.covered, w.ringing, w.covers = c, r, sched.Unguarded
	if c != nil {
		w.covers = sched.Guarded
		if c.clock && c.has(r) {
			w.covers = sched.Wholly
		}
	}
	return w.covers
}

// has reports whether all pages with these registers are covered.
func (c *covered) has(r *ringing) bool {
	if r == nil {
		return true
	}
	for p := range r.pages {
		if !c.registers[p] {
			return false
		}
	}
	return true
}

// wait waits until the next look. It reports whether the thread is still in its place.
func (w *worker) wait(pause sched.Pause) (inPlace bool) {
	g := &w.c.guard
	switch armed := g.armed.Load(); {
	case pause.Guard && !armed:
		return w.call(g.arm) // and look once more
	case pause.Guard:
		w.rung = g.await(pause.For)
	case armed && w.c.doorbells.stops(): // since this look; cover has armed it
		w.rung = g.await(stoppedPause)
	case armed:
		return w.call(g.release)
	default:
		w.pause(pause.For)
	}
	return true
}

func (p *poller) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	if d < longPause {
		sched.PauseBriefly(d)
		return
	}
	p.napping.Store(1)
	if !p.stopping.Load() {
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.napping)), futexWait, 1, uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	p.napping.Store(0)
}

// look takes the doorbells that have rung. It reports whether there was something to do, and
// whether the thread is still in its place. A store that has waited is seen once more when it
// lands.
func (w *worker) look() (found, inPlace bool) {
	r := w.c.doorbells.current.Load()
	if r == nil {
		r = &ringing{}
	}
	w.stops, w.stands = r.stops && sched.Now() >= w.quick, w.stands[:0]
	w.hit = append(w.hit[:0], make([]bool, len(r.words))...)
	w.looks.Add(1)
	w.c.clock.tick()
	ok := w.c.pages.take(r.words, func(i int) { w.hit[i], found = true, true })
	if !ok {
		w.stopping.Store(true)
		// nobody looks any more: no store waits
		return false, w.call(func() { w.c.guard.end(errLost) })
	}
	if !found && !w.rung && !w.all {
		return false, true
	}
	if w.rung && !w.call(func() { w.collect(r) }) {
		return true, false
	}
	if w.all {
		w.all = false
		for i := range w.hit {
			w.hit[i] = true
		}
	}
	if found, inPlace = w.serve(r); !inPlace || !w.rung {
		return found, inPlace
	}
	return true, w.letGo(r)
}

// letGo lets the accesses that wait go on, and reports whether the thread is still in its place.
func (w *worker) letGo(r *ringing) (inPlace bool) {
	w.rung = false
	if now := sched.Now(); w.stops && len(w.stands) > 0 && !w.pace.Take(now) {
		w.quick, w.stops = now+sched.StopEvery, false
	}
	return w.call(func() {
		g := &w.c.guard
		w.c.clock.tick()
		if w.stops {
			w.crossed(r)
		}
		if w.turned = w.stops && g.turn(); w.turned {
			return
		}
		g.release()
		if w.stops { // the access needs time to land, or it would wait again
			w.landed(r)
			g.arm()
		}
	})
}

// collect adds the threads that wait at registers, and marks these.
func (w *worker) collect(r *ringing) {
	w.c.guard.rung(func(page *page, at, tid int) {
		if w.mark(r, page) {
			w.stands = append(w.stands, stand{word{page, at}, tid})
		}
	})
}

// mark adds the registers of a page to those that have rung, and reports whether it has any.
func (w *worker) mark(r *ringing, page *page) (found bool) {
	for i, at := range r.words {
		if at.page == page {
			w.hit[i], found = true, true
		}
	}
	return found
}

// serve serves what has rung, and reports whether there was something, and whether the thread is
// still in its place. A batch of each queue pair comes before the second one of any.
func (w *worker) serve(r *ringing) (served, inPlace bool) {
	ready := w.ready[:0]
	if !w.call(func() {
		for i, hit := range w.hit {
			switch {
			case !hit:
			case r.qps[i] == nil:
				served = true
				for _, q := range r.cqs {
					q.ring.lookAtArm()
				}
			default:
				ready = w.posted(ready, r.qps[i])
			}
		}
	}) {
		return served, false
	}
	w.ready = ready
	over, inPlace := w.tell(ready)
	if !inPlace {
		return served, false
	}
	defer over()
	for len(ready) > 0 {
		left := ready[:0]
		for _, q := range ready {
			before := q.send.index()
			w.Enter()
			more := q.send.take()
			if !w.Leave() {
				if more { // the next worker may have left its mark here
					q.send.serve()
				}
				return true, false
			}
			if more {
				left = append(left, q)
			}
			served = served || q.send.index() != before
		}
		ready = left
	}
	return served, true
}

// posted adds those queue pairs of a register whose records say that something is posted.
func (w *worker) posted(list, qps []*queuePair) []*queuePair {
	if len(qps) == 1 {
		return append(list, qps[0]) // take reads the record with the first requests
	}
	for len(qps) > 0 {
		n := min(len(qps), recordsAtOnce)
		list = w.postedOf(list, qps[:n])
		qps = qps[n:]
	}
	return list
}

func (w *worker) postedOf(list, qps []*queuePair) []*queuePair {
	w.record = append(w.record[:0], make([][4]byte, len(qps))...)
	w.spans = w.spans[:0]
	for i, q := range qps {
		w.spans = append(w.spans, rxe.Span{VA: q.send.record + qpRecordSend, Buf: w.record[i][:]})
	}
	if qps[0].send.space.ReadV(w.spans) != nil {
		return append(list, qps...) // each finds out for itself
	}
	for i, q := range qps {
		if uint16(binary.BigEndian.Uint32(w.record[i][:])) != q.send.index() {
			list = append(list, q)
		}
	}
	return list
}

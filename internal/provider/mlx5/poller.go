package mlx5

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/rxe"
)

// poller is the thread that looks at the registers of an open. Another one takes its place when the
// memory of a program blocks it.
type poller struct {
	c        *userContext
	class    *sched.Class
	once     sync.Once
	role     *standby.Role
	stopping atomic.Bool
	napping  atomic.Uint32 // 1 while the thread is in a long pause, which wake ends

	// Those of the thread at work:
	policy sched.Polled
	hit    []bool
	rung   bool // the guard has a store that waits
	stops  bool // each store shall wait
	tids   []int
	ready  []*queuePair
	spans  []rxe.Span
	record [][4]byte
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
	p.policy = sched.Polled{Processors: runtime.NumCPU(), Ready: procfs.Ready}
}

// start starts the thread, once.
func (p *poller) start() {
	p.once.Do(func() { p.role = watch.start(p.run) })
}

// stop ends it, and waits for it, but not if it is blocked.
func (p *poller) stop() {
	p.stopping.Store(true)
	p.once.Do(func() {}) // it does not start any more
	p.wake()
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

func (p *poller) run(w *standby.Worker) {
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
	g := &p.c.guard
	if g.armed.Load() { // the worker before this one was blocked
		w.Enter()
		g.release()
		if !w.Leave() {
			return
		}
	}
	for !p.stopping.Load() {
		found, inPlace := p.look(w)
		if !inPlace {
			return
		}
		pause := p.policy.Observe(sched.Now(), found, g.usable.Load())
		if p.stops && g.usable.Load() {
			pause = sched.Pause{For: stoppedPause, Guard: true}
		}
		thread.UpdateClass(p.policy.Class())
		if !p.wait(w, pause) {
			return
		}
	}
}

// wait waits until the next look. It reports whether the thread is still in its place.
func (p *poller) wait(w *standby.Worker, pause sched.Pause) (inPlace bool) {
	g := &p.c.guard
	switch armed := g.armed.Load(); {
	case pause.Guard && !armed:
		w.Enter()
		g.arm() // and look once more
		return w.Leave()
	case pause.Guard:
		p.rung = g.await(pause.For)
	case armed:
		w.Enter()
		g.release()
		return w.Leave()
	default:
		p.pause(pause.For)
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
func (p *poller) look(w *standby.Worker) (found, inPlace bool) {
	r := p.c.doorbells.current.Load()
	if r == nil {
		r = &ringing{}
	}
	p.stops = r.stops
	p.hit = append(p.hit[:0], make([]bool, len(r.words))...)
	p.c.clock.tick()
	ok := p.c.pages.take(r.words, func(i int) { p.hit[i], found = true, true })
	if !ok {
		p.stopping.Store(true)
	}
	g := &p.c.guard
	if !found && !p.rung {
		return false, true
	}
	w.Enter()
	p.tids = p.tids[:0]
	if p.rung {
		g.rung(func(page *page, tid int) {
			p.mark(r, page)
			p.tids = append(p.tids, tid)
		})
	}
	served := p.serve(r)
	if p.rung { // the store needs time to land, or it would wait again
		g.release()
		p.rung, served = false, true
		if p.stops {
			p.await(r)
			g.arm()
		}
	}
	return served, w.Leave()
}

// mark adds the registers of a page to those that have rung.
func (p *poller) mark(r *ringing, page *page) {
	for i, w := range r.words {
		if w.page == page {
			p.hit[i] = true
		}
	}
}

// serve serves what has rung, and reports whether there was something. A batch of each queue pair
// comes before the second one of any.
func (p *poller) serve(r *ringing) (served bool) {
	ready := p.ready[:0]
	for i, hit := range p.hit {
		switch {
		case !hit:
		case r.qps[i] == nil:
			served = true
			for _, q := range r.cqs {
				q.ring.lookAtArm()
			}
		default:
			ready = p.posted(ready, r.qps[i])
		}
	}
	p.ready = ready
	defer p.tell(ready)()
	for len(ready) > 0 {
		left := ready[:0]
		for _, q := range ready {
			before := q.send.index()
			if q.send.take() {
				left = append(left, q)
			}
			served = served || q.send.index() != before
		}
		ready = left
	}
	return served
}

// posted adds those queue pairs of a register whose records say that something is posted.
func (p *poller) posted(list, qps []*queuePair) []*queuePair {
	if len(qps) == 1 {
		return append(list, qps[0]) // take reads the record with the first requests
	}
	for len(qps) > 0 {
		n := min(len(qps), recordsAtOnce)
		list = p.postedOf(list, qps[:n])
		qps = qps[n:]
	}
	return list
}

func (p *poller) postedOf(list, qps []*queuePair) []*queuePair {
	p.record = append(p.record[:0], make([][4]byte, len(qps))...)
	p.spans = p.spans[:0]
	for i, q := range qps {
		p.spans = append(p.spans, rxe.Span{VA: q.send.record + qpRecordSend, Buf: p.record[i][:]})
	}
	if qps[0].send.space.ReadV(p.spans) != nil {
		return append(list, qps...) // each finds out for itself
	}
	for i, q := range qps {
		if uint16(binary.BigEndian.Uint32(p.record[i][:])) != q.send.index() {
			list = append(list, q)
		}
	}
	return list
}

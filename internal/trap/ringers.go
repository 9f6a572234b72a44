package trap

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/threads"
	"golang.org/x/sys/unix"
)

// ringers are a session's threads for direct doorbells: one for each device, most of them at most.
// A thread that serves one program can be on that program's processor, and pause as it suits that
// program.
type ringers struct {
	s    *Session
	open atomic.Bool // there are, or were, devices with direct doorbells

	extra doorbell.Extra // its threads beside the first one

	most int // tests change it before Serve

	mu      sync.Mutex // for those that change the list; it comes before all locks of a ringer
	list    atomic.Pointer[[]*ringer]
	stopped bool
}

// ringer is a watch with the thread that takes its doorbells, and that thread's helpers.
type ringer struct {
	s       *Session
	watch   doorbell.Watch
	duty    duty
	helpers helpers

	inotify *threads.Source
	pipe    atomic.Pointer[threads.Source]
}

func (t *ringers) init(s *Session) {
	t.s, t.most = s, sched.DoorbellThreads(s.cpus)
	t.list.Store(new([]*ringer))
}

func (t *ringers) all() []*ringer { return *t.list.Load() }

// add gives a device, which process tgid opens, direct doorbells. It returns nil if it cannot.
func (t *ringers) add(file kernel.DoorbellFile, fd, tgid int) (*doorbell.Device, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, nil
	}
	g := t.fewest()
	if g == nil {
		_, d, err := t.addTo(t.make(), file, fd, tgid)
		return d, err
	}
	if g.watch.Devices() > 0 && len(t.all()) < t.most && !t.s.cfg.Closes.doorbells.Many() && t.extra.Take() {
		if open, d, err := t.addTo(t.make(), file, fd, tgid); open {
			return d, err
		}
		t.extra.Give()
	}
	return g.watch.Add(file, fd, tgid)
}

// addTo adds the device to a new ringer, which is entered if it could be opened.
func (t *ringers) addTo(g *ringer, file kernel.DoorbellFile, fd, tgid int) (open bool, d *doorbell.Device, err error) {
	if d, err = g.watch.Add(file, fd, tgid); !g.watch.Open() {
		return false, nil, err
	}
	list := append(slices.Clone(t.all()), g)
	t.list.Store(&list)
	t.open.Store(true)
	return true, d, err
}

// fewest returns the ringer with the fewest devices, nil if there is none.
func (t *ringers) fewest() (best *ringer) {
	least := 0
	for _, g := range t.all() {
		if n := g.watch.Devices(); best == nil || n < least {
			best, least = g, n
		}
	}
	return best
}

func (t *ringers) make() *ringer {
	g := &ringer{s: t.s}
	g.duty.init(t.s, func(r *receiver) { r.ringer = g; r.runDoorbells() }, t.s.cfg.Threads.Pool.Go)
	g.watch.Init(&t.s.cfg.Closes.doorbells, &t.s.cfg.User.doorbells, &t.extra, g)
	return g
}

// Start implements doorbell.Owner.
func (g *ringer) Start(inotify int) (err error) {
	g.inotify, err = g.s.cfg.Threads.Poller.Add(inotify, 0, g.inotifyReports)
	if err != nil {
		return err
	}
	g.inotify.Suspend()
	g.duty.arm, g.duty.disarm = g.awaitFirst, g.resume
	g.duty.knock()
	return nil
}

// inotifyReports is called by the poller. It has no events if the kernel refuses to wait for
// inotify, because the user waits for too many files.
func (g *ringer) inotifyReports(events uint32) {
	g.duty.knock()
	if events == 0 {
		g.watch.NoBypass()
	} else {
		g.watch.Bypassed()
	}
}

// AddPipe implements doorbell.Owner.
func (g *ringer) AddPipe(read int) error {
	source, err := g.s.cfg.Threads.Poller.Add(read, 0, func(uint32) { g.duty.knock() })
	if err != nil {
		return err
	}
	source.Suspend()
	g.pipe.Store(source)
	return nil
}

// RemovePipe implements doorbell.Owner.
func (g *ringer) RemovePipe() { g.pipe.Load().Remove() }

// AwaitBypass implements doorbell.Owner.
func (g *ringer) AwaitBypass(on bool) {
	if on {
		g.inotify.Arm(unix.EPOLLIN)
	} else {
		g.inotify.Suspend()
	}
}

// awaitFirst makes the poller wait for the first doorbell, while there is no receiver.
func (g *ringer) awaitFirst() {
	pipe := g.watch.Unattended()
	g.inotify.Arm(unix.EPOLLIN)
	if pipe {
		g.pipe.Load().Arm(unix.EPOLLIN)
	}
}

// resume ends that. A receiver waits from now on.
func (g *ringer) resume() {
	g.inotify.Suspend()
	if p := g.pipe.Load(); p != nil {
		p.Suspend()
	}
}

// replaced tells all ringers that a receiver was replaced.
func (t *ringers) replaced() {
	for _, g := range t.all() {
		g.watch.Replaced()
	}
}

// stop ends the receivers. No more devices come.
func (t *ringers) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	for _, g := range t.all() {
		if g.watch.Stop() {
			g.duty.stop()
			g.inotify.Remove()
			if p := g.pipe.Load(); p != nil {
				p.Remove()
			}
			g.helpers.stop()
		}
	}
}

// close is called when no receiver is left.
func (t *ringers) close() {
	for _, g := range t.all() {
		g.watch.Close()
	}
}

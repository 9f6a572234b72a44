package trap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/internal/trap/threads"
	"github.com/gorxe/gorxe/internal/trap/vfs"
)

// Session is one program, with all that it starts, behind one listener.
type Session struct {
	cfg      ServeConfig
	log      *slog.Logger
	listener notify.Listener // a duplicate of its own
	page     *inflight.Page
	objects  objects
	stacks   stacks
	procs    processes
	duty     duty    // receiving calls
	direct   ringers // of direct doorbells
	house    *house
	waiting  waiting
	own      bool // cfg.Contents is the session's own
	mounts   vfs.Mounts
	unhook   func() // of the user's budget

	cpus int // of the machine, for doorbell.Auto; tests change it before Serve

	receivers  receivers
	stopping   atomic.Bool  // receivers shall end
	users      atomic.Int32 // of listener and page: receivers, and Serve
	noPeek     atomic.Bool  // process_vm_readv is forbidden
	complained atomic.Bool
	told       atomic.Bool // the user, by cfg.Say
	unwatched  atomic.Bool // a file could not be watched, and that was said
	reason     atomic.Pointer[error]
	running    sync.WaitGroup // receivers that are not blocked, and duty.hire
	closing    sync.WaitGroup // closes of files
}

// NewSession prepares to serve. Calls wait until Serve.
func NewSession(l *os.File, cfg ServeConfig) (*Session, error) {
	if cfg.Host == nil {
		return nil, errors.New("trap: a session needs a Host")
	}
	own := cfg.Contents == nil
	cfg.complete()
	if err := cfg.FDs.Check(); err != nil {
		return nil, err
	}
	if err := notify.Check(l); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(l.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicating the listener: %w", err)
	}
	s := &Session{cfg: cfg, log: cfg.Log, listener: notify.Listener(fd), page: cfg.Calls, own: own, cpus: runtime.NumCPU()}
	if err := notify.AllowInterrupts(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if s.house, err = newHouse(s); err != nil {
		unix.Close(fd)
		return nil, err
	}
	s.mounts = vfs.FindMounts()
	s.objects.init()
	s.procs.init(s)
	s.receivers.callLimit, s.receivers.idleLooks = standby.CallLimit, idleLooks
	s.duty.init(s, (*receiver).run, cfg.Threads.Pool.Go)
	s.duty.arm = func() { s.house.listener.Arm(unix.EPOLLIN) }
	s.duty.disarm = func() { s.house.listener.Arm(0) } // it may hang up
	s.direct.init(s)
	s.waiting.init(s)
	s.unhook = cfg.Budget.BeforeRefusal(s.house.lookNow)
	return s, nil
}

// complete gives a session things of its own in the place of those that it shares with nobody.
func (cfg *ServeConfig) complete() {
	if cfg.Budget == nil {
		cfg.Budget = quota.New(quota.Cost{})
	}
	if cfg.User == nil {
		cfg.User = new(User)
	}
	if cfg.Closes == nil {
		cfg.Closes = new(Closes)
	}
	if cfg.Calls == nil {
		cfg.Calls = inflight.Own()
	}
	if cfg.Contents == nil {
		cfg.Contents = sealed.NewContents(ownRoom)
	}
	if cfg.Threads == nil {
		cfg.Threads = new(threads.Shared)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
}

// Serve answers until the last process behind the listener has ended (nil), until ctx is done, or
// until receiving fails. All files are closed then. The listener stays open: the program can
// continue as long as some process holds the listener and answers. It is called once.
func (s *Session) Serve(ctx context.Context) error {
	if !s.receivers.wakeUps.init(s.listener, s.cfg.Paced) {
		s.log.Info("trapped calls are slow on this kernel: Linux 6.6 has a faster wake-up")
	}
	s.users.Add(1)
	s.receivers.watch = standby.NewWatch(s.receivers.callLimit)
	s.duty.arm()
	defer context.AfterFunc(ctx, func() { s.stop(context.Cause(ctx)) })()
	s.house.keep()
	s.shutdown()
	if err := s.reason.Load(); err != nil {
		return *err
	}
	return nil
}

// stop makes Serve return err.
func (s *Session) stop(err error) {
	s.reason.CompareAndSwap(nil, &err)
	s.house.stop()
}

// shutdown ends the receivers, except those that are blocked in a program's memory. These
// end by themselves, at the latest with that program. The last one closes the listener.
func (s *Session) shutdown() {
	s.stopping.Store(true)
	s.unhook()
	s.receivers.watch.Close()
	s.duty.stop()
	s.direct.stop()
	s.waiting.stop()
	for _, o := range s.objects.all() {
		s.closeObject(o)
	}
	s.running.Wait()
	if !waitFor(&s.closing, closeLimit) {
		s.log.Warn("files of the program are still being closed: its memory does not answer")
	}
	if s.reason.Load() == nil {
		s.procs.awaitEnds(endLimit)
	}
	s.procs.closeAll()
	s.house.close()
	s.release()
}

func waitFor(g *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// release gives up the listener and the page for one user.
func (s *Session) release() {
	if s.users.Add(-1) == 0 {
		s.page.Unmap()
		s.direct.close()
		if s.own {
			s.cfg.Contents.Close()
		}
		unix.Close(int(s.listener))
	}
}

// dismiss ends a receiver that has nothing to do. A signal that comes before the receiver waits
// is lost, so duty.Idle calls dismiss until the receiver has left.
func (r *receiver) dismiss() {
	r.leave.Store(true)
	r.nudge()
}

// nudge wakes a receiver that waits for a notification.
func (r *receiver) nudge() {
	if tid := r.tid.Load(); tid != 0 {
		notify.Interrupt(int(tid))
	}
}

// A ProcessStatus is a process that has, or had, something to do with a device.
type ProcessStatus struct {
	PID     int
	Command string
	UID     uint32
	Since   time.Time
}

// Processes lists the processes that opened a device or looked at the tree, and
// have not ended.
func (s *Session) Processes() []ProcessStatus { return s.procs.status() }

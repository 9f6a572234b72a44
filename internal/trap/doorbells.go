package trap

import (
	"bufio"
	"cmp"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// Why doorbells are trapped.
const (
	trappedByFlag   = "--doorbells=trapped, or a fault rule for post_send"
	trappedReadOnly = "the device is open for reading only"
	trappedOld      = "the program's libibverbs is older than rdma-core 24"
	trappedAuto     = "the machine has one processor"
	trappedLimited  = "the program has a limit of file sizes (ulimit -f)"
	trappedInotify  = "the daemon has no instance of inotify left"
	trappedPaced    = "the run has --sanitize; fast posts are direct"
	trappedNumber   = "the program has no number of a descriptor left for direct doorbells"
)

// whyTrapped returns why the doorbells of a device that the process opens are trapped. If it is
// empty, they are left to the kernel.
//
// To the filter a doorbell is a write of 32 bytes, which a few other commands are
// too. libibverbs sends these through ioctl since version 22, and asks for
// NETLINK_RDMA since version 24: of a process that has not asked, every write is
// trapped. So it is under a limit of file sizes, which such a write would meet.
func (s *Session) whyTrapped(p *process, readOnly bool) string {
	switch {
	case readOnly:
		return trappedReadOnly
	case s.cfg.Doorbells == doorbell.Trapped:
		return trappedByFlag
	case !p.modern.Load():
		return trappedOld
	case s.cfg.Doorbells == doorbell.Auto && !sched.DirectPays(s.cpus):
		return trappedAuto
	case fileSizeLimited(p.tgid):
		return trappedLimited
	default:
		return ""
	}
}

// tellKind tells the file how its doorbells come, when the program gets it at a descriptor. Those
// of its copies come in the same way, or are trapped.
func (o *object) tellKind(fds filter.Range, fd uint32) {
	f, ok := o.file.(kernel.DoorbellFile)
	if !ok || o.belled {
		return
	}
	o.belled = true
	switch {
	case o.direct != nil && fds.Doorbells().Contains(fd):
		f.Belled(kernel.DoorbellKind{How: kernel.DoorbellDirect})
	case o.pace != nil:
		f.Belled(kernel.DoorbellKind{How: kernel.DoorbellTrapped, Why: trappedPaced})
	case o.direct != nil:
		f.Belled(kernel.DoorbellKind{How: kernel.DoorbellTrapped, Why: trappedNumber})
	default:
		f.Belled(kernel.DoorbellKind{How: kernel.DoorbellTrapped, Why: cmp.Or(o.trapped, trappedInotify)})
	}
}

// fileSizeLimited tells whether a process has an RLIMIT_FSIZE, or may have one.
func fileSizeLimited(pid int) bool {
	f, err := os.Open(procfs.Path(pid, "limits"))
	if err != nil {
		return true
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Max file size"); ok {
			return !strings.HasPrefix(strings.TrimSpace(rest), "unlimited")
		}
	}
	return true
}

// runDoorbells takes direct doorbells until the session stops, the watch sends the receiver
// away, or it was blocked. It has a thread of the pool. It is not the thread that receives calls.
// After a trapped call, the caller may take the processor from the thread that has answered it, and
// keep it while it polls. That does no harm to this caller: it sleeps when it needs that thread
// again. But the doorbells of other programs would have to wait.
func (r *receiver) runDoorbells() {
	r.tid.Store(int32(unix.Gettid()))
	defer r.tid.Store(0)
	watch := &r.ringer.watch
	taker := sched.NewTaker(system, r.s.cfg.Class, r.s.cfg.Polling)
	defer taker.End()
	for !r.s.stopping.Load() && (!r.leave.Load() || watch.Pending() > 0) {
		pause := time.Duration(0)
		if r.s.exhausted() {
			pause = watchInterval
		}
		taker.Pause()
		watch.Wait(pause, taker.Thread.InClass())
		if r.s.exhausted() {
			continue
		}
		if !r.look(watch, taker) {
			return
		}
	}
}

// system is the machine, as a thread that takes doorbells asks about it.
var system = sched.System{
	Processors: runtime.NumCPU(), Ready: procfs.Ready, Delay: sched.Delay,
	Running: func(process int) (cpu int, found bool) { return procfs.OnlyRunning(process, sched.PlaceThreads) },
}

// look takes the doorbells of all devices that have rung, and reports whether the receiver is still
// in its place.
func (r *receiver) look(watch *doorbell.Watch, taker *sched.Taker) bool {
	l := sched.Look{Began: sched.Now()}
	var last *doorbell.Device
	for range watch.Pending() {
		d := watch.Take(r)
		if d == nil {
			break
		}
		took, inPlace := r.serve(d)
		if !inPlace {
			return false
		}
		if last != nil {
			last.Mute(false)
		}
		last = d
		note(&l, d.Process(), took)
	}
	decision := taker.Observe(l)
	if last != nil { // the only device, or one of several, which are never muted
		last.Mute(!decision.Events)
	}
	return true
}

// note adds what was found on a device of a process.
func note(l *sched.Look, process int, took kernel.Doorbells) {
	l.Requests += took.Requests
	l.Awaited += took.Awaited
	l.More = l.More || took.More
	l.NoCredit = l.NoCredit || took.NoCredit
	switch {
	case took.Requests == 0:
	case l.Program == sched.NoProgram || l.Program == process:
		l.Program = process
	default:
		l.Program = sched.SeveralPrograms
	}
}

// help takes direct doorbells beside that thread, whenever there are many. In between, it has
// no thread.
func (r *receiver) help() {
	for inPlace := true; inPlace && !r.s.stopping.Load(); {
		done := make(chan bool)
		r.s.cfg.Threads.Pool.Go(func() { done <- r.helpOnce() })
		inPlace = <-done && r.ringer.watch.Join()
	}
}

// helpOnce works until no device has much to do, and reports whether the receiver is still
// in its place.
func (r *receiver) helpOnce() bool {
	r.tid.Store(int32(unix.Gettid()))
	defer r.tid.Store(0)
	for much := false; !r.s.stopping.Load(); {
		if r.s.exhausted() {
			r.ringer.watch.Rouse() // the receiver of doorbells waits until it is over
			return true
		}
		d := r.ringer.watch.Take(r)
		if d == nil {
			if !much {
				return true
			}
			much = false
			r.ringer.watch.EnterAll()
			continue
		}
		took, inPlace := r.serve(d)
		if !inPlace {
			return false
		}
		much = much || took.More
		d.Mute(false)
		if took.NoCredit {
			sched.PauseBriefly(sched.CreditPause)
		}
	}
	return true
}

// takeDoorbellsFirst takes the direct doorbells that the program rang on a device
// before the call in hand, and reports whether the receiver is still in its place. If
// it is not, the receiver that has replaced it answers the call. The work of a doorbell may
// wait for the memory of another program, and the call must not wait with it.
func (r *receiver) takeDoorbellsFirst() bool {
	s := r.s
	if !s.direct.open.Load() || !r.followsDoorbells() || r.n.TID == 0 || s.exhausted() {
		return true
	}
	r.callWaits = true
	r.Enter()
	r.caller.begin(r)
	var d *doorbell.Device
	if o := r.object(r.fd(0)); o != nil {
		d = o.direct
	}
	more := d != nil && d.TakeInOrder(r)
	if !r.Leave() {
		for more {
			more = d.TakeDoorbells()
		}
		if r.abandoned.Load() {
			r.respond()
		}
		return false
	}
	if more {
		d.Again()
	}
	return true
}

// followsDoorbells reports whether the call in hand may be on a device whose doorbells
// are direct. A trapped doorbell is not.
func (r *receiver) followsDoorbells() bool {
	switch r.n.NR {
	case unix.SYS_IOCTL, unix.SYS_CLOSE:
	case unix.SYS_WRITE:
		if r.arg(2) == uint64(r.s.cfg.DoorbellSize) {
			return false
		}
	default:
		return false
	}
	return r.s.cfg.FDs.Contains(uint32(r.fd(0)))
}

// serve answers the doorbells of a device. It reports whether the receiver is still in its place.
// One that is not goes on with that device alone.
func (r *receiver) serve(d *doorbell.Device) (took kernel.Doorbells, inPlace bool) {
	r.Enter()
	took = r.ringer.watch.Serve(d, r)
	if !r.Leave() {
		for more := took.More || took.NoCredit; more; {
			more = d.TakeDoorbells()
		}
		return took, false
	}
	return took, true
}

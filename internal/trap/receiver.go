package trap

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// verdict is the answer to a call; its zero value lets the call go on in the
// kernel.
type verdict struct {
	kind  verdictKind
	errno unix.Errno
	val   int64

	// above, of the verdict on a path, is the directory of the host that the path
	// leads to through the tree, as /dev/infiniband/.. does. The kernel, which has
	// no such way, answers ENOENT; calls that only look answer better.
	above string
}

type verdictKind uint8

const (
	proceeds verdictKind = iota
	answered
	sent  // the handler has answered, or left that to somebody else
	waits // of a call on a file: nothing to return yet (kernel.ErrWait)
)

var pass = verdict{}

func value(n int64) verdict { return verdict{kind: answered, val: n} }

func fail(e unix.Errno) verdict { return verdict{kind: answered, errno: e} }

// failed is the verdict on an error that should be a unix.Errno.
func failed(err error) verdict {
	var errno unix.Errno
	if !errors.As(err, &errno) || errno == 0 {
		errno = unix.EIO
	}
	return fail(errno)
}

// A receiver is a thread that takes notifications and answers each before it
// takes the next. A session has one while there are calls: more do not make it faster, since
// the kernel wakes them all. Another one takes direct doorbells (runDoorbells), with helpers
// (help). Nothing on the way of a doorbell allocates.
type receiver struct {
	s      *Session
	ringer *ringer        // whose doorbells it takes, nil if it receives calls
	slot   *inflight.Slot // where the keeper finds the call in hand
	n      notify.Call
	answer notify.Answer
	caller caller
	hot    hotTable
	path   [pathMax]byte

	inherited bool        // n is a call that the receiver before left to this one
	callWaits bool        // n waits while doorbells are in hand; set before Enter
	abandoned atomic.Bool // it is blocked, and nobody takes its place
	leave     atomic.Bool // it shall end when it has nothing to do

	tid atomic.Int32 // 0 before and after run
	progress
}

func (r *receiver) arg(i int) uint64 { return r.n.Args[i] }
func (r *receiver) fd(i int) int32   { return int32(r.n.Args[i]) }
func (r *receiver) thread() int      { return int(r.n.TID) }

// run receives until there is nobody left to receive from, the session stops, the watch sends
// the receiver away, or the receiver was blocked. It has a thread of the pool.
func (r *receiver) run() {
	r.tid.Store(int32(unix.Gettid()))
	defer r.tid.Store(0)
	if r.inherited && !r.handle() {
		return
	}
	for !r.s.stopping.Load() && !r.leave.Load() {
		switch errno := r.s.page.Receive(r.slot, r.s.listener, &r.n); errno {
		case 0:
			r.s.receivers.received(r.n.ID)
		case unix.EINTR:
			continue
		case unix.ENOENT:
			if r.s.listener.Abandoned() {
				return
			}
			continue
		default:
			r.s.log.Error("the program's calls can no longer be received", "error", errno)
			r.s.stop(errno)
			return
		}
		if !r.takeDoorbellsFirst() || !r.handle() {
			return
		}
	}
}

// handle answers the call in hand and reports whether the receiver is still in
// its place.
func (r *receiver) handle() bool {
	r.callWaits = false
	r.Enter()
	r.respond()
	return r.Leave()
}

func (r *receiver) respond() { r.send(r.dispatch()) }

func (r *receiver) dispatch() verdict {
	nr := r.n.NR
	if nr < 0 || nr >= filter.MaxNR || handlers[nr] == nil {
		return pass
	}
	if r.n.TID == 0 {
		r.s.complain(procfs.ErrInvisible)
		return pass
	}
	r.caller.begin(r)
	if r.s.exhausted() {
		return r.withoutMemory()
	}
	return handlers[nr](r)
}

// send gives the kernel its answer. If the caller was killed in the meantime
// (ENOENT) there is nothing to undo: descriptors were installed in it, and are
// closed with it.
func (r *receiver) send(v verdict) {
	switch v.kind {
	case sent:
		return
	case proceeds:
		if r.n.NR == unix.SYS_SOCKET { // the kernel may have devices that the program must not see
			r.answer = notify.Answer{ID: r.n.ID, Error: -int32(inflight.NoNetlink)}
			break
		}
		r.answer = notify.Answer{ID: r.n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	default:
		r.answer = notify.Answer{ID: r.n.ID, Value: v.val, Error: -int32(v.errno)}
		if v.errno != 0 {
			r.answer.Value = 0
		}
	}
	r.wakeUp()
	switch errno := r.s.listener.Send(&r.answer); errno {
	case 0, unix.ENOENT, unix.EINPROGRESS: // EINPROGRESS: duty.TooLong was faster
	default:
		r.s.log.Error("a call could not be answered", "syscall", r.n.NR, "error", errno)
	}
}

// wakeUp is called before an answer. Only the receiver in its place changes the listener: a
// receiver that was replaced does not, nor waiting.again.
func (r *receiver) wakeUp() {
	if r.slot != nil && !r.Replaced() {
		r.s.receivers.wakeUps.prepare()
	}
}

// withoutMemory answers when so many receivers are blocked that another one must
// not be risked: nothing that may wait for the program is done.
func (r *receiver) withoutMemory() verdict {
	fd := r.fd(0)
	if !inflight.OnDescriptor(r.n.NR) || !r.s.cfg.FDs.Ours(uint32(fd)) {
		return pass
	}
	if link, err := procfs.Readlink(r.procFD(fd)); err == nil && !strings.HasPrefix(link, inflight.MemfdPrefix) {
		if r.s.objects.pollable(link) == nil {
			return pass
		}
	}
	return fail(unix.EIO)
}

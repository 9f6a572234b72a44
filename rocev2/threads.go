package rocev2

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sched"
)

// Threads are for receiving sockets of several ports. A socket has a thread that waits for its
// packets while many come, as far as there are enough threads.
type Threads struct {
	most  int32
	used  atomic.Int32
	class *sched.Class
	avoid atomic.Pointer[unix.CPUSet]
	// the nanoseconds without a packet, after which a socket gives its thread back
	idle atomic.Int64
}

// NewThreads allows at most so many threads at a time. They prefer to be in class, unless it is
// nil.
func NewThreads(most int, class *sched.Class) *Threads {
	t := &Threads{most: int32(most), class: class}
	t.idle.Store(int64(idleTime))
	return t
}

// Avoid makes threads keep off some processors, such as those on which programs poll. A thread
// that may use no others uses all. A thread learns it with its next packets.
func (t *Threads) Avoid(cpus unix.CPUSet) { t.avoid.Store(&cpus) }

// prepare prepares a socket for threads: recvmmsg has a timeout. The kernel rounds it up to a
// multiple of its tick.
func (t *Threads) prepare(fd int) error {
	if t == nil {
		return nil
	}
	timeout := unix.NsecToTimeval(sched.Briefly.Nanoseconds())
	return os.NewSyscallError("SO_RCVTIMEO", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
}

// take reserves a thread.
func (t *Threads) take() bool {
	if t == nil {
		return false
	}
	if t.used.Add(1) > t.most {
		t.used.Add(-1)
		return false
	}
	return true
}

func (t *Threads) give() { t.used.Add(-1) }

// affinity keeps the calling thread off the processors that Threads.Avoid named. The thread is
// locked to its goroutine.
type affinity struct {
	sched.Affinity
	avoided *unix.CPUSet // as Threads had it
}

// follow moves the thread if the processors to avoid have changed.
func (a *affinity) follow(avoid *unix.CPUSet) {
	if avoid == a.avoided {
		return
	}
	a.avoided = avoid
	var others unix.CPUSet
	for i := range others {
		others[i] = ^avoid[i]
	}
	a.Narrow(others) // if that fails, the thread runs where it did
}

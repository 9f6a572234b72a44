package trap

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// caller is the thread that made the in-flight call of a receiver.
type caller struct {
	r       *receiver
	process *process // nil until somebody asks
	// delivered says that the call was answered by Deliver.
	delivered bool
	// behind says that the call may be the doorbell of earlier posts, too.
	behind bool
}

var _ kernel.Caller = (*caller)(nil)

func (c *caller) begin(r *receiver) {
	c.r, c.process, c.delivered, c.behind = r, nil, false, false
}

// owner is the caller's process.
func (c *caller) owner() (*process, error) {
	if c.process == nil {
		p, err := c.r.s.procs.of(c.r)
		if err != nil {
			c.r.s.complain(err)
			return nil, err
		}
		c.process = p
	}
	return c.process, nil
}

// Read implements uverbs.Caller.
func (c *caller) Read(addr uint64, p []byte) error {
	owner, err := c.owner()
	if err != nil {
		return unix.EFAULT
	}
	return owner.space.Read(addr, p)
}

// NetRaw implements kernel.Caller. The number of a thread that was killed may be another's by
// now, so the call must still wait after the look.
func (c *caller) NetRaw() bool {
	return procfs.HasOverNetwork(c.r.thread(), unix.CAP_NET_RAW) && c.r.s.listener.Valid(c.r.n.ID)
}

// Answer implements kernel.Caller. If duty.TooLong has replaced the receiver, the call
// was not answered then, and is now.
func (c *caller) Answer(n int64) {
	if c.r.take(n) {
		c.r.send(value(n))
	}
}

// Deliver implements kernel.Caller.
func (c *caller) Deliver(n int64) error {
	c.delivered = true
	c.r.wakeUp()
	if errno := c.r.s.listener.Send(&notify.Answer{ID: c.r.n.ID, Value: n}); errno != 0 {
		return unix.ESRCH
	}
	return nil
}

// Write implements uverbs.Caller.
func (c *caller) Write(addr uint64, p []byte) error {
	owner, err := c.owner()
	if err != nil {
		return unix.EFAULT
	}
	return owner.space.Write(addr, p)
}

// Space implements uverbs.Caller.
func (c *caller) Space() (kernel.Space, error) {
	owner, err := c.owner()
	if err != nil {
		return nil, unix.EFAULT
	}
	return owner.space, nil
}

// InstallFD implements kernel.Caller. An installed descriptor belongs to the program. If the
// call fails afterwards, the descriptor stays, unused, until the program closes it or ends. So
// a method should call this last.
func (c *caller) InstallFD(fd int) (int32, error) {
	s := c.r.s
	s.objects.install.Lock()
	defer s.objects.install.Unlock()
	a := notify.Install{ID: c.r.n.ID, Source: uint32(fd), Mode: unix.O_CLOEXEC}
	if at, ok := c.r.freeForOwn(); ok {
		s.procs.forget()
		placed := a
		placed.FD, placed.Flags = at, unix.SECCOMP_ADDFD_FLAG_SETFD
		if n, errno := s.listener.Install(&placed); errno == 0 {
			return n, nil
		}
	}
	n, errno := s.listener.Install(&a)
	if errno != 0 {
		return -1, errno
	}
	return n, nil
}

// FileID implements uverbs.Caller.
func (c *caller) FileID(fd int32) (fdid.ID, error) {
	id, err := c.r.fileID(fd)
	if err != nil {
		return id, unix.EBADF
	}
	return id, nil
}

// TakeFD implements kernel.Caller. The kernel gives a descriptor of the process. A thread may have
// descriptors of its own (CLONE_FILES), so TakeFD compares the file with the thread's.
func (c *caller) TakeFD(fd int32) (int, error) {
	want, err := c.FileID(fd)
	if err != nil {
		return -1, err
	}
	owner, err := c.owner()
	if err != nil {
		return -1, unix.EPERM
	}
	taken, err := unix.PidfdGetfd(owner.pidfd, int(fd), 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(taken, &st); err != nil || (fdid.ID{Dev: uint64(st.Dev), Ino: st.Ino}) != want {
		unix.Close(taken)
		return -1, unix.EBADF
	}
	return taken, nil
}

// peek reads memory of the calling thread to decide whether a call concerns the device. It
// skips the bookkeeping of a process, and uses the thread's number for its address space. It
// must be used for that decision only.
func (c *caller) peek(addr uint64, p []byte) error {
	if !c.r.s.noPeek.Load() {
		err := procmem.Peek(c.r.thread(), addr, p)
		if err == nil || !procmem.Forbidden(err) {
			return err
		}
		if c.r.s.noPeek.CompareAndSwap(false, true) {
			c.r.s.log.Info("process_vm_readv is refused (kernel.yama.ptrace_scope, another user, or a "+
				"seccomp profile): the program's memory is reached through /proc/PID/mem, at half the speed",
				"error", err)
		}
	}
	return c.Read(addr, p)
}

package interpose

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/uverbs"
)

// caller is the thread behind the call that a receiver has in hand.
type caller struct {
	r       *receiver
	process *process // nil until somebody asks

	// The request of a write() on a device, to know when it was taken.
	reqAddr, reqLen uint64
}

var _ uverbs.Caller = (*caller)(nil)

func (c *caller) begin(r *receiver) {
	c.r, c.process, c.reqLen = r, nil, 0
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
	if err := owner.space.Read(addr, p); err != nil {
		return err
	}
	if c.reqLen != 0 && addr == c.reqAddr && isDoorbell(p) {
		if val := int64(c.reqLen); c.r.take(val) {
			c.r.send(value(val))
		}
	}
	return nil
}

// isDoorbell recognises the request of a post_send: struct ib_uverbs_post_send
// with its header. It is complete once it is read, and has nothing to answer.
func isDoorbell(req []byte) bool {
	const postSend = 28 // IB_USER_VERBS_CMD_POST_SEND
	return len(req) >= filter.DoorbellSize && binary.NativeEndian.Uint32(req) == postSend
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
func (c *caller) Space() (uverbs.Space, error) {
	owner, err := c.owner()
	if err != nil {
		return nil, unix.EFAULT
	}
	return owner.space, nil
}

// InstallFD implements uverbs.Caller. A descriptor once installed is the
// program's: should the call fail afterwards it stays, unused, until the program
// closes it or ends. So this comes last in a call.
func (c *caller) InstallFD(fd int) (int32, error) {
	a := newFD{id: c.r.n.id, src: uint32(fd), mode: unix.O_CLOEXEC}
	n, errno := c.r.s.listener.addFD(&a)
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

// peek reads memory of the calling thread to decide whether a call is of
// interest at all: without the bookkeeping of a process, and with the thread's
// number for its address space. Nothing but that decision may hang on it.
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

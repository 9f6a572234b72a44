package kernel

import (
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/rxe"
)

// Caller is the thread whose system call is being answered. It is valid until the
// File's method returns. Errors are unix.Errno values.
type Caller interface {
	// Read fills p from the program's memory at addr; EFAULT.
	Read(addr uint64, p []byte) error
	// Write copies p to the program's memory at addr; EFAULT.
	Write(addr uint64, p []byte) error
	// Space returns the address space of the caller, for memory regions that outlast
	// the call. Calls within one address space get the same value.
	Space() (Space, error)
	// InstallFD gives the program a descriptor, close-on-exec, for the file that the
	// daemon's descriptor fd refers to. It returns the descriptor's number in the
	// program; EMFILE. fd stays the daemon's.
	InstallFD(fd int) (int32, error)
	// FileID says which file the program's descriptor fd refers to; EBADF.
	FileID(fd int32) (fdid.ID, error)
	// TakeFD returns a descriptor of the daemon for the file that the program's descriptor fd
	// refers to, close-on-exec; EBADF. The caller of TakeFD closes it. The file is the program's: a
	// call on it may block for ever. EPERM: the daemon may not look into the program.
	TakeFD(fd int32) (int, error)
	// NetRaw reports whether the thread has CAP_NET_RAW over the daemon's network namespace.
	NetRaw() bool
	// Answer says that the call succeeds with n, and that nothing more is written to the
	// program: if the method now blocks, the caller does not wait for it. The method
	// still returns n, or an error, which the caller gets if it did wait.
	Answer(n int64)
	// Deliver answers the call with n, now. ESRCH means that a signal or the end of the
	// thread was faster: the program has nothing, and the File keeps what it meant to
	// give. The method then returns, and what it returns is of no consequence.
	Deliver(n int64) error
}

// Standing is a Caller whose stack can be read.
type Standing interface {
	// Stack returns what lies at the top of the thread's stack, most bytes at most. ok is false if
	// the daemon may not see it.
	Stack(most int) (s Stack, ok bool)
	// Maps returns /proc/PID/maps of the thread; empty: it is not known, or has more than most
	// bytes.
	Maps(most int) string
	// Alone reports whether the process has no other thread.
	Alone() bool
	// Interrupted reports whether a signal has ended a call of the run before anybody received it.
	// The program may have got EINTR, which the kernel's devices do not return. See Interrupted.
	Interrupted() bool
}

// Interrupted reports whether the program may be where it is because a call that the kernel's
// devices complete has failed with EINTR, and has no thread that could help.
//
// So qperf returns without acknowledging the event that it has read, if ibv_req_notify_cq fails.
// Its ibv_destroy_cq would then wait for ever.
func Interrupted(c Caller) bool {
	s, ok := c.(Standing)
	return ok && s.Interrupted() && s.Alone()
}

// Stack is the stack of a thread in a system call.
type Stack struct {
	TID    int
	PC, SP uint64
	Bytes  []byte // from SP on
	// Behind says that the program may have posted before without being stopped.
	Behind bool
}

// Space is the address space of a program. It must be comparable.
type Space interface {
	rxe.Memory
	// Check reports whether all of a range is mapped, and writable if write is set;
	// EFAULT. The answer is advice, because mappings change.
	Check(addr, length uint64, write bool) error
}

// Lender is a Caller whose program can be stopped at its stores to some pages.
type Lender interface {
	// LendFaults has the program make a userfaultfd when the call has returned. got is called once,
	// by another goroutine, with the descriptor, which it takes over, or an error. The thread goes
	// on when got has returned.
	LendFaults(got func(fd int, err error))
}

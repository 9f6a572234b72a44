package notify

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// Call is a trapped system call: struct seccomp_notif with the struct seccomp_data in
// it.
type Call struct {
	ID    uint64
	TID   uint32 // the thread's number; 0 if this pid namespace does not contain it
	flags uint32
	NR    int32
	arch  uint32
	PC    uint64 // behind the instruction that made the call
	Args  [6]uint64
}

// Answer is what the kernel is told: struct seccomp_notif_resp.
type Answer struct {
	ID    uint64
	Value int64
	Error int32 // an errno, negative
	Flags uint32
}

// Install puts a descriptor of this process into the caller: struct
// seccomp_notif_addfd.
type Install struct {
	ID     uint64
	Flags  uint32
	Source uint32 // the descriptor here
	FD     uint32 // its number in the caller, with SECCOMP_ADDFD_FLAG_SETFD
	Mode   uint32 // O_CLOEXEC or 0
}

// Requests of the listener (linux/seccomp.h).
const (
	notifIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	notifAddFD    = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	notifSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

// Listener is the descriptor that delivers a filter's notifications. Its methods may
// sleep, so none of them makes a raw system call: that would delay the garbage
// collector.
type Listener int

// Check refuses a file that is not a listener. A server of other users' programs
// believes what a listener says of them. The server of a FUSE file, for one, may answer
// ioctls with anything.
func Check(f *os.File) error {
	// kernel/seccomp.c: init_listener. No file's path reads so: those begin with /.
	const name = "anon_inode:seccomp notify"
	link, err := procfs.Readlink(procfs.SelfFD(int(f.Fd())))
	if err != nil {
		return fmt.Errorf("the listener: %w", err)
	}
	if link != name {
		return fmt.Errorf("%s is no seccomp listener", link)
	}
	return nil
}

func (l Listener) ioctl(req uint, arg unsafe.Pointer) (int, unix.Errno) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), uintptr(req), uintptr(arg))
	return int(n), errno
}

// Receive waits for the next call. After EINTR and ENOENT the caller tries again; ENOENT
// means that a thread was killed, or got a signal, before its call was received. If the signal's
// handler lacks SA_RESTART, the call has failed with EINTR, also with
// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV.
func (l Listener) Receive(n *Call) unix.Errno {
	*n = Call{} // the kernel insists
	_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return errno
}

// Abandoned reports whether the last process behind the listener has ended. From then
// on Receive fails at once with ENOENT; before Linux 6.11 it waited forever.
func (l Listener) Abandoned() bool {
	fds := []unix.PollFd{{Fd: int32(l)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0
}

// Send answers a call. ENOENT means that the caller was killed.
func (l Listener) Send(r *Answer) unix.Errno {
	for {
		_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// Continue lets the kernel carry out the call.
func (l Listener) Continue(id uint64) unix.Errno {
	return l.Send(&Answer{ID: id, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Refuse answers with an error.
func (l Listener) Refuse(id uint64, e unix.Errno) unix.Errno {
	return l.Send(&Answer{ID: id, Error: -int32(e)})
}

// Valid reports whether the caller still waits. If so, its thread number still means
// that thread, and whatever was opened by that number before belongs to it.
func (l Listener) Valid(id uint64) bool {
	for {
		_, errno := l.ioctl(notifIDValid, unsafe.Pointer(&id))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}

// Install installs a descriptor in the caller and returns its number there. It blocks
// the signals of this thread meanwhile. Otherwise a signal might arrive after the kernel has
// marked the call as answered, and before the caller has the descriptor. The call would then
// return 0 without one (kernel/seccomp.c: seccomp_notify_addfd).
func (l Listener) Install(a *Install) (int32, unix.Errno) {
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	// Neither can fail: the arguments are valid, and the goroutine is locked to its
	// thread.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old)
	fd, errno := l.ioctl(notifAddFD, unsafe.Pointer(a))
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return int32(fd), errno
}

// SyncWakeUp says whether the kernel schedules caller and receiver as one
// (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP): each wakes up the other one on its own processor. That
// makes a trapped call ten times faster if the receiver sleeps after its answer. SyncWakeUp returns
// false before Linux 6.6.
func (l Listener) SyncWakeUp(on bool) bool {
	flags := uintptr(0)
	if on {
		flags = unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), notifSetFlags, flags)
		if errno != unix.EINTR { // it may wait for the lock of the listener
			return errno == 0
		}
	}
}

// Waiting reports whether a call waits to be received.
func (l Listener) Waiting() bool {
	fds := [...]unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

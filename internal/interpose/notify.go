package interpose

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/gorxe/gorxe/internal/trap/procfs"
	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif with the struct seccomp_data in it.
type notification struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	error int32 // negative
	flags uint32
}

// newFD is struct seccomp_notif_addfd.
type newFD struct {
	id    uint64
	flags uint32
	src   uint32
	fd    uint32
	mode  uint32
}

const (
	notifIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	notifAddFD    = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	notifSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

// listener is the descriptor that the filter's notifications come from. Its calls
// may sleep, so none of them is a raw system call: those would hold up the
// garbage collector.
type listener int

// checkListener refuses what is no listener. Who serves programs of other users
// believes what a listener says of them, and a FUSE server's file, say, answers
// ioctls with whatever that likes.
func checkListener(f *os.File) error {
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

func (l listener) ioctl(req uint, arg unsafe.Pointer) (int, unix.Errno) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), uintptr(req), uintptr(arg))
	return int(n), errno
}

// recv waits for the next call. EINTR and ENOENT (the caller was killed while its
// notification was on the way) mean: again.
func (l listener) recv(n *notification) unix.Errno {
	*n = notification{} // the kernel insists
	_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return errno
}

// abandoned tells whether the last process behind the listener has ended. From then
// on recv fails at once, with ENOENT (Linux 6.11), and before that waited for ever.
func (l listener) abandoned() bool {
	fds := []unix.PollFd{{Fd: int32(l)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0
}

// Abandoned tells whether no process is left whose calls come to the listener.
func Abandoned(l *os.File) bool { return listener(l.Fd()).abandoned() }

// send answers. ENOENT: the caller is gone.
func (l listener) send(r *response) unix.Errno {
	for {
		_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// proceed lets the call go on in the kernel.
func (l listener) proceed(id uint64) unix.Errno {
	return l.send(&response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// refuse answers with an error.
func (l listener) refuse(id uint64, e unix.Errno) unix.Errno {
	return l.send(&response{id: id, error: -int32(e)})
}

// valid tells whether the caller still waits: then its thread id means it, and
// what was opened under that id before is its.
func (l listener) valid(id uint64) bool {
	for {
		_, errno := l.ioctl(notifIDValid, unsafe.Pointer(&id))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}

// addFD installs this process's descriptor src in the caller. The signals of
// this thread are held back: one that comes after the kernel has marked the call
// as answered, and before the caller has taken the descriptor, would make the
// call return 0 without one (kernel/seccomp.c: seccomp_notify_addfd).
func (l listener) addFD(a *newFD) (int32, unix.Errno) {
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	// Neither can fail: the arguments are valid, and the caller is locked to its
	// thread.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old)
	fd, errno := l.ioctl(notifAddFD, unsafe.Pointer(a))
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return int32(fd), errno
}

// wakeSync asks for the caller and the receiver to be scheduled as one
// (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6): a trapped call is then ten
// times faster. Older kernels refuse.
func (l listener) wakeSync() bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), notifSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return errno == 0
}

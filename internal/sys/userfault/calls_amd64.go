package userfault

import (
	"unsafe"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// makesCalls says that this architecture can have another process make a system call.
const makesCalls = true

// The instruction syscall.
const (
	callSize = 2
	call0    = 0x0f
	call1    = 0x05
)

// Results of system calls that the kernel repeats (include/linux/errno.h: ERESTARTSYS).
const (
	restartFirst = -516
	restartLast  = -512
)

const stopInCall = unix.SIGTRAP | 0x80 // with PTRACE_O_TRACESYSGOOD

// makeFile makes a userfaultfd in the stopped thread, and returns a descriptor of this process for
// it. The thread is then as it was.
func (t tracee) makeFile(pidfd int) (fd int, err error) {
	var was unix.PtraceRegs
	if err := unix.PtraceGetRegs(int(t), &was); err != nil {
		return -1, err
	}
	if !t.behindCall(&was) {
		return -1, errPlace
	}
	signals, err := t.blockSignals()
	if err != nil {
		return -1, err
	}
	defer func() {
		if e := unix.PtraceSetRegs(int(t), &was); err == nil && e != nil {
			_ = unix.Close(fd)
			fd, err = -1, e
		}
		_ = t.setSignals(signals) // it may have ended
	}()
	if err := unix.PtraceSetOptions(int(t), unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return -1, err
	}
	n, err := t.call(&was, unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly)
	if err != nil {
		return -1, err
	}
	fd, err = unix.PidfdGetfd(pidfd, n, 0)
	if _, e := t.call(&was, unix.SYS_CLOSE, uint64(n)); err == nil && e != nil {
		err = e
	}
	if err == nil && !isUserfault(fd) {
		err = errFile
	}
	if err != nil && fd >= 0 {
		_ = unix.Close(fd)
		fd = -1
	}
	return fd, err
}

// behindCall reports whether the thread stands behind a system call that has returned, and has the
// instruction to make another one.
func (t tracee) behindCall(r *unix.PtraceRegs) bool {
	var b [callSize]byte
	if n, err := unix.PtracePeekText(int(t), uintptr(r.Rip)-callSize, b[:]); err != nil || n != callSize {
		return false
	}
	repeats := int64(r.Rax) >= restartFirst && int64(r.Rax) <= restartLast
	return b[0] == call0 && b[1] == call1 && int64(r.Orig_rax) >= 0 && !repeats
}

// call makes a system call in the thread.
func (t tracee) call(was *unix.PtraceRegs, number int, arg uint64) (int, error) {
	r := *was
	r.Rip -= callSize
	r.Rax, r.Orig_rax, r.Rdi = uint64(number), ^uint64(0), arg
	if err := unix.PtraceSetRegs(int(t), &r); err != nil {
		return -1, err
	}
	for range 2 { // where it begins, and where it ends
		if err := t.toCall(); err != nil {
			return -1, err
		}
	}
	if err := unix.PtraceGetRegs(int(t), &r); err != nil {
		return -1, err
	}
	if n := int64(r.Rax); n < 0 {
		return -1, unix.Errno(-n)
	}
	return int(r.Rax), nil
}

// toCall lets the thread run to the next begin or end of a system call.
func (t tracee) toCall() error {
	for range mostStops {
		if err := unix.PtraceSyscall(int(t), 0); err != nil {
			return err
		}
		st, err := t.wait()
		if err != nil {
			return err
		}
		if st.StopSignal() == stopInCall {
			return nil
		}
	}
	return unix.EAGAIN
}

// blockSignals blocks all signals of the thread, and returns what was blocked.
func (t tracee) blockSignals() (was uint64, err error) {
	if err := t.signals(unix.PTRACE_GETSIGMASK, &was); err != nil {
		return 0, err
	}
	return was, t.setSignals(^uint64(0))
}

func (t tracee) setSignals(mask uint64) error { return t.signals(unix.PTRACE_SETSIGMASK, &mask) }

func (t tracee) signals(request uintptr, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(t), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// isUserfault reports whether a descriptor is a userfaultfd. Of another file, every call could
// wait for a FUSE server. Its name begins with a slash, or has a number (pipes, sockets).
func isUserfault(fd int) bool {
	name, err := procfs.Readlink(procfs.SelfFD(fd))
	return err == nil && name == "anon_inode:[userfaultfd]"
}

package keeper

import (
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that a user may send to the front and mean for the program. That
// is all signals, except those that cannot be caught and the three that C libraries keep for
// themselves. Also excepted are signals about the process that gets them: a fault, a child,
// a timer of the Go runtime.
var forwarded = func() (list []unix.Signal) {
	for s := unix.Signal(1); s <= 64; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP,
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS,
			unix.SIGCHLD, unix.SIGURG, unix.SIGPROF, 32, 33, 34:
		default:
			list = append(list, s)
		}
	}
	return list
}()

// maskOf returns list as a signal mask.
func maskOf(list []unix.Signal) (set unix.Sigset_t) {
	for _, s := range list {
		set.Val[0] |= 1 << (s - 1)
	}
	return set
}

// currentMask returns the calling thread's signal mask.
func currentMask() (set unix.Sigset_t) {
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set) // asks only; cannot fail
	return set
}

func formatMask(set unix.Sigset_t) string { return strconv.FormatUint(uint64(set.Val[0]), 16) }

func parseMask(text string) (set unix.Sigset_t, err error) {
	v, err := strconv.ParseUint(text, 16, 64)
	set.Val[0] = v
	return set, err
}

// withBlocked runs f with the forwarded signals blocked in the calling thread. A process that
// f starts inherits that mask.
func withBlocked(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set, mask := maskOf(forwarded), currentMask()
	mask.Val[0] |= set.Val[0]
	return withMask(mask, f)
}

// withMask runs f with this mask in the calling thread.
func withMask(mask unix.Sigset_t, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, &old); err != nil {
		return os.NewSyscallError("sigprocmask", err)
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) //nolint:errcheck // it was valid before
	return f()
}

// sigaction is the kernel's, of any architecture: all zero is SIG_DFL.
type sigaction [4]uint64

// swapAction sets the action of the process for s. The Go runtime does not know about it.
func swapAction(s unix.Signal, new, old *sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), // cannot fail for a valid s
		uintptr(unsafe.Pointer(new)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// raise sends s to the calling thread, with its default action, and returns when
// that is over: the process has been stopped and continued, or it never returns.
func raise(s unix.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before sigaction
	swapAction(s, new(sigaction), &before)
	defer swapAction(s, &before, nil)
	set, old := maskOf([]unix.Signal{s}), unix.Sigset_t{}
	// If there is another s, both are pending. The signal that continues a stopped process
	// cancels the second one.
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) // cannot fail, as below
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}

// die ends this process as the program was ended.
func die(s unix.Signal) {
	// The program has dumped its core if that was enabled. A core of this process is
	// useless.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // cannot fail
	raise(s)
	os.Exit(128 + int(s)) // reached only for signals whose default action is harmless
}

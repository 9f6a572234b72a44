package interpose

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A thread that waits for a notification is woken by a signal. Since 6.6 the wait
// is one that the kernel restarts if the signal's handler says so
// (kernel/seccomp.c: recv_wait_event), and the Go runtime's handlers all say
// SA_RESTART: so one signal, which nobody uses and the runtime ignores, gets its
// handler without that.
const interruptSignal = unix.Signal(63)

const saRestart = 0x10000000

// sigaction is the kernel's struct, the same on all architectures that there are
// tables for.
type sigaction struct {
	handler, flags, restorer, mask uint64
}

// allowInterrupts takes SA_RESTART from the action of interruptSignal.
var allowInterrupts = sync.OnceValue(func() error {
	var act sigaction
	if err := rtSigaction(nil, &act); err != nil {
		return err
	}
	act.flags &^= saRestart
	return rtSigaction(&act, nil)
})

func rtSigaction(set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(interruptSignal),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(old.mask), 0, 0)
	if errno != 0 {
		return fmt.Errorf("rt_sigaction: %w", errno)
	}
	return nil
}

// interrupt makes a system call that thread tid waits in return EINTR.
func interrupt(tid int) { _ = unix.Tgkill(os.Getpid(), tid, interruptSignal) }

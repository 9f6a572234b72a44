package notify

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A signal wakes a thread that waits for a notification. Since Linux 6.6 the kernel
// restarts that wait if the signal's handler has SA_RESTART (kernel/seccomp.c:
// recv_wait_event), and all handlers of the Go runtime have it. So this package takes
// SA_RESTART from interruptSignal.

const saRestart = 0x10000000 // asm/signal.h: SA_RESTART

// sigaction is the kernel's struct, the same on all architectures that there are
// tables for.
type sigaction struct {
	handler, flags, restorer, mask uint64
}

// AllowInterrupts makes Interrupt work in this process. It may be called more than once.
var AllowInterrupts = sync.OnceValue(func() error {
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

// Interrupt makes the system call that a thread of this process waits in return EINTR.
func Interrupt(tid int) { _ = unix.Tgkill(os.Getpid(), tid, interruptSignal) }

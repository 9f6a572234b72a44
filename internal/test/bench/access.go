package bench

import (
	"context"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// The daemon moves a READ of 8 bytes with two accesses to programs' memory. An atomic takes three:
// it reads the target, writes it, and writes what was there before.

// accessed is a read of 8 bytes from one process and a write of them to another one.
var accessed = baseline{place: OneDaemon, kind: Access}

// word is what one access moves.
type word [8]byte

// access reads or writes memory that procmem.Open has opened. It tells the Go runtime nothing about
// a call that never waits, as the daemon does not either.
func (w *word) access(call uintptr, mem int, addr uintptr) error {
	_, _, errno := unix.RawSyscall6(call, uintptr(mem), uintptr(unsafe.Pointer(w)), uintptr(len(w)), addr, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("access to /proc/PID/mem", errno)
	}
	return nil
}

// accesses returns the processor time of a read and a write, in µs.
func accesses(ctx context.Context, cfg Config) (float64, error) {
	from, to, end, err := holdTwo(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer end()
	source, err := procmem.Open(from.cmd.Process.Pid)
	if err != nil {
		return 0, os.NewSyscallError("open of /proc/PID/mem", err)
	}
	defer unix.Close(source) //nolint:errcheck // scratch
	target, err := procmem.Open(to.cmd.Process.Pid)
	if err != nil {
		return 0, os.NewSyscallError("open of /proc/PID/mem", err)
	}
	defer unix.Close(target) //nolint:errcheck // scratch
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w word
	return processorFor(cfg.Target, unix.CLOCK_THREAD_CPUTIME_ID, func() (int64, error) {
		if err := w.access(unix.SYS_PREAD64, source, from.addr); err != nil {
			return 0, err
		}
		return 1, w.access(unix.SYS_PWRITE64, target, to.addr)
	})
}

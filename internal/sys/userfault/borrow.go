// Package userfault stops another process at its stores to some of its pages (userfaultfd(2) with
// write protection), or at all accesses, and tells of them.
//
// A userfaultfd belongs to the address space of the process that makes it. So the other process has
// to make it: [Borrow] has a thread of it do so, as a debugger would (ptrace(2)).
package userfault

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// Why a process cannot lend its faults, beside errnos.
var (
	errFiltered = errors.New("the program has a seccomp filter of its own")
	errPlace    = errors.New("the thread is not behind a system call")
	errFile     = errors.New("the program has replaced the descriptor")
	errTraced   = errors.New("a debugger or strace has the program")
	errLate     = errors.New("the program could not be stopped in time: another thread of it is in exec")
)

// Borrow has a thread make a userfaultfd. The thread waits in a system call that this process
// answers (seccomp's notification), and the thread makes the file when that call returns. Borrow
// returns when the call may be answered, after seizeLimit at most. valid reports whether the call
// still waits, as a thread's number may be another's. got is called once, by another goroutine,
// with what New takes over, or an error. The thread goes on when got has returned: so its next
// accesses can wait, also on a busy machine.
//
// Until got returns, this takes a thread. A hostile program can keep that for as long as it lives.
// Its own thread then hangs in a fault, or in the close of another file that it has put there.
//
// A thread that a debugger has is left alone, and a debugger that comes meanwhile gets EPERM.
func Borrow(tid, pidfd int, valid func() bool, got func(fd int, err error)) {
	b := seizing{ready: make(chan struct{})}
	onThread(func() {
		t, err := b.seize(tid, valid)
		close(b.ready)
		if err != nil {
			got(-1, err)
			return
		}
		t.borrow(pidfd, got)
	})
	late := time.NewTimer(seizeLimit)
	defer late.Stop()
	select {
	case <-b.ready:
	case <-late.C:
		b.giveUp()
	}
}

// onThread calls a function on a thread of its own, which then ends: so it lets go what it traces.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The first thread of a Go program does not end (runtime/proc.go: mexit). While it waits
		// here, another one is taken.
		begun := make(chan struct{})
		onThread(func() { close(begun); f() })
		<-begun
		runtime.UnlockOSThread()
	}()
}

// tracee is a thread of another process. Its methods are for the thread that has seized it.
type tracee int

// seizing is an attempt to seize a thread. It may take as long as the program likes: the kernel
// waits for a thread of it that is in exec (kernel/ptrace.c: ptrace_attach, cred_guard_mutex).
type seizing struct {
	ready chan struct{} // closed when it is over

	mu   sync.Mutex // not held while that may wait
	late bool       // the call has been answered
}

// giveUp has the thread go on, if it is not seized yet.
func (b *seizing) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
}

// seize attaches to a thread, and has it stop when its system call returns.
func (b *seizing) seize(tid int, valid func() bool) (tracee, error) {
	if !makesCalls {
		return 0, unix.EOPNOTSUPP
	}
	if err := Supported(); err != nil {
		return 0, err
	}
	if filters(tid) > filters(unix.Getpid())+1 { // the one more is gorxe's
		return 0, errFiltered
	}
	if err := unix.PtraceSeize(tid); err != nil {
		if field(tid, "TracerPid") > 0 {
			return 0, errTraced
		}
		return 0, fmt.Errorf("ptrace: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late {
		return 0, errLate
	}
	if !valid() {
		return 0, unix.ESRCH
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return 0, fmt.Errorf("ptrace: %w", err)
	}
	return tracee(tid), nil
}

// filters returns how many seccomp filters a thread has. A filter may end a program that makes a
// system call that it does not know.
func filters(tid int) int { return field(tid, "Seccomp_filters") }

// field returns a number in /proc/TID/status, and 0 if the thread has ended.
func field(tid int, name string) int {
	text, _ := procfs.ReadFile(procfs.Path(tid, "status"))
	_, rest, _ := strings.Cut(string(text), "\n"+name+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(line)
	return n
}

func (t tracee) borrow(pidfd int, got func(fd int, err error)) {
	if err := t.awaitInterrupt(); err != nil {
		got(-1, err)
		return
	}
	defer func() { _ = unix.PtraceDetach(int(t)) }() // it may have ended
	got(t.makeFile(pidfd))
}

// awaitInterrupt waits until the thread has stopped where seize said.
func (t tracee) awaitInterrupt() error {
	for range mostStops {
		st, err := t.wait()
		if err != nil {
			return err
		}
		if st>>16 == unix.PTRACE_EVENT_STOP {
			return nil // also when SIGSTOP has stopped all threads
		}
		if err := unix.PtraceCont(int(t), int(st.StopSignal())); err != nil {
			return err
		}
	}
	return unix.EAGAIN
}

// wait waits for the next stop.
func (t tracee) wait() (st unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(int(t), &st, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case !st.Stopped():
			return 0, unix.ESRCH
		default:
			return st, nil
		}
	}
}

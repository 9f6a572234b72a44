package procfs

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadSignals: a signal that is blocked stays pending, for the thread or for the
// process, and is reported so.
func TestReadSignals(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	received := make(chan os.Signal, 1)
	signal.Notify(received, unix.SIGUSR1) // otherwise it would end the process
	defer signal.Stop(received)
	const usr1 = 1 << (unix.SIGUSR1 - 1)
	var block, old unix.Sigset_t
	block.Val[0] = usr1
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSignals(tid)
	if err != nil || s.Thread&usr1 == 0 || s.Blocked&usr1 == 0 || s.Process&usr1 != 0 || s.TGID != os.Getpid() || s.Asleep {
		t.Errorf("with a signal pending: %+v, %v", s, err)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		t.Fatal(err)
	}
	if s, err = ReadSignals(tid); err != nil || s.Thread&usr1 != 0 || s.Blocked&usr1 != 0 {
		t.Errorf("with none: %+v, %v", s, err)
	}
	if _, err := ReadSignals(0); err != unix.ESRCH {
		t.Errorf("signals of no thread: %v", err)
	}
	if !slices.Contains(Threads(os.Getpid()), tid) {
		t.Error("this thread is not among the process's")
	}
}

func TestFileFlags(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	for _, nonblock := range []bool{true, false} {
		if err := unix.SetNonblock(fds[1], nonblock); err != nil {
			t.Fatal(err)
		}
		flags, err := FileFlags(os.Getpid(), int32(fds[1]))
		if err != nil || flags&unix.O_ACCMODE != unix.O_WRONLY || flags&unix.O_NONBLOCK != 0 != nonblock {
			t.Errorf("O_NONBLOCK %t: flags %#o, %v", nonblock, flags, err)
		}
	}
	if _, err := FileFlags(os.Getpid(), -1); err == nil {
		t.Error("a descriptor that is not open has flags")
	}
}

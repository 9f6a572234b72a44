package keeper

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arrival is a signal that a process got. The sender and the kind (si_pid and si_code of
// sigaction(2)) distinguish it from others with its number. Both are 0 if the Go runtime
// caught it.
type arrival struct {
	Signal unix.Signal `json:"signal"`
	Code   int32       `json:"code,omitempty"`
	PID    int32       `json:"pid,omitempty"`
}

// inbox receives the forwarded signals of this process. The process starts with them
// blocked, and reads them from a signalfd. There, job control signals come in the order in
// which they were sent. The reason is that SIGCONT cancels a stop signal that no process
// has read, and the reverse (signal(7)).
//
// The Go runtime unblocks signals that end a process by default
// (runtime/signal_unix.go: blockableSig). The inbox has to catch these, without a sender.
type inbox struct {
	fd   int
	loud chan os.Signal // the signals that cannot be blocked
	set  unix.Sigset_t  // the same as a set
}

func newInbox() (*inbox, error) {
	in := &inbox{loud: make(chan os.Signal, 128)}
	quiet, blocked := maskOf(forwarded), currentMask()
	in.set.Val[0] = quiet.Val[0] &^ blocked.Val[0]
	quiet.Val[0] &= blocked.Val[0]
	for _, s := range forwarded {
		// An ignored signal stays ignored, because the program inherits that.
		if in.isLoud(s) && !signal.Ignored(s) {
			signal.Notify(in.loud, s)
		}
	}
	var err error
	if in.fd, err = unix.Signalfd(-1, &quiet, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("signalfd", err)
	}
	return in, nil
}

func (in *inbox) isLoud(s unix.Signal) bool {
	return s >= 1 && s <= 64 && in.set.Val[0]&(1<<(s-1)) != 0
}

// watch reports when the signalfd has signals. Go's poller would also read them, so it cannot
// be used.
func (in *inbox) watch(wake chan<- struct{}) {
	fds := []unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, -1); err == nil && n == 1 {
			wake <- struct{}{}
		} else if err != unix.EINTR {
			return // cannot be
		}
	}
}

// drain returns the signals that have come, those of the signalfd in their order.
func (in *inbox) drain() (list []arrival) {
	for more := true; more; {
		select {
		case s := <-in.loud:
			list = append(list, arrival{Signal: s.(unix.Signal)})
		default:
			more = false
		}
	}
	var info [8]unix.SignalfdSiginfo
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(in.fd, raw)
		if err != nil || n <= 0 {
			return list // EAGAIN: that was all
		}
		for _, i := range info[:n/int(unsafe.Sizeof(info[0]))] {
			list = append(list, arrival{Signal: unix.Signal(i.Signo), Code: i.Code, PID: int32(i.Pid)})
		}
	}
}

// settleTimeout only ends a settle that would hang.
const settleTimeout = time.Second

// settle returns when the loud signals that were sent before it was called are in
// their channel.
func (in *inbox) settle() {
	// If no thread has taken a signal yet, this thread takes it when it unblocks it. The
	// handler has run when the system call returns.
	runtime.LockOSThread()
	var old unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &in.set, &old) // cannot fail, as below
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	runtime.UnlockOSThread()
	// Another thread may have taken a signal without having run its handler. Go's handlers
	// run with all signals blocked, so that thread takes this one, which has no meaning,
	// after the handler.
	tasks, _ := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err == nil {
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // it may have ended
		}
	}
	for start := time.Now(); len(tasks) > 0 && time.Since(start) < settleTimeout; {
		if inSet(tasks[0]+"/status", "SigPnd", unix.SIGURG) {
			time.Sleep(50 * time.Microsecond)
		} else {
			tasks = tasks[1:]
		}
	}
	// And from the runtime to the channel: Stop waits until all are delivered.
	none := make(chan os.Signal, 1)
	signal.Notify(none, unix.SIGURG)
	signal.Stop(none)
}

// inSet reports whether s is in one of the sets of signals that proc_pid_status(5) shows.
func inSet(status, set string, s unix.Signal) bool {
	text, err := os.ReadFile(status)
	if err != nil {
		return false // it has ended
	}
	_, rest, _ := strings.Cut(string(text), "\n"+set+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	signals, err := strconv.ParseUint(line, 16, 64)
	return err == nil && signals&(1<<(s-1)) != 0
}

package keeper

import (
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// job represents the program to the shell. The front stops when the program has stopped, and
// continues when the program continues. Stops have numbers. The front follows one stop at a
// time: it learns of it, stops unless that stop is over, and reports when it is back.
type job struct {
	stop     int         // the program's last stop
	signal   unix.Signal // that caused it
	stopped  bool        // the program is in that stop now
	followed int         // stop that the front follows; 0: none
}

// changed follows a change of the program's state. k.mu is held.
func (k *keeper) changed(ws unix.WaitStatus) {
	switch {
	case ws.Stopped():
		k.canary.look() // before a SIGCONT cancels the signal that caused it
		k.job.stop++
		k.job.signal, k.job.stopped = ws.StopSignal(), true
		k.tellStop()
	case ws.Continued():
		k.job.stopped = false
		if k.job.followed != 0 {
			go k.wake(k.job.followed)
		}
	}
}

// tellStop makes the front follow the program's stop, if it does not follow one.
// k.mu is held.
func (k *keeper) tellStop() {
	if k.job.followed == 0 {
		k.job.followed = k.job.stop
		k.tell(report{Stopped: int(k.job.signal), Stop: k.job.stop})
	}
}

// wake continues a front whose stop is over for the program. A user may have continued the
// program alone.
func (k *keeper) wake(stop int) {
	for start := time.Now(); k.asleep(stop, time.Since(start) < stopTimeout); time.Sleep(time.Millisecond) {
	}
}

// stopTimeout ends the wait for a stop signal that should stop the program but does not, as
// in an orphaned process group.
const stopTimeout = time.Second

// asleep reports whether the front still follows a stop that is over. It then continues the
// front if that is stopped. If hold is set, it does not do so yet when the program is about
// to stop.
func (k *keeper) asleep(stop int, hold bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.update()
	front := os.Getppid()
	if k.job.followed != stop || k.job.stopped || front != k.plan.parent {
		return false
	}
	k.canary.look()
	// Until the front gets to run after a stop, a new stop signal stops it at once.
	if hold && slices.ContainsFunc(k.canary.seen, k.willStop) {
		return true
	}
	if isStopped(front) {
		_ = unix.Kill(front, unix.SIGCONT) // it may have ended
	}
	return true
}

// willStop reports whether s stops the program.
func (k *keeper) willStop(s sighting) bool {
	if !isStop(s.Signal) || !k.inGroup() {
		return false
	}
	status := fmt.Sprintf("/proc/%d/status", k.program)
	return !inSet(status, "SigBlk", s.Signal) && !inSet(status, "SigIgn", s.Signal) && !inSet(status, "SigCgt", s.Signal)
}

// resumed records that the front is back from a stop. If the program still is stopped, the
// user continued the front alone and meant the program. resumed then continues the program
// and reports true. The caller holds k.mu.
func (k *keeper) resumed(stop int) bool {
	if stop == 0 || stop != k.job.followed {
		return false
	}
	k.job.followed = 0
	k.update()
	switch {
	case !k.job.stopped:
	case k.job.stop == stop:
		_ = unix.PidfdSendSignal(k.pidfd, unix.SIGCONT, nil, 0) // it may have ended
		return true
	default:
		k.tellStop()
	}
	return false
}

// update follows a change of the program's state that wait has not seen yet. It leaves the
// program's end to wait. The caller holds k.mu.
func (k *keeper) update() {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, k.program, &info, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil)
	if err != nil || info.Signo == 0 {
		return
	}
	// Behind si_code: padding, si_pid, si_uid, si_status (sigaction(2)).
	status := *(*int32)(unsafe.Add(unsafe.Pointer(&info), 24))
	const stopped, continued = 0x7f, 0xffff // as wait4 encodes it
	switch info.Code {
	case cldStopped:
		k.changed(unix.WaitStatus(status<<8 | stopped))
	case cldContinued:
		k.changed(continued)
	}
}

// si_code of a child's signals (sigaction(2)).
const (
	cldStopped   = 5
	cldContinued = 6
)

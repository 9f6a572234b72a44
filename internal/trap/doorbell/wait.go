package doorbell

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sched"
)

// A source is what a receiver waits for.
//
//	source       when                                                       what it does
//	lookAgain    the only device is muted, and there is no pause            returns at once; empties a pipe that may be full
//	bothBriefly  devices are on the list, which nobody may take now         waits for inotify and the pipe, for the pause
//	both         a device has the pipe, and the owner does not wait for     waits for inotify and the pipe
//	             inotify: there are other devices, or it cannot
//	onePipe      the only device has the pipe                               waits for the pipe, and the owner for inotify
//	onlyInotify  no device has the pipe                                     waits for inotify
type source uint8

const (
	lookAgain source = iota
	bothBriefly
	both
	onePipe
	onlyInotify
)

// situation is what decides about the source.
type situation struct {
	pending int
	muted   bool // the first device on the list is
	pipe    bool // a device has it
	owner   bool // waits for inotify
	pause   bool
}

// source follows the table above.
func (s situation) source() source {
	switch {
	case s.pending == 1 && s.muted && !s.pause:
		return lookAgain
	case s.pending > 0:
		return bothBriefly
	case s.pipe && s.owner:
		return onePipe
	case s.pipe:
		return both
	default:
		return onlyInotify
	}
}

// inotifyWaiter says who waits for inotify.
//
//	state      becomes
//	receiver   owner, when the receiver is about to wait for the pipe alone
//	owner      receiver, when it is no longer; bypassed, when inotify has something to report: a doorbell that was
//	           written to the file although the pipe replaced it, as by a forked process
//	bypassed   owner or receiver, when the receiver has read that
//	refused    nothing else: the owner cannot wait
type inotifyWaiter uint8

const (
	byReceiver inotifyWaiter = iota
	byOwner
	bypassed
	refused
)

// onPipe reports whether the receiver waits for the pipe alone.
func (i inotifyWaiter) onPipe() bool { return i == byOwner || i == bypassed }

// Wait returns when there are doorbells to take, or a signal came. If there are some already, which
// nobody can take, it waits for others no longer than pause. inClass says that the thread is in the
// real-time class.
func (w *Watch) Wait(pause time.Duration, inClass bool) {
	w.choose()
	w.mu.Lock()
	s := w.situation()
	s.pause = pause > 0
	full := s.pipe && w.pipe.found >= mostFound
	w.mu.Unlock()
	switch s.source() {
	case lookAgain:
		if full {
			w.readPipe(w.pipe.nowait)
		}
	case bothBriefly:
		w.waitForBoth(s.pipe, int(pause/time.Millisecond))
	case both:
		w.waitForBoth(s.pipe, -1)
	case onePipe:
		if !inClass || !sched.AwaitBriefly(w.pipe.read) {
			w.readPipe(w.pipe.read)
		}
	case onlyInotify:
		if !inClass || !sched.AwaitBriefly(w.notify) {
			w.read()
		}
	}
}

// situation returns what Wait goes by; w.mu is held.
func (w *Watch) situation() situation {
	return situation{
		pending: len(w.pending),
		muted:   len(w.pending) > 0 && w.pending[0].events != reported,
		pipe:    w.pipe.device != nil, owner: w.inotify.onPipe(),
	}
}

// choose decides who waits for inotify. It reads bypassing doorbells, which the receiver would not
// see, and tells the owner.
func (w *Watch) choose() {
	w.mu.Lock()
	before := w.inotify
	switch {
	case before == refused:
	case w.pipe.device != nil && len(w.watches) == 1:
		w.inotify = byOwner
	default:
		w.inotify = byReceiver
	}
	after := w.inotify
	w.mu.Unlock()
	if before == bypassed && readable(w.notify) {
		w.read()
	}
	if before != after {
		w.owner.AwaitBypass(after == byOwner)
	}
}

// waitForBoth waits for inotify, and for the pipe if there is one, for some milliseconds, or
// without end.
func (w *Watch) waitForBoth(pipe bool, milliseconds int) {
	fds := []unix.PollFd{{Fd: int32(w.notify), Events: unix.POLLIN}}
	if pipe {
		fds = append(fds, unix.PollFd{Fd: int32(w.pipe.read), Events: unix.POLLIN})
	}
	if n, err := unix.Poll(fds, milliseconds); err != nil || n == 0 {
		return
	}
	if fds[0].Revents != 0 {
		w.read()
	}
	if pipe && fds[1].Revents != 0 {
		w.readPipe(w.pipe.nowait) // the program may have read it
	}
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// Bypassed is called when inotify has something to report.
func (w *Watch) Bypassed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == byOwner {
		w.inotify = bypassed
		w.rouse()
	}
}

// NoBypass is called when the owner cannot wait for inotify. The receiver then waits for both.
func (w *Watch) NoBypass() {
	w.mu.Lock()
	w.rouse() // where the receiver waits now
	w.inotify = refused
	w.mu.Unlock()
	w.owner.AwaitBypass(false)
}

// Unattended is called when no receiver is left, and the owner is about to wait in its place. It
// reports whether doorbells may come through the pipe.
func (w *Watch) Unattended() (pipe bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify != refused {
		w.inotify = byReceiver
	}
	return w.pipe.device != nil
}

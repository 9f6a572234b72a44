// Package sched is for goroutines that have a thread of their own, because they wait in system
// calls for work that comes often: packets, or doorbells.
//
// Programs that poll are their rivals: such a program never gives up its processor before its turn
// ends.
package sched

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Class is Linux's real-time class (sched(7): SCHED_FIFO) for some threads of this process. A
// thread of that class runs as soon as it is ready. A thread of the usual class may have to wait
// until the turn of a polling program ends, which takes milliseconds.
//
// A process needs CAP_SYS_NICE or an RLIMIT_RTPRIO. Without them, threads stay as they are. A nil
// Class has no room for a thread.
type Class struct {
	most       int32
	processors int
	ready      func() (threads int, ok bool) // Machine.Ready; nil: the class is always wanted

	spare   atomic.Bool  // the last answer of ready
	askNext atomic.Int64 // when to ask again, Now

	// Tests have a class that needs no rights, and a clock.
	attr   *unix.SchedAttr      // of its threads; nil: realTime
	spent  func() time.Duration // of a processor; nil: processorTime
	waited func() time.Duration // for a processor; nil: Delay

	used    atomic.Int32 // threads that are in the class
	packets atomic.Int32 // threads that wait for packets, in the class or not
}

var realTime = unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}

// NewClass has room for one thread per processor of the machine. So together they take four fifths
// of it at most (Thread). On a machine with one processor there is no room, and none in a program
// with the race detector. ready is Machine.Ready, for any thread.
func NewClass(ready func() (threads int, ok bool)) *Class {
	n := runtime.NumCPU()
	c := &Class{processors: n, ready: ready}
	if n > 1 && !raceDetector {
		c.most = int32(n)
	}
	return c
}

// Permitted returns nil if this process has the right to the class.
func Permitted() error {
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with this goroutine
		_, err := new(Class).join()
		refused <- err
	}()
	return <-refused
}

// join puts the calling thread in the class. before is what it was.
func (c *Class) join() (before *unix.SchedAttr, err error) {
	if before, err = unix.SchedGetAttr(0, 0); err != nil {
		return nil, err
	}
	attr := realTime
	if c.attr != nil {
		attr = *c.attr
	}
	return before, set(attr)
}

// leave undoes join. It needs no rights.
func (c *Class) leave(before *unix.SchedAttr) {
	_ = set(unix.SchedAttr{Policy: before.Policy, Nice: before.Nice})
}

// take takes room for a thread.
func (c *Class) take() bool {
	if c == nil {
		return false
	}
	if c.used.Add(1) > c.most {
		c.used.Add(-1)
		return false
	}
	return true
}

// give undoes take.
func (c *Class) give() { c.used.Add(-1) }

// spentUntil returns how long the calling thread has run so far.
func (c *Class) spentUntil() time.Duration {
	if c.spent != nil {
		return c.spent()
	}
	return processorTime()
}

// waitedUntil returns how long the calling thread was ready so far, and did not run. It is 0 if the
// kernel does not say.
func (c *Class) waitedUntil() time.Duration {
	if c.waited != nil {
		return c.waited()
	}
	ns, _ := Delay()
	return time.Duration(ns)
}

// set changes the calling thread. No thread or process that it starts is in the class.
func set(a unix.SchedAttr) error {
	const resetOnFork = 1 // linux/sched.h: SCHED_FLAG_RESET_ON_FORK
	a.Size, a.Flags = unix.SizeofSchedAttr, resetOnFork
	return unix.SchedSetAttr(0, &a, 0)
}

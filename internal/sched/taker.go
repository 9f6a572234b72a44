package sched

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Taker is the calling thread, which takes doorbells and is locked to its goroutine: it does what
// its Policy decides. Only that goroutine uses it.
type Taker struct {
	System  System
	Thread  Thread
	Polling *Polling // learns where programs poll; may be nil

	policy   Policy
	affinity Affinity
	last     Decision
	exact    bool // the thread's timers are
	record   *recorder
}

// System is what a Taker asks of the kernel. A nil function gives no answer.
type System struct {
	Processors int
	Ready      func() (threads int, ok bool) // Machine.Ready
	// the processor of the only running thread of a process
	Running func(process int) (cpu int, found bool)
	Delay   func() (ns int64, ok bool) // Machine.Waited
}

// NewTaker makes a Taker for the calling thread.
func NewTaker(s System, class *Class, polling *Polling) *Taker {
	return &Taker{
		System: s, Thread: Thread{Class: class}, Polling: polling,
		policy: Policy{Processors: s.Processors}, last: Decision{Events: true}, record: newRecorder(),
	}
}

// Observe ends a look: Look.At and Look.Packets are set here. It moves the thread if that is of
// use. Pause does the remainder.
func (t *Taker) Observe(l Look) Decision {
	l.At, l.Packets = Now(), t.Thread.WithPackets()
	d := t.record.observe(&t.policy, l, (*asked)(t))
	t.move(d)
	return d
}

// Pause joins or leaves the class, and pauses, as was decided last.
func (t *Taker) Pause() {
	t.Thread.UpdateClass(t.last.Class)
	if t.last.Pause <= 0 {
		return
	}
	if !t.exact {
		// Without it, the kernel lets 50 µs more pass.
		t.exact = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil
	}
	PauseBriefly(t.last.Pause)
}

// End gives the thread back as it was.
func (t *Taker) End() {
	t.Thread.End()
	t.move(Decision{Events: true})
	t.record.close()
	if t.exact {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: the default
	}
}

// move lets the thread run where a decision says. If the kernel refuses, it runs where it did.
func (t *Taker) move(d Decision) {
	before := t.last
	t.last = d
	if d.Where == before.Where && d.CPU == before.CPU && d.Polls == before.Polls {
		return
	}
	var cpus unix.CPUSet // none: all
	switch d.Where {
	case Anywhere:
	case OnProgram:
		cpus.Set(d.CPU)
	case OffProgram:
		cpus = t.affinity.others(d.CPU)
	}
	if d.Where != before.Where || d.CPU != before.CPU {
		t.affinity.Narrow(cpus)
	}
	t.Polling.move(polled(before), polled(d))
}

// polled returns the processor, plus one, on which the program polls for this thread; 0 if it does
// not.
func polled(d Decision) int {
	if !d.Polls {
		return 0
	}
	return d.CPU + 1
}

// asked is the Machine of a Taker.
type asked Taker

func (a *asked) Ready() (int, bool) {
	if a.System.Ready == nil {
		return 0, false
	}
	return a.System.Ready()
}

func (a *asked) Waited() (time.Duration, bool) {
	if a.System.Delay == nil {
		return 0, false
	}
	ns, ok := a.System.Delay()
	return time.Duration(ns), ok
}

func (a *asked) Processor(program int) (cpu int, ok bool) {
	if a.System.Running == nil {
		return 0, false
	}
	cpu, ok = a.System.Running(program)
	return cpu, ok && a.affinity.allows(cpu)
}

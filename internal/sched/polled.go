package sched

import "time"

// Polled decides how long a thread pauses that polls for doorbells in memory. Nothing wakes it up,
// unless the program is guarded: then its next doorbell can be made to wait, and to wake the
// thread. Polled makes no system call and has no clock.
//
//	the last doorbell is       with a processor to spare   without
//	less than polledSpin ago   no pause                    polledFirst
//	longer ago                 a part of that time         a part of that time
//	polledGuard ago or longer  the same, or guarded        the same, or guarded
//
// A guarded pause is polledLast, or polledSafety if nothing can happen that does not end it.
//
// The part is at least polledFirst and at most polledLast. A processor is to spare while no more
// threads are ready than there are processors: this one and the program's are among them.
type Polled struct {
	Processors int
	Ready      func() (threads int, ok bool) // Machine.Ready

	last  time.Duration // when a doorbell was found
	idle  time.Duration // since then, at the last look
	spare bool
	asked time.Duration // when Ready was
}

// Guarding says what of a program ends a guarded pause.
type Guarding uint8

// The values of Guarding.
const (
	Unguarded Guarding = iota // nothing: there are no guarded pauses
	Guarded                   // some doorbells
	Wholly                    // all that a look could find
)

// Pause is what to do until the next look.
type Pause struct {
	For time.Duration
	// Guard: the next doorbell ends the pause. The thread looks once more when it has seen to that.
	Guard bool
}

// Observe ends a look, which found doorbells or none, and returns the pause before the next one.
func (p *Polled) Observe(now time.Duration, found bool, g Guarding) Pause {
	if found || p.last == 0 {
		p.last = now
	}
	idle := now - p.last
	p.idle = idle
	switch {
	case idle < polledSpin && p.spares(now):
		return Pause{}
	case g == Wholly && idle >= polledGuard:
		return Pause{For: polledSafety, Guard: true}
	case g == Guarded && idle >= polledGuard:
		return Pause{For: polledLast, Guard: true}
	}
	return Pause{For: min(max(idle/polledPart, polledFirst), polledLast)}
}

// Class reports whether the thread wants the real-time class for its next turns: a doorbell was
// found lately, and no processor is to spare. Programs that poll then keep theirs until it wakes up
// in the class.
func (p *Polled) Class() bool { return p.idle < polledClass && !p.spare }

// spares reports whether a processor is to spare, as of the last answer.
func (p *Polled) spares(now time.Duration) bool {
	if p.asked == 0 || now-p.asked >= polledAsk {
		n, ok := p.Ready()
		p.spare, p.asked = ok && p.Processors > 1 && n <= p.Processors, now
	}
	return p.spare
}

package sched

import "time"

// Room is what the machine has for a thread that takes doorbells.
type Room uint8

// The rooms.
const (
	// Tight: each processor may be wanted. A machine with two processors is tight or crowded. Two
	// programs that poll have both, and where the thread runs decides which of them waits.
	Tight Room = iota
	// Spare: a machine with more than two processors has one with nothing to do. The scheduler
	// finds it by itself, so nobody is moved, and nobody has to come before others.
	Spare
	// Crowded: many threads want the processors. A stream's thread should not come before others:
	// daemons of several users would take the machine together, and none knows of the others.
	Crowded
	// Single: there is one processor.
	Single
)

// pair is the number of processors for which the rules of Tight were measured (docs/design/0063).
const pair = 2

// roomOf returns the room of a machine with so many processors and ready threads.
func roomOf(processors, ready int, known bool) Room {
	switch {
	case processors < pair:
		return Single
	case !known || ready > readyEach*processors:
		return Crowded
	case processors > pair && ready < processors:
		return Spare
	default:
		return Tight
	}
}

// hasClass reports whether the real-time class is of use. With processors to spare, a thread of the
// class would take the processor on which it ran last from a program, although another one is idle.
func (r Room) hasClass() bool { return r == Tight || r == Crowded }

// packetsInClass reports whether a thread that waits for packets wants the real-time class, on a
// machine with so many processors and ready threads.
func packetsInClass(processors, ready int, known bool) bool {
	return roomOf(processors, ready, known).hasClass()
}

// DirectPays reports whether doorbells that are not trapped pay. With one processor, a program that
// polls would delay the thread that takes them.
func DirectPays(processors int) bool { return processors >= pair }

// DoorbellThreads returns how many threads of its own a session may have for direct doorbells,
// besides helpers.
func DoorbellThreads(processors int) int {
	if processors <= pair {
		return fewThreads
	}
	return min(max(threadsEach*processors, fewThreads), mostThreads)
}

// ask returns the room. A machine with two processors is asked in streams only, because its room is
// Tight or Crowded, and a program that waits has the same place in both.
func (p *Policy) ask(streams bool, at time.Duration, m Machine) Room {
	switch {
	case p.Processors < pair:
		return Single
	case p.Processors == pair && !streams:
		return Tight
	}
	if at >= p.roomUntil {
		ready, known := m.Ready()
		p.room, p.roomUntil = roomOf(p.Processors, ready, known), at+readyFor
	}
	return p.room
}

// place decides where the thread runs, and whether it spins.
func (p *Policy) place(program State, room Room, l Look, m Machine) {
	switch {
	case program == PingPong && room == Spare:
		p.leave()
		p.spins = p.wantsSpin(l)
	case program == PingPong && room != Single:
		p.follow(room, l, m)
	case (program == Stream || program == Trickle) && room == Tight && !l.Packets:
		p.spins = false
		p.avoid(l, m)
	default:
		p.leave()
	}
}

// wantsSpin reports whether the next request is due soon: most came within linger of the one
// before.
func (p *Policy) wantsSpin(l Look) bool { return p.quick >= quickGaps && !l.Packets }

// leave lets the thread run anywhere.
func (p *Policy) leave() {
	p.spins = false
	if p.where != Anywhere {
		p.where, p.cpu, p.askNext = Anywhere, 0, 0
	}
}

// follow puts the thread on the processor of a program that waits. If it would spin, and another
// processor has nothing else to do, it spins there instead.
func (p *Policy) follow(room Room, l Look, m Machine) {
	p.spins = p.spins && !l.Packets && p.Processors == pair
	if l.Program <= NoProgram || l.At < p.askNext {
		return
	}
	cpu, ok := m.Processor(l.Program)
	to, seldom := OnProgram, placeSeldom
	p.spins = ok && p.wantsSpin(l) && p.Processors == pair && room == Tight && p.otherIsFree(l.At, m)
	if p.wantsSpin(l) {
		seldom = placeSpinning
	}
	if p.spins {
		to = OffProgram
	}
	p.bind(l.At, to, cpu, ok, seldom)
}

// avoid keeps the thread off the processor of a program that streams. If several programs ring, it
// may run anywhere.
func (p *Policy) avoid(l Look, m Machine) {
	switch {
	case l.Program == NoProgram: // a look at a stream that found nothing
	case l.Program < 0:
		p.leave()
	case l.At >= p.askNext:
		cpu, ok := m.Processor(l.Program)
		p.bind(l.At, OffProgram, cpu, ok, placeSeldom)
	}
}

// otherIsFree reports, for a machine with two processors, whether the one beside the program's has
// nothing to do but to run this thread. There seems to be one if no more threads are ready than
// there are processors. If so, the thread does not have to wait there. While it spins, Go's monitor
// thread often is ready too, so only the second question counts.
func (p *Policy) otherIsFree(at time.Duration, m Machine) bool {
	waited, ok := m.Waited()
	delay := waited - p.waited
	p.waited = waited
	if p.spins {
		return ok && delay <= (at-p.asked)/spinDelay
	}
	ready, known := m.Ready()
	return ok && known && ready <= p.Processors
}

// bind notes an answer, and says when to ask again.
func (p *Policy) bind(at time.Duration, to Where, cpu int, ok bool, seldom time.Duration) {
	if !ok {
		to, cpu = Anywhere, 0
	}
	if to == p.where && cpu == p.cpu {
		p.between = min(max(2*p.between, placeOften), seldom)
	} else {
		p.between = placeOften
		p.where, p.cpu = to, cpu
	}
	p.asked, p.askNext = at, at+p.between
}

package sched

import "time"

// A Policy decides when and where one thread takes doorbells, from what its looks for them find. It
// makes no system call and has no clock. So a test runs it for any machine.
//
// The state says what the program does:
//
//	state     the program                                 pause after a look          events
//	Idle      is not known yet                            none                        on
//	PingPong  waits for each request                      none                        on
//	Spinning  the same, and the next one is due soon      none                        off, for linger
//	Trickle   posts without waiting, one at a time        tryPause, now and then      on
//	Stream    posts many requests without waiting         pauseEach for each request  off while looks find some
//	Starved   posts to a peer that has no receive         CreditPause                 as without that
//
// Events are what wakes the thread: without them the program's doorbell is cheaper, and the thread
// looks again by itself. A look that leaves work (Look.More) is followed by the next one at once.
//
// The room says what the machine has (see roomOf). Where the thread runs, and whether it wants the
// real-time class:
//
//	           PingPong                   Spinning            Trickle, Stream      class
//	Spare      anywhere                   anywhere            anywhere             no
//	Tight      on the program's           off it              off it               with packets, or while a
//	           processor                                                           stream leaves work
//	Crowded    on the program's           does not spin       anywhere             with packets
//	           processor
//	Single     anywhere                   does not spin       anywhere             no
//
// With packets means that other threads of this process wait for packets in the class
// (Look.Packets). The thread then does not spin, because a thread of the class must sleep, and it
// does not keep off a stream's processor.
//
// A stream rings while it posts, and polls elsewhere: so the thread keeps off its processor. A
// program that waits has nothing to do on its processor but poll, so the thread takes its turn
// there, within 2 µs. An idle processor of a virtual machine takes 10 µs to wake up.
type Policy struct {
	Processors int // of the machine

	// What the program does:
	score int           // rises with looks at a stream, falls with awaited requests
	found int           // requests at the last look
	tries int           // looks until the next tryPause
	quick int           // rises with requests that come within linger, and falls with others
	came  time.Duration // when a look last found a request
	busy  bool          // the last look at a stream left work

	// The machine:
	room      Room
	roomUntil time.Duration // when to ask again
	spins     bool          // a processor is there for it

	// The place:
	where   Where
	cpu     int           // of the program, if where names it
	asked   time.Duration // when the program's processor was last asked for
	askNext time.Duration // when to ask again
	between time.Duration // two questions
	waited  time.Duration // Machine.Waited at the last question
}

// State is what the program does.
type State uint8

// The states of a Policy.
const (
	Idle State = iota
	PingPong
	Spinning
	Trickle
	Stream
	Starved
)

var stateNames = [...]string{"idle", "ping-pong", "spinning", "trickle", "stream", "starved"}

func (s State) String() string { return stateNames[s] }

// Where is on which processors the thread runs.
type Where uint8

// The places of a Policy.
const (
	Anywhere Where = iota
	OnProgram
	OffProgram
)

// A Look is what one look for doorbells has found.
type Look struct {
	Began    time.Duration `json:"began"`              // on a clock that does not go back
	At       time.Duration `json:"at"`                 // when it ended
	Requests int           `json:"requests,omitempty"` // that the program posted
	// how many of them the program waits for, one at a time
	Awaited  int  `json:"awaited,omitempty"`
	More     bool `json:"more,omitempty"`     // work is left
	NoCredit bool `json:"nocredit,omitempty"` // a message waits for a receive of its peer
	// the process that posted, or one of the two below
	Program int `json:"program,omitempty"`
	// threads of this process wait for packets in the class
	Packets bool `json:"packets,omitempty"`
}

// Values of Look.Program.
const (
	NoProgram       = 0
	SeveralPrograms = -1
)

// Machine answers what a Policy asks. Each answer costs system calls, so a Policy asks seldom.
type Machine interface {
	// Ready returns how many threads of the machine run or are ready to, the caller among them.
	Ready() (threads int, ok bool)
	// Waited returns how long the calling thread was ready so far, and did not run.
	Waited() (time.Duration, bool)
	// Processor returns the processor of the program's only running thread. ok is false if none
	// runs, if several do, or if the calling thread may not use that processor.
	Processor(program int) (cpu int, ok bool)
}

// A Decision is what follows from a look.
type Decision struct {
	State  State
	Pause  time.Duration // before the next look
	Where  Where
	CPU    int  // of the program, unless Where is Anywhere
	Polls  bool // the program polls on CPU: others should keep off
	Class  bool // the thread wants the real-time class
	Events bool // doorbells have to wake the thread
}

// Observe takes a look into account, and returns what follows.
func (p *Policy) Observe(l Look, m Machine) Decision {
	p.learn(l)
	program := p.program()
	streams := program == Stream || program == Trickle
	room := p.ask(streams, l.At, m)
	p.busy = streams && room != Crowded && (l.More || l.NoCredit && p.busy)
	p.place(program, room, l, m)
	d := Decision{State: program, Where: p.where, CPU: p.cpu, Class: room.hasClass() && (p.busy || l.Packets)}
	if p.spins {
		d.State = Spinning
	}
	d.Polls = program == PingPong && d.Where != Anywhere
	d.Events = !p.looksAgain(d.State, l)
	d.Pause = p.pause(program, l)
	if l.NoCredit && !l.More {
		d.State, d.Pause = Starved, CreditPause
	}
	return d
}

// learn notes what a look has found.
func (p *Policy) learn(l Look) {
	if l.Requests == 0 {
		return
	}
	if l.At-p.came < linger {
		p.quick = min(p.quick+1, maxQuick)
	} else {
		p.quick = max(p.quick-lateGap, 0)
	}
	p.came = l.At
	p.found = max(l.Requests, p.found*foundKept/foundOf)
	if 2*l.Awaited >= l.Requests {
		p.score = max(p.score-1, -maxScore)
	} else {
		p.score = min(p.score+1, maxScore)
	}
}

// program returns what the looks so far say: Idle, PingPong, Trickle or Stream.
func (p *Policy) program() State {
	switch {
	case p.score <= -sureScore:
		return PingPong
	case p.score < sureScore:
		return Idle
	case time.Duration(p.found)*pauseEach < minPause:
		return Trickle
	default:
		return Stream
	}
}

// looksAgain reports whether the thread looks again by itself.
func (p *Policy) looksAgain(s State, l Look) bool {
	switch s {
	case Spinning:
		return l.Requests > 0 || l.At-p.came < linger
	case Stream:
		return l.Requests > 0 || l.NoCredit
	default:
		return false
	}
}

// pause returns how long the thread pauses after a look.
func (p *Policy) pause(program State, l Look) (pause time.Duration) {
	switch {
	case program == Stream:
		p.tries = 0
		pause = min(time.Duration(p.found)*pauseEach, maxPause)
	case program == Trickle && p.tries <= 1:
		p.tries = tryEvery
		pause = tryPause
	case program == Trickle:
		p.tries--
	}
	if l.More {
		return 0
	}
	// A look at large messages takes longer than the pause. The difference counts as a part of the
	// pause.
	over := l.At - l.Began - pause
	return max(0, pause-max(0, over))
}

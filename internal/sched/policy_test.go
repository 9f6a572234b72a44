package sched

import (
	"testing"
	"time"
)

// model is a machine for tests.
type model struct {
	ready   int
	unknown bool // how many are ready
	waited  time.Duration
	running map[int]int // of each program with one running thread
	asked   struct{ ready, waited, processor int }
}

func (m *model) Ready() (int, bool) { m.asked.ready++; return m.ready, !m.unknown }

func (m *model) Waited() (time.Duration, bool) { m.asked.waited++; return m.waited, true }

func (m *model) Processor(program int) (int, bool) {
	m.asked.processor++
	cpu, ok := m.running[program]
	return cpu, ok
}

// player runs a policy on looks that a test makes.
type player struct {
	Policy
	model
	at   time.Duration
	last Decision
}

const program = 7

// newPlayer is a machine with one program, which runs on the last processor, and so many threads
// that run.
func newPlayer(processors, ready int) *player {
	p := &player{Policy: Policy{Processors: processors}, at: time.Hour}
	p.ready, p.running = ready, map[int]int{program: processors - 1}
	return p
}

// looks makes n looks, each some time after the one before, and returns the last decision.
func (p *player) looks(n int, every time.Duration, l Look) Decision {
	for range n {
		p.at += every
		l.Began, l.At = p.at, p.at
		if l.Requests > 0 && l.Program == 0 {
			l.Program = program
		}
		p.last = p.Observe(l, &p.model)
	}
	return p.last
}

const soon, late = 10 * time.Microsecond, 20 * time.Millisecond

var (
	awaited = Look{Requests: 1, Awaited: 1}
	single  = Look{Requests: 1}
	many    = Look{Requests: 100}
	nothing = Look{}
)

// TestPaceOfWaiting: while a program waits for each request, no look is put off, and its doorbells
// wake the thread.
func TestPaceOfWaiting(t *testing.T) {
	p := newPlayer(2, 3)
	for i := range 100 {
		d := p.looks(1, late, awaited)
		if want := i+1 >= sureScore; d.Pause != 0 || !d.Events || (d.State == PingPong) != want {
			t.Fatalf("after %d looks: %+v", i+1, d)
		}
	}
}

// TestPaceOfStream: a stream that is found one request at a time is given a short pause now and
// then. If that finds more, the pauses grow with what they find, up to maxPause.
func TestPaceOfStream(t *testing.T) {
	p := newPlayer(2, 3)
	if d := p.looks(sureScore, soon, single); d.Pause != tryPause || d.State != Trickle {
		t.Fatalf("the first pause is %v of a %v, want %v", d.Pause, d.State, tryPause)
	}
	for i := range tryEvery - 1 {
		if d := p.looks(1, soon, single); d.Pause != 0 {
			t.Fatalf("the try found nothing, and look %d is put off by %v", i, d.Pause)
		}
	}
	if d := p.looks(1, soon, single); d.Pause != tryPause {
		t.Error("there is no second try")
	}
	for _, found := range []int{3, 10, 24, 25, 1000} {
		d := p.looks(1, soon, Look{Requests: found})
		if want := min(time.Duration(found)*pauseEach, maxPause); d.Pause != want || d.State != Stream {
			t.Errorf("%d requests found, and a pause of %v of a %v; want %v", found, d.Pause, d.State, want)
		}
	}
}

// TestPauseAfterLongLook: what a look takes longer than the pause counts as a part of the pause.
func TestPauseAfterLongLook(t *testing.T) {
	p := newPlayer(2, 3)
	p.looks(maxScore, soon, many)
	for took, want := range map[time.Duration]time.Duration{
		0: maxPause, maxPause: maxPause, maxPause + soon: maxPause - soon, 2 * maxPause: 0, 3 * maxPause: 0,
	} {
		l := many
		l.Began, l.At = p.at, p.at+took
		if d := p.Observe(l, &p.model); d.Pause != want {
			t.Errorf("after a look of %v the pause is %v, want %v", took, d.Pause, want)
		}
		p.at = l.At
	}
}

// TestPaceForgets: one look that finds a single request does not end the pauses. Many do, and so do
// looks at awaited requests.
func TestPaceForgets(t *testing.T) {
	for name, l := range map[string]Look{"single": single, "awaited": awaited} {
		p := newPlayer(2, 3)
		p.looks(maxScore, soon, many)
		if d := p.looks(1, soon, l); d.Pause != maxPause {
			t.Errorf("%s: one look ended the pauses", name)
		}
		if d := p.looks(20, soon, l); d.Pause > tryPause {
			t.Errorf("%s: after 20 looks the pause is %v", name, d.Pause)
		}
	}
}

// TestPaceOfNothing: a look that found nothing says nothing.
func TestPaceOfNothing(t *testing.T) {
	p := newPlayer(2, 3)
	if d := p.looks(100, soon, nothing); d != (Decision{Events: true}) {
		t.Errorf("empty looks changed the pace: %+v", d)
	}
	if p.model.asked.ready+p.model.asked.waited+p.model.asked.processor > 0 {
		t.Error("the machine was asked for a program that does nothing")
	}
}

// TestCrowded: a machine is crowded with more than two ready threads for each processor, and an
// answer holds for a while. A machine that does not say how many there are may have many.
func TestCrowded(t *testing.T) {
	for _, processors := range []int{2, 4, 16, 64} {
		most := readyEach * processors
		for _, c := range []struct {
			ready   int
			unknown bool
			crowded bool
		}{{most, false, false}, {most + 1, false, true}, {1, false, false}, {1, true, true}} {
			p := newPlayer(processors, c.ready)
			p.unknown = c.unknown
			p.looks(maxScore, soon, many)
			if (p.room == Crowded) != c.crowded {
				t.Errorf("%d processors and %+v: the room is %d", processors, c, p.room)
			}
			before, asked := p.room, p.model.asked.ready
			p.ready, p.unknown = most-p.ready, !c.unknown
			if p.looks(1, soon, many); p.room != before || p.model.asked.ready != asked {
				t.Error("the answer did not hold")
			}
		}
	}
}

// TestPlace: on two busy processors the thread is on that of a program that waits. It is free again
// when the program sleeps.
func TestPlace(t *testing.T) {
	p := newPlayer(2, 3)
	if d := p.looks(sureScore, late, awaited); d.Where != OnProgram || d.CPU != 1 || !d.Polls {
		t.Fatalf("the program waits, and the thread is elsewhere: %+v", d)
	}
	p.running[program] = 0
	if d := p.looks(4, placeSeldom, awaited); d.Where != OnProgram || d.CPU != 0 {
		t.Errorf("the thread does not follow the program: %+v", d)
	}
	delete(p.running, program)
	if d := p.looks(4, placeSeldom, awaited); d.Where != Anywhere || d.Polls {
		t.Errorf("no thread of the program runs, and this one is bound: %+v", d)
	}
}

// TestPlaceSeldom: while the answer stays the same, the program's threads are looked at less and
// less often.
func TestPlaceSeldom(t *testing.T) {
	p := newPlayer(2, 3)
	p.looks(sureScore, late, awaited)
	last := time.Duration(0)
	for range 20 {
		p.at = max(p.at, p.askNext)
		asked := p.model.asked.processor
		p.looks(1, 0, awaited)
		if p.model.asked.processor != asked+1 || p.between < last || p.between > placeSeldom {
			t.Fatalf("%v until the next look, and %v before", p.between, last)
		}
		last = p.between
	}
	if last != placeSeldom {
		t.Errorf("%v until the next look, want %v", last, placeSeldom)
	}
	asked := p.model.asked.processor
	if p.looks(1, soon, awaited); p.model.asked.processor != asked {
		t.Error("it looked too early")
	}
}

// TestSpin: on two processors, a thread spins on the other one if the program's requests come soon,
// and no more threads are ready than there are processors. It goes on as long as it does not wait
// for its processor.
func TestSpin(t *testing.T) {
	p := newPlayer(2, 2)
	if d := p.looks(20, late, awaited); d.State != PingPong || d.Where != OnProgram {
		t.Fatalf("requests come late, and the thread is %+v", d)
	}
	spins := func(what string, want bool) {
		t.Helper()
		d := p.looks(int(2*placeSeldom/soon), soon, awaited)
		where := map[bool]Where{true: OffProgram, false: OnProgram}[want]
		if (d.State == Spinning) != want || d.Where != where || !d.Polls || d.Class {
			t.Errorf("%s: %+v, want it to spin: %t", what, d, want)
		}
	}
	spins("requests come soon", true)
	p.model.waited += time.Hour
	p.at = p.askNext
	if d := p.looks(1, 0, awaited); d.State == Spinning {
		t.Error("a thread that waits for its processor spins")
	}
	spins("it no longer waits", true)
	p.ready = 3 // while it spins, this counts no more
	spins("another thread is ready", true)
	p.model.waited += time.Hour
	p.at = p.askNext
	p.looks(1, 0, awaited)
	spins("three threads are ready", false)
	p.ready = 2
	spins("two are ready", true)
	packets := awaited
	packets.Packets = true
	if d := p.looks(1, soon, packets); d.State == Spinning || !d.Class {
		t.Errorf("threads wait for packets, and this one spins or has no class: %+v", d)
	}
}

// TestLinger: a thread that spins goes on looking for a while after each request, and then waits
// for events.
func TestLinger(t *testing.T) {
	p := newPlayer(2, 2)
	if d := p.looks(int(placeSeldom/soon), soon, awaited); d.State != Spinning || d.Events {
		t.Fatalf("the thread does not linger after a request: %+v", d)
	}
	if d := p.looks(1, linger-1, nothing); d.Events {
		t.Error("the thread does not linger after a look that found nothing")
	}
	if d := p.looks(1, 1, nothing); !d.Events {
		t.Error("the thread lingers without end")
	}
	if d := p.looks(maxQuick, late, awaited); d.State == Spinning {
		t.Error("the thread spins although all requests come late")
	}
}

// TestBusy: a thread wants the class while looks at a stream leave work. It does not if the program
// waits for each request, if nothing is left, or if the machine has many threads to run.
func TestBusy(t *testing.T) {
	p := newPlayer(2, 3)
	look := func(want bool, l Look) {
		t.Helper()
		if d := p.looks(20, soon, l); d.Class != want {
			t.Errorf("after looks that found %+v the thread wants the class: %t, want %t", l, d.Class, want)
		}
	}
	left := Look{Requests: 4, More: true}
	look(true, left)
	look(false, Look{Requests: 4})
	look(true, left)
	look(false, Look{Requests: 1, Awaited: 1, More: true})
	look(false, Look{NoCredit: true})
	look(true, left)
	look(true, Look{NoCredit: true}) // the program of the receiver has the pauses
	look(false, nothing)
	p.ready, p.roomUntil = 1_000_000, 0
	look(false, left)
	look(true, Look{Requests: 4, Packets: true})
}

// TestCreditPause: a look at messages that wait for receive work requests is followed by a pause,
// unless another queue has work left. The device raises no events if its program posts a stream.
func TestCreditPause(t *testing.T) {
	p := newPlayer(2, 3)
	look := func(n int, want time.Duration, l Look) (d Decision) {
		t.Helper()
		if d = p.looks(n, soon, l); d.Pause != want {
			t.Errorf("after a look that found %+v the pause is %v, want %v", l, d.Pause, want)
		}
		return d
	}
	look(1, 0, nothing)
	if d := look(1, CreditPause, Look{NoCredit: true}); !d.Events || d.State != Starved {
		t.Errorf("the first requests of a program end its events: %+v", d)
	}
	look(1, 0, Look{NoCredit: true, More: true})
	if d := look(20, CreditPause, Look{Requests: 100, NoCredit: true}); d.Events {
		t.Error("a device that is looked at again raises events")
	}
	if d := look(1, CreditPause, Look{NoCredit: true}); d.Events {
		t.Error("a device that is looked at again raises events")
	}
}

// TestOffProgram: the thread keeps off the processor of a program that posts a stream. It goes on
// that processor when the program waits for each request. Beside threads that wait for packets, for
// several programs and on a crowded machine it goes anywhere.
func TestOffProgram(t *testing.T) {
	p := newPlayer(2, 2)
	look := func(want Where, l Look) {
		t.Helper()
		if d := p.looks(30, placeSeldom, l); d.Where != want || d.Where != Anywhere && d.CPU != 1 {
			t.Errorf("after looks that found %+v: %+v, want place %d", l, d, want)
		}
	}
	look(OffProgram, many)
	if p.last.Polls {
		t.Error("a program that posts a stream counts as one that polls")
	}
	look(OnProgram, awaited)
	look(OffProgram, many)
	look(OffProgram, nothing)
	p.ready = 1_000_000
	look(Anywhere, many)
	p.ready = 2
	look(OffProgram, many)
	look(Anywhere, Look{Requests: 100, Packets: true})
	look(OffProgram, many)
	look(Anywhere, Look{Requests: 100, Program: SeveralPrograms})
	look(OffProgram, many)
	look(OnProgram, Look{Requests: 1, Awaited: 1, Packets: true})
}

// TestStates walks the table of Policy: what each state has for pause and events, and where the
// thread is in each room.
func TestStates(t *testing.T) {
	stream := Look{Requests: 10}
	starved := Look{Requests: 10, NoCredit: true}
	// processors, ready threads
	rooms := map[Room][2]int{Spare: {4, 3}, Tight: {2, 3}, Crowded: {2, 9}, Single: {1, 2}}
	for _, c := range []struct {
		state  State
		every  time.Duration
		look   Look
		pause  time.Duration
		events bool
		where  map[Room]Where // Anywhere if it is not there
	}{
		{Idle, soon, nothing, 0, true, nil},
		{PingPong, late, awaited, 0, true, map[Room]Where{Tight: OnProgram, Crowded: OnProgram}},
		{Spinning, soon, awaited, 0, false, nil},
		{Trickle, soon, single, 0, true, map[Room]Where{Tight: OffProgram}},
		{Stream, soon, stream, 10 * pauseEach, false, map[Room]Where{Tight: OffProgram}},
		{Starved, soon, starved, CreditPause, false, map[Room]Where{Tight: OffProgram}},
	} {
		for room, machine := range rooms {
			if c.state == Spinning && room != Spare {
				continue // TestSpin has two processors
			}
			p := newPlayer(machine[0], machine[1])
			d := p.looks(20, c.every, c.look)
			if d.State != c.state || d.Pause != c.pause || d.Events != c.events || d.Where != c.where[room] || d.Class {
				t.Errorf("%v in room %d: %+v", c.state, room, d)
			}
		}
	}
}

package sched

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// topology is a machine with so many processors, and so many threads that are ready.
type topology struct {
	processors, ready int
	// What must hold there:
	moves bool // the thread may be bound to a processor, or kept off one
	class bool // the thread may be in the real-time class
	spins bool // the thread may go on looking while its program waits
}

// topologies are machines of each size: calm, with a thread for each processor and one more, and
// with many. With processors to spare nobody is moved and nobody is in the class. A thread spins
// only where a processor has nothing else to do.
var topologies = []topology{
	{processors: 1, ready: 2}, {processors: 1, ready: 9},
	{processors: 2, ready: 2, moves: true, class: true, spins: true},
	{processors: 2, ready: 3, moves: true, class: true}, {processors: 2, ready: 9, moves: true, class: true},
	{processors: 4, ready: 3, spins: true},
	{processors: 4, ready: 5, moves: true, class: true}, {processors: 4, ready: 17, moves: true, class: true},
	{processors: 16, ready: 15, spins: true},
	{processors: 16, ready: 17, moves: true, class: true}, {processors: 16, ready: 33, moves: true, class: true},
	{processors: 64, ready: 4, spins: true},
	{processors: 64, ready: 65, moves: true, class: true}, {processors: 64, ready: 300, moves: true, class: true},
}

func (m topology) String() string {
	return fmt.Sprintf("%d processors, %d ready threads", m.processors, m.ready)
}

// check says what a decision breaks that must hold on a machine, whatever its program does.
func (m topology) check(l Look, d Decision) (broken []string) {
	says := func(broke bool, what string) {
		if broke {
			broken = append(broken, what)
		}
	}
	crowded := m.ready > readyEach*m.processors
	says(d.Where != Anywhere && !m.moves, "the thread is moved")
	says(d.Class && !m.class, "the thread is in the class")
	says(d.State == Spinning && !m.spins, "the thread spins, and no processor has nothing else to do")
	says(d.State == Spinning && (l.Packets || d.Class), "a thread of the class does not sleep")
	says(d.Class && crowded && !l.Packets, "a stream's thread comes before the others of a crowded machine")
	says((d.State == Stream || d.State == Trickle) && d.Where == OnProgram, "the thread is on the processor of a stream")
	says((d.State == Stream || d.State == Trickle) && d.Where == OffProgram && crowded, "a crowded machine's thread is moved for a stream")
	says(d.Polls && d.Where == Anywhere, "a program polls nowhere")
	says(d.Pause > maxPause, "a pause is too long")
	says(d.Pause > 0 && l.More, "work is left, and the thread pauses")
	waits := d.State == Idle || d.State == PingPong || d.State == Spinning
	says(waits && d.Pause > 0, "a program that waits is not served at once")
	says(!d.Events && (d.State == Idle || d.State == PingPong || d.State == Trickle), "no event comes, and the thread does not look again")
	return broken
}

// machine is the model of a topology. Each program has one running thread.
func (m topology) machine() *model {
	cpus := make(map[int]int)
	for i := range 8 {
		cpus[i+1] = i % m.processors
	}
	return &model{ready: m.ready, running: cpus}
}

// recording reads the looks of a real run on two processors (RecordTo): of ibv_rc_pingpong,
// ib_send_lat, and ib_write_bw of 64 bytes. pairs is one of three pairs of ib_send_bw of 4 KiB
// under one daemon, and idle is ibv_rc_pingpong with two messages. Times begin with the first look,
// and processes have small numbers.
func recording(t *testing.T, path string) (lines []recorded) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var r recorded
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lines = append(lines, r)
	}
	return lines
}

func recordings(t *testing.T) map[string][]recorded {
	t.Helper()
	paths, _ := filepath.Glob("testdata/looks/*.jsonl")
	all := make(map[string][]recorded)
	for _, path := range paths {
		all[strings.TrimSuffix(filepath.Base(path), ".jsonl")] = recording(t, path)
	}
	for _, name := range []string{"pingpong", "send_lat", "write_bw", "pairs", "idle"} {
		if len(all[name]) == 0 {
			t.Fatalf("there is no recording %s", name)
		}
	}
	return all
}

// replayed is the machine of a recording, as far as the policy asked for it.
type replayed struct {
	t    *testing.T
	line *recorded
}

func (m *replayed) Ready() (int, bool)            { return answer(m.line.Ready) }
func (m *replayed) Waited() (time.Duration, bool) { return answer(m.line.Waited) }
func (m *replayed) Processor(int) (int, bool)     { return answer(m.line.Processor) }

func answer[T any](v *T) (got T, ok bool) {
	if v == nil {
		return got, false
	}
	return *v, true
}

// TestRecordings: the policy decides again what it decided in real runs on two processors.
func TestRecordings(t *testing.T) {
	for name, lines := range recordings(t) {
		p := Policy{Processors: 2}
		for i := range lines {
			if d := p.Observe(lines[i].Look, &replayed{t, &lines[i]}); d.State.String() != lines[i].State {
				t.Fatalf("%s, line %d: %v, want %s", name, i+1, d.State, lines[i].State)
			}
		}
	}
}

// TestTopologiesRecorded: on each machine what must hold does, when programs do what they did in
// real runs. Programs that wait for each request are seen as such, and so are streams.
func TestTopologiesRecorded(t *testing.T) {
	mostly := map[string][]State{
		"pingpong": {PingPong, Spinning}, "send_lat": {PingPong, Spinning}, "write_bw": {Stream}, "pairs": {Stream, Starved}, "idle": {Idle},
	}
	for name, lines := range recordings(t) {
		for _, m := range topologies {
			p, machine := Policy{Processors: m.processors}, m.machine()
			states := make(map[State]int)
			for i := range lines {
				d := p.Observe(lines[i].Look, machine)
				states[d.State]++
				for _, what := range m.check(lines[i].Look, d) {
					t.Errorf("%s on %v, line %d: %s: %+v", name, m, i+1, what, d)
				}
			}
			n := 0
			for _, s := range mostly[name] {
				n += states[s]
			}
			if n < len(lines)*9/10 {
				t.Errorf("%s on %v: the states are %v, want mostly %v", name, m, states, mostly[name])
			}
		}
	}
}

// TestTopologiesRandom: on each machine what must hold does, whatever programs do.
func TestTopologiesRandom(t *testing.T) {
	for _, m := range topologies {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, uint64(m.processors)))
			p, machine := Policy{Processors: m.processors}, m.machine()
			at := time.Duration(0)
			var l Look
			for i := range 2_000 {
				if i%(1+rng.IntN(60)) == 0 { // the program does something else
					n := rng.IntN(4) * rng.IntN(100)
					l = Look{Requests: n, Awaited: n * rng.IntN(2), More: rng.IntN(8) == 0, NoCredit: rng.IntN(8) == 0,
						Program: rng.IntN(4) - 1, Packets: rng.IntN(4) == 0}
				}
				at += time.Duration(rng.IntN(3)) * time.Duration(rng.IntN(int(late)))
				machine.waited += time.Duration(rng.IntN(2)) * time.Duration(rng.IntN(int(soon)))
				l.Began, l.At = at, at+time.Duration(rng.IntN(int(maxPause)))
				at = l.At
				d := p.Observe(l, machine)
				for _, what := range m.check(l, d) {
					t.Fatalf("%v, seed %d, look %d: %s: %+v after %+v", m, seed, i, what, d, l)
				}
			}
		}
	}
}

// TestWaitingProgramIsServedAtOnce: a program that posts one request, waits for it and computes
// never waits for a pause of the thread. That is so on each machine, for short and for long times
// between two requests, and soon after a stream.
func TestWaitingProgramIsServedAtOnce(t *testing.T) {
	for _, m := range topologies {
		for _, think := range []time.Duration{time.Microsecond, soon, linger - 1, linger, time.Millisecond, time.Second} {
			p := newPlayer(m.processors, m.ready)
			p.looks(100, soon, many)
			late, spun := 0, 0
			for i := range 5_000 {
				d := p.looks(1, think, awaited)
				if d.Pause > 0 {
					late++
				}
				if d.State == Spinning && i > maxQuick { // by then, the stream is forgotten
					spun++
				}
				for _, what := range m.check(awaited, d) {
					if d.State != Stream { // it is one still, to the policy
						t.Fatalf("%v, a request each %v: %s: %+v", m, think, what, d)
					}
				}
				// Without events the thread has to be looking when the next request comes.
				for d.Pause == 0 && !d.Events && p.at-p.came < think {
					d = p.looks(1, time.Microsecond, nothing)
				}
			}
			if most := maxScore + sureScore; late > most {
				t.Errorf("%v, a request each %v: %d waited for a pause, want %d at most", m, think, late, most)
			}
			if want := m.spins && think < linger; (spun > 0) != want {
				t.Errorf("%v, a request each %v: the thread has spun %d times, want any: %t", m, think, spun, want)
			}
		}
	}
}

// TestStreamIsServedInBatches: looks at a program that posts a request each microsecond find
// several, on each machine, and no request waits longer than a pause and a look.
func TestStreamIsServedInBatches(t *testing.T) {
	const request, fixed, each = time.Microsecond, 3 * time.Microsecond, 200 * time.Nanosecond
	for _, m := range topologies {
		p := newPlayer(m.processors, m.ready)
		at, taken, looks := time.Duration(0), time.Duration(0), 0
		for at < 50*time.Millisecond {
			n := int((at - taken) / request)
			taken += time.Duration(n) * request
			l := Look{Began: at, At: at + fixed + time.Duration(n)*each, Requests: n, Program: program}
			d := p.Observe(l, &p.model)
			if wait := l.At + d.Pause - at; wait > maxPause+l.At-l.Began {
				t.Fatalf("%v: a request waits for %v", m, wait)
			}
			for _, what := range m.check(l, d) {
				t.Fatalf("%v: %s: %+v", m, what, d)
			}
			at = l.At + max(d.Pause, request)
			looks++
			if looks > 100 && d.State != Stream {
				t.Fatalf("%v: the stream is %v", m, d.State)
			}
		}
		if n := int(taken/request) / looks; time.Duration(n)*pauseEach < minPause {
			t.Errorf("%v: a look finds %d requests", m, n)
		}
	}
}

// TestSpareProcessors: as processors become free and are taken again, the thread leaves its place
// and takes it again.
func TestSpareProcessors(t *testing.T) {
	for _, processors := range []int{4, 16, 64} {
		p := newPlayer(processors, processors+1)
		for range 3 {
			p.setReady(processors + 1)
			if d := p.looks(10, placeSeldom, many); d.Where != OffProgram {
				t.Errorf("%d processors, none is free, and the thread is not off the program's: %+v", processors, d)
			}
			p.setReady(processors - 1)
			if d := p.looks(10, placeSeldom, many); d.Where != Anywhere {
				t.Errorf("%d processors, one is free, and the thread is moved: %+v", processors, d)
			}
		}
	}
}

func (p *player) setReady(n int) { p.ready = n }

// TestDoorbellThreads: a session has four threads for doorbells on two processors, and more on a
// larger machine, but not without end. Doorbells are trapped by default on one processor only.
func TestDoorbellThreads(t *testing.T) {
	for processors, want := range map[int]int{1: 4, 2: 4, 4: 8, 16: 16, 64: 16} {
		if n := DoorbellThreads(processors); n != want {
			t.Errorf("%d processors: %d threads, want %d", processors, n, want)
		}
		if DirectPays(processors) != (processors > 1) {
			t.Errorf("%d processors: direct doorbells pay: %t", processors, DirectPays(processors))
		}
	}
}

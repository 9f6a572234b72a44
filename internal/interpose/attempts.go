package interpose

import (
	"sync/atomic"
	"time"
)

// The engine's threads serve everybody, and an access to a program's memory can
// hold one up for ever. It has spares for some that are stuck, but one user with
// many queue pairs could use them all up. So an address space in which several
// accesses are stuck refuses more, and so do all spaces of a user who has still
// more of them: a protection error to the queue pair that needed one, until some
// come back.

const (
	maxStuck   = 4                             // of one address space
	stuckAfter = int64(200 * time.Millisecond) // a busy machine is no reason
	noTicket   = -1                            // more at once than are counted
)

// Held is what the programs of one user hold up by memory that does not answer.
type Held struct {
	receivers atomic.Int32 // of all sessions; maxHeld of them
	accesses  atomic.Int32 // by the engine that are under way
	since     [64]atomic.Int64
}

const (
	// maxHeld bounds the threads that a user's sessions occupy together.
	maxHeld = 4 * maxCaught
	// maxHeldAccesses bounds those of the engine. A watch that replaces them one by
	// one has time for as many again before they count as stuck; its reserve (rocev2,
	// engine: 128) is enough for that of five users.
	maxHeldAccesses = 12
)

// attempts are the accesses by the engine to one address space.
type attempts struct {
	since [8]atomic.Int64 // when an access began; 0 if there is none
}

// begin allows an access or refuses it. What it returns is for end.
func (a *attempts) begin(now int64) (ticket int, ok bool) {
	return claim(a.since[:], now, maxStuck)
}

// claim notes the time in a free place, unless most of those taken are stuck.
func claim(since []atomic.Int64, now int64, most int) (ticket int, ok bool) {
	free, stuck := noTicket, 0
	for i := range since {
		switch since := since[i].Load(); {
		case since == 0:
			free = i
		case now-since > stuckAfter:
			stuck++
		}
	}
	if stuck >= most {
		return noTicket, false
	}
	if free != noTicket && since[free].CompareAndSwap(0, now|1) {
		return free, true
	}
	return noTicket, true
}

func (a *attempts) end(ticket int) {
	if ticket != noTicket {
		a.since[ticket].Store(0)
	}
}

// begin allows an access or refuses it, as attempts.begin. Few at a time are not
// worth a look at all.
func (h *Held) begin(now int64) (ticket int, ok bool) {
	if h.accesses.Add(1) > maxHeldAccesses {
		if ticket, ok = claim(h.since[:], now, maxHeldAccesses); !ok {
			h.accesses.Add(-1)
		}
		return ticket, ok
	}
	for i := range h.since {
		if h.since[i].Load() == 0 && h.since[i].CompareAndSwap(0, now|1) {
			return i, true
		}
	}
	return noTicket, true
}

func (h *Held) end(ticket int) {
	if ticket != noTicket {
		h.since[ticket].Store(0)
	}
	h.accesses.Add(-1)
}

// turn is an access by the engine.
type turn struct{ own, held int }

// begin allows the engine an access or refuses it.
func (s *space) begin() (turn, bool) {
	now := nanotime()
	own, ok := s.engine.begin(now)
	if !ok {
		return turn{}, false
	}
	held, ok := s.held.begin(now)
	if !ok {
		s.engine.end(own)
	}
	return turn{own, held}, ok
}

func (s *space) end(t turn) {
	s.held.end(t.held)
	s.engine.end(t.own)
}

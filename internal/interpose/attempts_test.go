package interpose

import "testing"

func TestAttempts(t *testing.T) {
	var a attempts
	var tickets []int
	for range len(a.since) {
		ticket, ok := a.begin(nanotime())
		if !ok || ticket == noTicket {
			t.Fatalf("attempt %d: %d, %t", len(tickets), ticket, ok)
		}
		tickets = append(tickets, ticket)
	}
	// More at once are not counted, and not refused: they may be quick ones.
	if ticket, ok := a.begin(nanotime()); !ok || ticket != noTicket {
		t.Errorf("one more: %d, %t", ticket, ok)
	}
	for i, ticket := range tickets {
		if i == maxStuck {
			if _, ok := a.begin(nanotime()); ok {
				t.Error("allowed although the most are stuck")
			}
		}
		a.since[ticket].Store(nanotime() - stuckAfter - 1)
	}
	for _, ticket := range tickets[maxStuck-1:] {
		a.end(ticket)
	}
	ticket, ok := a.begin(nanotime())
	if !ok || ticket == noTicket {
		t.Error("refused although some came back")
	}
	a.end(ticket)
}

// Accesses that are stuck count for the user, whichever program they are of.
func TestHeld(t *testing.T) {
	held := new(Held)
	var stuck []*space
	var turns []turn
	hang := func() bool {
		s := newSpace(-1, 0, held)
		turn, ok := s.begin()
		if ok {
			long := nanotime() - stuckAfter - 1
			s.engine.since[turn.own].Store(long)
			held.since[turn.held].Store(long)
			stuck, turns = append(stuck, s), append(turns, turn)
		}
		return ok
	}
	for i := range maxHeldAccesses {
		if !hang() {
			t.Fatalf("access %d is refused", i)
		}
	}
	for range 2 * len(held.since) {
		if hang() {
			t.Fatal("allowed although the most are stuck")
		}
	}
	if s := newSpace(-1, 0, new(Held)); !begins(s) {
		t.Error("another user's access is refused")
	}
	stuck[3].end(turns[3])
	if s := newSpace(-1, 0, held); !begins(s) {
		t.Error("refused although one came back")
	}
	// Quick ones are not refused, however many they are.
	quick := new(Held)
	for range 3 * len(quick.since) {
		if _, ok := newSpace(-1, 0, quick).begin(); !ok {
			t.Fatal("a quick access is refused")
		}
	}
	if n := held.accesses.Load(); n != maxHeldAccesses-1 {
		t.Errorf("%d accesses are under way", n)
	}
}

func begins(s *space) bool {
	t, ok := s.begin()
	if ok {
		s.end(t)
	}
	return ok
}

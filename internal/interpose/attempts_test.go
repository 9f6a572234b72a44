package interpose

import "testing"

func TestAttempts(t *testing.T) {
	var a attempts
	var tickets []int
	for range len(a.since) {
		ticket, ok := a.begin()
		if !ok || ticket == noTicket {
			t.Fatalf("attempt %d: %d, %t", len(tickets), ticket, ok)
		}
		tickets = append(tickets, ticket)
	}
	// More at once are not counted, and not refused: they may be quick ones.
	if ticket, ok := a.begin(); !ok || ticket != noTicket {
		t.Errorf("one more: %d, %t", ticket, ok)
	}
	for i, ticket := range tickets {
		if i == maxStuck {
			if _, ok := a.begin(); ok {
				t.Error("allowed although the most are stuck")
			}
		}
		a.since[ticket].Store(nanotime() - stuckAfter - 1)
	}
	for _, ticket := range tickets[maxStuck-1:] {
		a.end(ticket)
	}
	ticket, ok := a.begin()
	if !ok || ticket == noTicket {
		t.Error("refused although some came back")
	}
	a.end(ticket)
}

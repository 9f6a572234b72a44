package procmem

import (
	"testing"

	"github.com/gorxe/gorxe/internal/trap/mono"
)

func TestAttempts(t *testing.T) {
	var a attempts
	var indexes []int
	for range len(a.since) {
		index, ok := a.begin(mono.Now())
		if !ok || index == uncounted {
			t.Fatalf("attempt %d: %d, %t", len(indexes), index, ok)
		}
		indexes = append(indexes, index)
	}
	// More at once are not counted, and not refused: they may be quick ones.
	if index, ok := a.begin(mono.Now()); !ok || index != uncounted {
		t.Errorf("one more: %d, %t", index, ok)
	}
	for i, index := range indexes {
		if i == maxBlocked {
			if _, ok := a.begin(mono.Now()); ok {
				t.Error("allowed although the most are blocked")
			}
		}
		a.since[index].Store(mono.Now() - blockedAfter - 1)
	}
	for _, index := range indexes[maxBlocked-1:] {
		a.end(index)
	}
	index, ok := a.begin(mono.Now())
	if !ok || index == uncounted {
		t.Error("refused although some came back")
	}
	a.end(index)
}

// Blocked accesses count against the user, in whichever program they are.
func TestUser(t *testing.T) {
	user := new(User)
	var blocked []*Space
	var all []attempt
	hang := func() bool {
		s := New(-1, 0, user)
		a, ok := s.begin()
		if ok {
			long := mono.Now() - blockedAfter - 1
			s.engine.since[a.space].Store(long)
			user.since[a.user].Store(long)
			blocked, all = append(blocked, s), append(all, a)
		}
		return ok
	}
	for i := range maxUserBlocked {
		if !hang() {
			t.Fatalf("access %d is refused", i)
		}
	}
	for range 2 * len(user.since) {
		if hang() {
			t.Fatal("allowed although the most are blocked")
		}
	}
	if s := New(-1, 0, new(User)); !begins(s) {
		t.Error("another user's access is refused")
	}
	blocked[3].end(all[3])
	if s := New(-1, 0, user); !begins(s) {
		t.Error("refused although one came back")
	}
	// Quick ones are not refused, however many they are.
	quick := new(User)
	for range 3 * len(quick.since) {
		if _, ok := New(-1, 0, quick).begin(); !ok {
			t.Fatal("a quick access is refused")
		}
	}
	if n := user.accesses.Load(); n != maxUserBlocked-1 {
		t.Errorf("%d accesses are under way", n)
	}
}

func begins(s *Space) bool {
	t, ok := s.begin()
	if ok {
		s.end(t)
	}
	return ok
}

package procmem

import (
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/trap/mono"
)

// The engine's threads serve all users, and an access to a program's memory can
// block one of them forever. The engine has spare threads, but one user with many
// queue pairs could use them all up. So an address space with several blocked
// accesses refuses further ones, and so do all spaces of a user with still more of
// them. A refusal is a protection error to the queue pair that needed the access. It
// ends when some of the blocked accesses return.

const (
	maxBlocked   = 4                             // accesses of one address space
	blockedAfter = int64(200 * time.Millisecond) // long enough for a busy machine
	uncounted    = -1                            // index of an access beyond those that are counted
)

// User counts the accesses by the engine to the programs of one user. The zero value
// is ready.
type User struct {
	accesses atomic.Int32 // under way
	since    [64]atomic.Int64
}

// maxUserBlocked bounds the blocked accesses of a user. A watchdog that replaces
// blocked threads one by one meets up to as many again before they count as blocked.
// The reserve of spare threads (128 in rocev2, and 128 in engine) is enough for five
// such users.
const maxUserBlocked = 12

// attempts are the accesses by the engine to one address space.
type attempts struct {
	since [8]atomic.Int64 // when an access began; 0 if there is none
}

// begin allows an access or refuses it. It returns the index for end.
func (a *attempts) begin(now int64) (index int, ok bool) {
	return claim(a.since[:], now, maxBlocked)
}

// claim notes the time at a free index. It refuses when at least most of the
// accesses under way are blocked.
func claim(since []atomic.Int64, now int64, most int) (index int, ok bool) {
	free, blocked := uncounted, 0
	for i := range since {
		switch since := since[i].Load(); {
		case since == 0:
			free = i
		case now-since > blockedAfter:
			blocked++
		}
	}
	if blocked >= most {
		return uncounted, false
	}
	if free != uncounted && since[free].CompareAndSwap(0, now|1) {
		return free, true
	}
	return uncounted, true
}

func (a *attempts) end(index int) {
	if index != uncounted {
		a.since[index].Store(0)
	}
}

// begin allows an access or refuses it, as attempts.begin does. While only a few are
// under way it does not look whether they are blocked.
func (u *User) begin(now int64) (index int, ok bool) {
	if u.accesses.Add(1) > maxUserBlocked {
		if index, ok = claim(u.since[:], now, maxUserBlocked); !ok {
			u.accesses.Add(-1)
		}
		return index, ok
	}
	for i := range u.since {
		if u.since[i].Load() == 0 && u.since[i].CompareAndSwap(0, now|1) {
			return i, true
		}
	}
	return uncounted, true
}

func (u *User) end(index int) {
	if index != uncounted {
		u.since[index].Store(0)
	}
	u.accesses.Add(-1)
}

// attempt is one access by the engine: its index among those of its space, and among
// those of its user.
type attempt struct{ space, user int }

// begin allows the engine an access or refuses it.
func (s *Space) begin() (attempt, bool) {
	now := mono.Now()
	space, ok := s.engine.begin(now)
	if !ok {
		return attempt{}, false
	}
	user, ok := s.user.begin(now)
	if !ok {
		s.engine.end(space)
	}
	return attempt{space, user}, ok
}

func (s *Space) end(a attempt) {
	s.user.end(a.user)
	s.engine.end(a.space)
}

package procmem

import (
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"golang.org/x/sys/unix"
)

// The engine's threads serve all users, and an access to a program's memory can
// block one of them forever. The engine has spare threads, but one user with many
// queue pairs could use them all up. So an address space with several blocked
// accesses refuses further ones, and so do all spaces of a user with still more of
// them. A refusal is a protection error to the queue pair that needed the access. It
// ends when some of the blocked accesses return.
//
// Two threads often access one space at the same time, or two spaces of one user. A cache line that
// both write would travel between their processors with each access. So an access writes to a place
// of its own. A look at all places counts the blocked ones from time to time. All threads read
// these counts, which change only then, and when a blocked access ends.

// User counts the accesses by the engine to the programs of one user. The zero value
// is ready.
type User struct {
	blocked atomic.Int32 // accesses, at the last look
	looked  atomic.Int64 // when the last look at the places began
	places  [accessPlaces]place
}

// place is where an access says that it is under way.
type place struct {
	// when it began, negative if it counts as blocked; or one of the two below
	since atomic.Int64
	space atomic.Pointer[Space] // does not change while there is an access
	_     [placeRest]byte       // fills a cache line
}

const (
	placeFree  = 0
	placeTaken = 1 // space is about to be set
)

// attempt is one access by the engine. It is nil for an access that has no place and is not
// counted, because all places are taken. Such an access holds a reference of the space.
type attempt = *place

// hints have the index of a place that no other thread prefers. A pool keeps a hint for each of
// Go's processors.
var (
	hints    = sync.Pool{New: func() any { h := lastHint.Add(1); return &h }}
	lastHint atomic.Uint32
)

// begin allows the engine an access, which end ends. It refuses it if the space has ended, and with
// EFAULT if too many accesses are blocked.
func (s *Space) begin() (attempt, error) {
	if s.ended.Load() {
		return nil, errEnded
	}
	now := clock.Now()
	if at := s.user.looked.Load(); now-at >= lookEvery && s.user.looked.CompareAndSwap(at, now) {
		s.user.look(now)
	}
	if s.blocked.Load() >= maxBlocked || s.user.blocked.Load() >= maxUserBlocked {
		return nil, unix.EFAULT
	}
	a := s.user.take()
	if a == nil {
		if !s.acquire() {
			return nil, errEnded
		}
		return nil, nil
	}
	a.space.Store(s)
	a.since.Store(now | 2) // neither free nor taken
	// In this order: closeUnused looks at the places after the last reference has gone.
	if s.refs.Load() == 0 {
		s.end(a)
		return nil, errEnded
	}
	return a, nil
}

// end ends an access.
func (s *Space) end(a attempt) {
	if a == nil {
		s.Release()
		return
	}
	if a.since.Swap(placeFree) < 0 {
		s.blocked.Add(-1)
		s.user.blocked.Add(-1)
	}
	if s.refs.Load() == 0 {
		s.closeUnused()
	}
}

// take returns a place for an access, nil if there is none.
func (u *User) take() *place {
	h := hints.Get().(*uint32)
	defer hints.Put(h)
	for i := range uint32(len(u.places)) {
		p := &u.places[(*h+i)%uint32(len(u.places))]
		if p.since.Load() == placeFree && p.since.CompareAndSwap(placeFree, placeTaken) {
			return p
		}
	}
	return nil
}

// look finds accesses that have become blocked. An access does not count twice, and end no longer
// counts it.
func (u *User) look(now int64) {
	for i := range u.places {
		p := &u.places[i]
		since := p.since.Load()
		if since <= placeTaken || now-since <= blockedAfter {
			continue
		}
		// The access that began at that time has this space until it ends.
		if s := p.space.Load(); p.since.CompareAndSwap(since, -since) {
			s.blocked.Add(1)
			u.blocked.Add(1)
		}
	}
}

// closeUnused closes the memory of a space without references, unless an access is under way. The
// last one calls closeUnused again. A place that is only taken still names the space of an earlier
// access. If its access is to this space, it finds no reference.
func (s *Space) closeUnused() {
	for i := range s.user.places {
		p := &s.user.places[i]
		if since := p.since.Load(); since != placeFree && since != placeTaken && p.space.Load() == s {
			return
		}
	}
	if s.closed.CompareAndSwap(false, true) {
		unix.Close(s.mem)
	}
}

package procmem

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// TestAttempts: blocked accesses count against the space, each once, and quick ones do not.
func TestAttempts(t *testing.T) {
	user := new(User)
	s := New(-1, 0, user)
	var all []attempt
	for i := range user.places {
		a, err := s.begin()
		if err != nil || a == nil {
			t.Fatalf("access %d: %v, has a place: %t", i, err, a != nil)
		}
		all = append(all, a)
	}
	// More at once have no place, and are not refused: they may be quick ones.
	if a, err := s.begin(); err != nil || a != nil {
		t.Errorf("one more: %v, has a place: %t", err, a != nil)
	} else {
		s.end(a)
	}
	for _, a := range all[:maxBlocked-1] {
		block(user, a)
		block(user, a)
	}
	if !begins(s) {
		t.Error("refused although fewer than the most are blocked")
	}
	block(user, all[maxBlocked-1])
	if begins(s) {
		t.Error("allowed although the most are blocked")
	}
	if !begins(New(-1, 0, user)) {
		t.Error("another space of the user is refused")
	}
	s.end(all[0])
	if !begins(s) {
		t.Error("refused although one came back")
	}
	for _, a := range all[1:] {
		s.end(a)
	}
	if n, m := s.blocked.Load(), user.blocked.Load(); n != 0 || m != 0 {
		t.Errorf("%d and %d accesses count as blocked, and none is under way", n, m)
	}
}

// TestUser: blocked accesses count against the user, in whichever program they are.
func TestUser(t *testing.T) {
	user := new(User)
	var blocked []*Space
	var all []attempt
	for i := range maxUserBlocked {
		s := New(-1, 0, user)
		a, err := s.begin()
		if err != nil {
			t.Fatalf("access %d: %v", i, err)
		}
		block(user, a)
		blocked, all = append(blocked, s), append(all, a)
	}
	for range 2 * len(user.places) {
		if begins(New(-1, 0, user)) {
			t.Fatal("allowed although the most are blocked")
		}
	}
	if !begins(New(-1, 0, new(User))) {
		t.Error("another user's access is refused")
	}
	blocked[3].end(all[3])
	if !begins(New(-1, 0, user)) {
		t.Error("refused although one came back")
	}
	// Quick ones are not refused, however many they are.
	quick := new(User)
	for range 3 * len(quick.places) {
		if _, err := New(-1, 0, quick).begin(); err != nil {
			t.Fatal("a quick access is refused")
		}
	}
}

// block makes an access older than all others, and looks at the user's places when it alone has
// taken too long.
func block(u *User, a attempt) {
	const began = 2
	if a.since.Load() > 0 {
		a.since.Store(began)
	}
	u.look(began + blockedAfter + 1)
}

func begins(s *Space) bool {
	a, err := s.begin()
	if err == nil {
		s.end(a)
	}
	return err == nil
}

// TestReleaseDuringAccess: the memory stays open until the last access has ended, with a place and
// without, and then it is closed.
func TestReleaseDuringAccess(t *testing.T) {
	user := new(User)
	s := New(must.Get[int](t)(unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)), os.Getpid(), user)
	var all []attempt
	for range len(user.places) + 1 {
		all = append(all, must.Get[attempt](t)(s.begin()))
	}
	s.Release()
	for _, a := range all {
		if s.closed.Load() {
			t.Fatal("the memory is closed during an access")
		}
		s.end(a)
	}
	if !s.closed.Load() || !errors.Is(isOpen(s.mem), unix.EBADF) {
		t.Error("the memory is open after the last access")
	}
	if _, err := s.begin(); !errors.Is(err, rxe.ErrSpaceEnded) {
		t.Errorf("an access afterwards: %v", err)
	}
}

// TestReleaseBesideTakenPlace: a place names the space of the last access there. Another access
// that has just taken the place does not keep that space's memory open.
func TestReleaseBesideTakenPlace(t *testing.T) {
	s := New(must.Get[int](t)(unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)), os.Getpid(), new(User))
	a := must.Get[attempt](t)(s.begin())
	s.end(a)
	a.since.Store(placeTaken)
	s.Release()
	if !s.closed.Load() {
		t.Error("the memory is open")
	}
}

// TestReleaseWhileThreadsAccess: an access succeeds, or finds that the space has ended.
func TestReleaseWhileThreadsAccess(t *testing.T) {
	_, va := mapped(t, 4096, unix.PROT_READ|unix.PROT_WRITE)
	user := new(User)
	for range 50 {
		s := New(must.Get[int](t)(unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)), os.Getpid(), user)
		var threads sync.WaitGroup
		began := make(chan struct{}, 4)
		for range cap(began) {
			threads.Go(func() {
				for n := 0; ; n++ {
					err := s.ReadV([]rxe.Span{{VA: va, Buf: make([]byte, 8)}})
					if n == 0 {
						began <- struct{}{}
					}
					if err == nil {
						continue
					}
					if !errors.Is(err, rxe.ErrSpaceEnded) {
						t.Errorf("an access: %v", err)
					}
					return
				}
			})
		}
		for range cap(began) {
			<-began
		}
		s.Release()
		threads.Wait()
		if !s.closed.Load() {
			t.Fatal("the memory is open after the last access")
		}
	}
}

func isOpen(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err
}

package interpose

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/uverbs"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// gone is the error of an access to an address space that has ended, by exec or
// by the death of its process: a device whose program has died is silent towards
// its peers, where one whose program named a wrong address complains. To those who
// do not ask it is EFAULT.
type gone struct{}

func (gone) Error() string   { return rxe.ErrSpaceEnded.Error() }
func (gone) Unwrap() []error { return []error{rxe.ErrSpaceEnded, unix.EFAULT} }

var errGone error = gone{}

// space is the address space of a program. It has two ways in:
//
//   - /proc/PID/mem, opened when the space was made, belongs to this address space
//     whatever becomes of the process: after exec and exit it reads 0 bytes. It
//     moves one contiguous piece per call, through a page of the kernel's. It also
//     writes to private mappings that the program may only read (FOLL_FORCE in
//     fs/proc/base.c: mem_rw), as a device does to pages that were pinned before
//     they were protected; what others share is out of its reach.
//   - process_vm_readv and process_vm_writev move many pieces in one call, and
//     twice as fast; but they go by process number, so after an exec they would
//     reach the new program.
//
// So small accesses go the first way; bursts go the second after a look at the
// first, which serves those that follow within a millisecond too. The look and the
// burst cannot be one, but an exec is a trapped call: it waits until no access is
// under way, and from then on every access goes the first way. What remains is a
// process that ends while its address space lives on in another one (clone with
// CLONE_VM), and whose number a third one gets. A program could bring that about,
// so the second way is only for programs that may do as much to that third one as
// this process may (byNumber).
//
// Either way an access may take for ever, when the page is provided by somebody
// who does not answer. No lock is held across an access but those of the space's
// own atomics.
type space struct {
	mem     int // closed with the last reference
	pid     int
	refs    atomic.Int64 // accesses under way, and the owner
	bursts  atomic.Int64 // accesses under way by process number
	seen    atomic.Int64 // when the number was known to mean this space; 0: never
	gone    atomic.Bool
	careful atomic.Bool // only through mem
	words   [16]sync.Mutex
	engine  attempts // accesses by the engine
	held    *Held    // those of all spaces of the user
}

var _ uverbs.Space = (*space)(nil)

// newSpace is the address space of process pid behind mem. Bursts go by its number
// if that is allowed.
func newSpace(mem, pid int, held *Held) *space {
	s := &space{mem: mem, pid: pid, held: held}
	s.refs.Store(1)
	return s
}

// acquire begins an access; it fails when the address space is known to be gone.
func (s *space) acquire() bool {
	if s.gone.Load() {
		return false
	}
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *space) release() {
	if s.refs.Add(-1) == 0 {
		unix.Close(s.mem)
	}
}

// How long an exec waits for accesses. One that takes longer has long got hold of
// the old address space (mm/process_vm_access.c: process_vm_rw_core) and is stuck
// in it: it cannot reach the new one.
const (
	quiesceStep  = 50 * time.Microsecond
	quiesceLimit = 100 * time.Millisecond
)

// quiesce prepares for an exec: accesses that begin from now on do not go by
// process number, and those under way have ended. The space stays careful if the
// exec fails: there is no telling when that is known.
func (s *space) quiesce() {
	s.careful.Store(true)
	for end := nanotime() + int64(quiesceLimit); s.bursts.Load() > 0 && nanotime() < end; {
		time.Sleep(quiesceStep)
	}
}

// enterBurst begins an access by process number, if that is allowed still and
// means this address space.
func (s *space) enterBurst() bool {
	// In this order: quiesce waits for who came before careful was set.
	s.bursts.Add(1)
	if s.careful.Load() || !s.checkNumber() {
		s.bursts.Add(-1)
		return false
	}
	return true
}

// numberLife is how long a look at the process number serves. Another process gets
// the number only when this one has ended and every other number was given
// (kernel/pid.c: alloc_pid goes round): 32,768 forks, by default.
const numberLife = int64(time.Millisecond)

// checkNumber tells whether the process number means this address space.
func (s *space) checkNumber() bool {
	now := nanotime()
	if seen := s.seen.Load(); seen != 0 && now-seen < numberLife {
		return true
	}
	if !s.check() {
		return false
	}
	s.seen.Store(now | 1)
	return true
}

// why is the error of an access that failed.
func (s *space) why() error {
	if !s.check() {
		return errGone
	}
	return unix.EFAULT
}

// alive tells whether the address space still is some process's.
func (s *space) alive() bool {
	if !s.acquire() {
		return false
	}
	defer s.release()
	return s.check()
}

// check is alive for who has a reference. The page at address 0 is not mapped, so
// a living space gives an error, quickly.
func (s *space) check() bool {
	var b [1]byte
	for {
		n, err := unix.Pread(s.mem, b[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n == 0 && err == nil {
			s.gone.Store(true)
			return false
		}
		return true
	}
}

// addressable refuses what cannot be the address of anything in user space.
func addressable(va uint64, n int) bool {
	return va <= math.MaxInt64 && uint64(n) <= math.MaxInt64-va
}

// access moves p from or to va through mem.
func (s *space) access(va uint64, p []byte, write bool) error {
	for len(p) > 0 {
		if !addressable(va, len(p)) {
			return unix.EFAULT
		}
		var n int
		var err error
		if write {
			n, err = unix.Pwrite(s.mem, p, int64(va))
		} else {
			n, err = unix.Pread(s.mem, p, int64(va))
		}
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return s.fault(va, p, write)
		case n == 0:
			s.gone.Store(true)
			return errGone
		}
		p, va = p[n:], va+uint64(n)
	}
	return nil
}

// fault is access to what mem refuses. That may be a page that userfaultfd is to
// provide: mem does not wait for those (mm/userfaultfd.c: handle_userfault, without
// FAULT_FLAG_ALLOW_RETRY), which the program's own processor would.
func (s *space) fault(va uint64, p []byte, write bool) error {
	if !s.enterBurst() {
		return s.why()
	}
	defer s.bursts.Add(-1)
	v := vectorPool.Get().(*vectors)
	defer vectorPool.Put(v)
	buf := bytes.Clone(p) // p stays off the heap
	_, total, err := v.fill([]rxe.Span{{VA: va, Buf: buf}})
	if err == nil {
		err = v.move(s.pid, total, write)
	}
	if err != nil {
		return s.why()
	}
	if !write {
		copy(p, buf)
	}
	return nil
}

func (s *space) read(va uint64, p []byte) error  { return s.one(va, p, false) }
func (s *space) write(va uint64, p []byte) error { return s.one(va, p, true) }

// one is access for callers that expect an errno.
func (s *space) one(va uint64, p []byte, write bool) error {
	if !s.acquire() {
		return unix.EFAULT
	}
	defer s.release()
	if s.access(va, p, write) != nil {
		return unix.EFAULT
	}
	return nil
}

// ReadV implements rxe.Memory.
func (s *space) ReadV(spans []rxe.Span) error { return s.transfer(spans, false) }

// WriteV implements rxe.Memory.
func (s *space) WriteV(spans []rxe.Span) error { return s.transfer(spans, true) }

// smallAccess is up to where one piece is faster through mem.
const smallAccess = 4096

func (s *space) transfer(spans []rxe.Span, write bool) error {
	if len(spans) == 0 {
		return nil
	}
	if !s.acquire() {
		return errGone
	}
	defer s.release()
	turn, ok := s.begin()
	if !ok {
		return unix.EFAULT
	}
	defer s.end(turn)
	if len(spans) == 1 && len(spans[0].Buf) <= smallAccess {
		return s.access(spans[0].VA, spans[0].Buf, write)
	}
	v := vectorPool.Get().(*vectors)
	defer vectorPool.Put(v)
	for len(spans) > 0 {
		n, total, err := v.fill(spans)
		if err != nil {
			return err
		}
		// Each time anew: the one before may have taken very long.
		if !s.enterBurst() {
			return s.each(spans, write)
		}
		err = v.move(s.pid, total, write)
		s.bursts.Add(-1)
		switch err {
		case nil:
			spans = spans[n:]
		case unix.EFAULT:
			return s.why()
		default:
			// Refused (Yama, another user, a sandbox), or the leading thread of the
			// process has ended before the others.
			if forbidden(err) {
				s.careful.Store(true)
			}
			return s.each(spans, write)
		}
	}
	return nil
}

// each is transfer through mem.
func (s *space) each(spans []rxe.Span, write bool) error {
	for i := range spans {
		if err := s.access(spans[i].VA, spans[i].Buf, write); err != nil {
			return err
		}
	}
	return nil
}

// forbidden tells errors of permission.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

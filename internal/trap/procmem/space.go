package procmem

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// ended is the error of an access to an address space that has ended, by exec or
// by the death of its process. The engine tells it from a wrong address by
// rxe.ErrSpaceEnded: a device whose program has died stays silent towards its peers,
// where a wrong address is answered with a NAK. All others see EFAULT.
type ended struct{}

func (ended) Error() string   { return rxe.ErrSpaceEnded.Error() }
func (ended) Unwrap() []error { return []error{rxe.ErrSpaceEnded, unix.EFAULT} }

var errEnded error = ended{}

// Space is the address space of a program. There are two ways in:
//
//   - /proc/PID/mem, opened when the Space was made, belongs to this address space
//     whatever becomes of the process: after exec and exit, reads return 0 bytes. A
//     call moves one contiguous piece, through a page in the kernel. It also
//     writes to private mappings that the program may only read (FOLL_FORCE in
//     fs/proc/base.c: mem_rw), as a device does to pages that were pinned before
//     they were protected. It does not write to such shared mappings.
//   - process_vm_readv and process_vm_writev move many pieces in one call, and
//     twice as fast. But they go by process number, so after an exec they would
//     reach the new program.
//
// Small accesses therefore use the first way. Bursts use the second, after a check
// through the first that the number still means this address space. One check
// serves all bursts of the next millisecond.
//
// The check and the burst are two steps, so an exec could come between them. But an
// exec is a trapped call: PrepareExec waits until no burst is under way, and sends
// all later accesses the first way. One case remains: a process ends while its
// address space lives on in another one (clone with CLONE_VM), and a third process
// gets its number. A program could bring that about. So the second way is only for
// programs that may do as much to that third process as this process may
// (ByNumber).
//
// Either way an access may block forever, when the page is provided by a userfaultfd
// or a FUSE server that does not answer. No lock is held across an access, except
// those of the space's own atomics.
type Space struct {
	mem     int // closed when refs is 0, and no access has a place
	pid     int
	user    *User        // the accesses of all spaces of the user
	blocked atomic.Int32 // accesses by the engine, at the last look
	closed  atomic.Bool
	// the owner, and accesses under way that have no place; once it is 0 it stays 0
	refs    atomic.Int64
	bursts  atomic.Int64 // accesses under way by process number
	checked atomic.Int64 // when the number was last known to mean this space; 0: never
	ended   atomic.Bool
	memOnly atomic.Bool // accesses by process number are forbidden
	words   [wordLocks]sync.Mutex

	identify sync.Once
	identity uint64
}

// New returns the address space of process pid behind mem, a descriptor of
// /proc/PID/mem, which it takes over. Its blocked accesses count against user.
func New(mem, pid int, user *User) *Space {
	s := &Space{mem: mem, pid: pid, user: user}
	s.refs.Store(1)
	return s
}

// PID returns the number of a process that has the space, or had it.
func (s *Space) PID() int { return s.pid }

// MemOnly forbids accesses by process number from now on.
func (s *Space) MemOnly() { s.memOnly.Store(true) }

// Identity returns the number of procfs.Identity: 0 if it is not known.
func (s *Space) Identity() uint64 {
	s.identify.Do(func() { s.identity = procfs.Identity(s.pid) })
	return s.identity
}

// acquire begins an access that has no place. It fails when the address space is known to have
// ended.
func (s *Space) acquire() bool {
	if s.ended.Load() {
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

// Release gives up the owner's reference. The memory is closed when the last access
// has ended.
func (s *Space) Release() {
	if s.refs.Add(-1) == 0 {
		s.closeUnused()
	}
}

// PrepareExec makes the space safe for an exec of its process: it forbids accesses
// by process number, and waits for those under way. They stay forbidden if the exec
// fails, because nobody can tell when that is certain.
func (s *Space) PrepareExec() {
	s.MemOnly()
	for end := clock.Now() + int64(quiesceLimit); s.bursts.Load() > 0 && clock.Now() < end; {
		time.Sleep(quiesceStep)
	}
}

// enterBurst begins an access by process number, if that is still allowed and the
// number means this address space.
func (s *Space) enterBurst() bool {
	// In this order: PrepareExec waits for accesses that began before memOnly was set.
	s.bursts.Add(1)
	if s.memOnly.Load() || !s.checkNumber() {
		s.bursts.Add(-1)
		return false
	}
	return true
}

// checkNumber reports whether the process number means this address space.
func (s *Space) checkNumber() bool {
	now := clock.Now()
	if at := s.checked.Load(); at != 0 && now-at < NumberLife {
		return true
	}
	if !s.check() {
		return false
	}
	s.checked.Store(now | 1)
	return true
}

// failure returns the error of an access that failed.
func (s *Space) failure() error {
	if !s.check() {
		return errEnded
	}
	return unix.EFAULT
}

// Alive reports whether the address space still belongs to some process.
func (s *Space) Alive() bool {
	if !s.acquire() {
		return false
	}
	defer s.Release()
	return s.check()
}

// check is Alive for a caller with a reference. The page at address 0 is not mapped,
// so a living address space answers with an error, quickly.
func (s *Space) check() bool {
	var b [1]byte
	for {
		n, err := unix.Pread(s.mem, b[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n == 0 && err == nil {
			s.ended.Store(true)
			return false
		}
		return true
	}
}

// addressable reports whether a range can lie in user space at all.
func addressable(va uint64, n int) bool {
	return va <= math.MaxInt64 && uint64(n) <= math.MaxInt64-va
}

// access moves p from or to va through mem.
func (s *Space) access(va uint64, p []byte, write bool) error {
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
			s.ended.Store(true)
			return errEnded
		}
		p, va = p[n:], va+uint64(n)
	}
	return nil
}

// fault accesses by process number what mem has refused. The page may be one that a
// userfaultfd is to provide: mem does not wait for those (mm/userfaultfd.c:
// handle_userfault, without FAULT_FLAG_ALLOW_RETRY), but the program's own processor
// would.
func (s *Space) fault(va uint64, p []byte, write bool) error {
	if !s.enterBurst() {
		return s.failure()
	}
	defer s.bursts.Add(-1)
	v := vectorPool.Get().(*vectors)
	defer vectorPool.Put(v)
	buf := bytes.Clone(p) // p stays off the heap
	_, total, err := v.fill([]rxe.Span{{VA: va, Buf: buf}}, write)
	if err == nil {
		err = v.move(s.pid, total, write)
	}
	if err != nil {
		return s.failure()
	}
	if !write {
		copy(p, buf)
	}
	return nil
}

// Read fills p from the program's memory at va; EFAULT.
func (s *Space) Read(va uint64, p []byte) error { return s.one(va, p, false) }

// Write copies p to the program's memory at va; EFAULT.
func (s *Space) Write(va uint64, p []byte) error { return s.one(va, p, true) }

// one is access for callers that expect an errno.
func (s *Space) one(va uint64, p []byte, write bool) error {
	if !s.acquire() {
		return unix.EFAULT
	}
	defer s.Release()
	if s.access(va, p, write) != nil {
		return unix.EFAULT
	}
	return nil
}

// ReadV implements rxe.Memory.
func (s *Space) ReadV(spans []rxe.Span) error { return s.transfer(spans, false) }

// WriteV implements rxe.Memory.
func (s *Space) WriteV(spans []rxe.Span) error { return s.transfer(spans, true) }

// ReadBounded is Read for a thread that must not be one of many that this memory blocks: it fails
// if too many are.
func (s *Space) ReadBounded(va uint64, p []byte) error { return s.ReadV([]rxe.Span{{VA: va, Buf: p}}) }

// WriteBounded is Write for such a thread.
func (s *Space) WriteBounded(va uint64, p []byte) error {
	return s.WriteV([]rxe.Span{{VA: va, Buf: p}})
}

func (s *Space) transfer(spans []rxe.Span, write bool) error {
	if len(spans) == 0 {
		return nil
	}
	a, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end(a)
	if len(spans) == 1 && len(spans[0].Buf) <= smallAccess {
		return s.access(spans[0].VA, spans[0].Buf, write)
	}
	return s.burst(spans, write)
}

// burst is transfer by process number. It is a function of its own because the compiler expands
// defers in place only in functions with few returns. Each small access would pay for that.
func (s *Space) burst(spans []rxe.Span, write bool) error {
	v := vectorPool.Get().(*vectors)
	defer vectorPool.Put(v)
	for len(spans) > 0 {
		n, total, err := v.fill(spans, write)
		if err != nil {
			return err
		}
		// Checked for each call: the previous one may have blocked for a long time.
		if !s.enterBurst() {
			return s.each(spans, write)
		}
		err = v.move(s.pid, total, write)
		s.bursts.Add(-1)
		switch err {
		case nil:
			spans = spans[n:]
		case unix.EFAULT:
			return s.failure()
		default:
			// The kernel refuses (Yama, another user, a sandbox), or the leading
			// thread of the process has ended before the others.
			if Forbidden(err) {
				s.MemOnly()
			}
			return s.each(spans, write)
		}
	}
	return nil
}

// each is transfer through mem.
func (s *Space) each(spans []rxe.Span, write bool) error {
	for i := range spans {
		if err := s.access(spans[i].VA, spans[i].Buf, write); err != nil {
			return err
		}
	}
	return nil
}

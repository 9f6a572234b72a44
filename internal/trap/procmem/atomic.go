package procmem

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// The atomics of one address space are atomic among themselves, as
// IBV_ATOMIC_HCA promises. They are not atomic towards the program's own processor. A
// program that mixes its atomic instructions with a peer's atomics on one word may lose an
// update, as with any adapter that is not IBV_ATOMIC_GLOB. Two processes that
// register the same shared memory are two spaces.

// wordSize is the size of what an atomic changes (IBA 9.4.5).
const wordSize = 8

// word returns the lock of an address. Each space has its own locks, so memory that
// never answers blocks the atomics of its own program only.
func (s *Space) word(va uint64) *sync.Mutex { return &s.words[va/wordSize%uint64(len(s.words))] }

// update replaces the word at va by the value that f computes, unless f says to keep
// it. It returns the old value.
func (s *Space) update(va uint64, f func(old uint64) (new uint64, keep bool)) (uint64, error) {
	if va%wordSize != 0 {
		return 0, unix.EFAULT
	}
	a, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer s.end(a)
	m := s.word(va)
	m.Lock()
	defer m.Unlock()
	return s.updateLocked(va, f)
}

// updateLocked is update with the lock of the word. It is a function of its own for the reason that
// burst has.
func (s *Space) updateLocked(va uint64, f func(old uint64) (new uint64, keep bool)) (uint64, error) {
	var b [8]byte
	if err := s.access(va, b[:], false); err != nil {
		return 0, err
	}
	old := binary.NativeEndian.Uint64(b[:])
	next, keep := f(old)
	if keep {
		return old, nil
	}
	binary.NativeEndian.PutUint64(b[:], next)
	return old, s.access(va, b[:], true)
}

// CompareSwap implements rxe.Memory.
func (s *Space) CompareSwap(va, compare, swap uint64) (uint64, error) {
	return s.update(va, func(old uint64) (uint64, bool) { return swap, old != compare })
}

// FetchAdd implements rxe.Memory.
func (s *Space) FetchAdd(va, add uint64) (uint64, error) {
	return s.update(va, func(old uint64) (uint64, bool) { return old + add, false })
}

// Store implements rxe.Memory.
func (s *Space) Store(va, v uint64) error {
	_, err := s.update(va, func(uint64) (uint64, bool) { return v, false })
	return err
}

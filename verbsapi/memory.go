package verbsapi

import (
	"sync/atomic"
	"unsafe"

	"github.com/gorxe/gorxe/rxe"
)

// bufMemory is a []byte as the address space of a memory region. Address base is
// the first byte of buf. The address is only a number: bytes are reached through
// buf, which also keeps them alive.
type bufMemory struct {
	base uint64
	buf  []byte
}

func newBufMemory(buf []byte) *bufMemory {
	return &bufMemory{base: addrOf(buf), buf: buf}
}

// addrOf returns the address of the first byte, 0 for an empty slice.
func addrOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// slice returns the n bytes at va, or nil when part of them is outside the buffer.
// If the subtraction wraps, its result is too large.
func (m *bufMemory) slice(va uint64, n int) []byte {
	off := va - m.base
	if size := uint64(len(m.buf)); off > size || uint64(n) > size-off {
		return nil
	}
	return m.buf[off : off+uint64(n) : off+uint64(n)]
}

func (m *bufMemory) ReadV(spans []rxe.Span) error {
	for i := range spans {
		s := &spans[i]
		src := m.slice(s.VA, len(s.Buf))
		if src == nil && len(s.Buf) > 0 {
			return errUnmapped
		}
		copy(s.Buf, src)
	}
	return nil
}

func (m *bufMemory) WriteV(spans []rxe.Span) error {
	for i := range spans {
		s := &spans[i]
		dst := m.slice(s.VA, len(s.Buf))
		if dst == nil && len(s.Buf) > 0 {
			return errUnmapped
		}
		copy(dst, s.Buf)
	}
	return nil
}

// word returns the 8-byte word at va. The CPU needs an aligned address; that is va,
// as base is the buffer's true address.
func (m *bufMemory) word(va uint64) (*uint64, error) {
	b := m.slice(va, 8)
	if b == nil {
		return nil, errUnmapped
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%8 != 0 {
		return nil, errUnaligned
	}
	return (*uint64)(p), nil
}

func (m *bufMemory) CompareSwap(va, compare, swap uint64) (uint64, error) {
	p, err := m.word(va)
	if err != nil {
		return 0, err
	}
	for {
		old := atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, old, swap) {
			return old, nil
		}
	}
}

func (m *bufMemory) FetchAdd(va, add uint64) (uint64, error) {
	p, err := m.word(va)
	if err != nil {
		return 0, err
	}
	return atomic.AddUint64(p, add) - add, nil
}

func (m *bufMemory) Store(va, value uint64) error {
	p, err := m.word(va)
	if err != nil {
		return err
	}
	atomic.StoreUint64(p, value)
	return nil
}

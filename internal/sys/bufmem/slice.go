package bufmem

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/gorxe/gorxe/rxe"
)

// The engine turns these errors into protection errors. No caller sees them.
var (
	errUnmapped  = errors.New("address outside the buffer")
	errUnaligned = errors.New("address not aligned to 8 bytes")
)

// Slice is a []byte as the address space of a memory region. Address base is
// the first byte of buf. The address is only a number: bytes are reached through
// buf, which also keeps them alive.
type Slice struct {
	base uint64
	buf  []byte
}

// NewSlice returns buf at its own addresses.
func NewSlice(buf []byte) *Slice {
	return &Slice{base: Addr(buf), buf: buf}
}

// Addr returns the address of the first byte, 0 for an empty slice.
func Addr(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// slice returns the n bytes at va, or nil when part of them is outside the buffer.
// If the subtraction wraps, its result is too large.
func (m *Slice) slice(va uint64, n int) []byte {
	off := va - m.base
	if size := uint64(len(m.buf)); off > size || uint64(n) > size-off {
		return nil
	}
	return m.buf[off : off+uint64(n) : off+uint64(n)]
}

// ReadV implements rxe.Memory.
func (m *Slice) ReadV(spans []rxe.Span) error {
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

// WriteV implements rxe.Memory.
func (m *Slice) WriteV(spans []rxe.Span) error {
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

// word returns the 8-byte word at va. The processor needs an aligned address.
func (m *Slice) word(va uint64) (*uint64, error) {
	const octets = int(unsafe.Sizeof(uint64(0)))
	b := m.slice(va, octets)
	if b == nil {
		return nil, errUnmapped
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(octets) != 0 {
		return nil, errUnaligned
	}
	return (*uint64)(p), nil
}

// CompareSwap implements rxe.Memory.
func (m *Slice) CompareSwap(va, compare, swap uint64) (uint64, error) {
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

// FetchAdd implements rxe.Memory.
func (m *Slice) FetchAdd(va, add uint64) (uint64, error) {
	p, err := m.word(va)
	if err != nil {
		return 0, err
	}
	return atomic.AddUint64(p, add) - add, nil
}

// Store implements rxe.Memory.
func (m *Slice) Store(va, value uint64) error {
	p, err := m.word(va)
	if err != nil {
		return err
	}
	atomic.StoreUint64(p, value)
	return nil
}

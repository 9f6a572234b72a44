package verbsapi

import (
	"sync/atomic"
	"unsafe"
)

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

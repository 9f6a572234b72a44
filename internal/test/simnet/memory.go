package simnet

import (
	"encoding/binary"
	"errors"

	"github.com/gorxe/gorxe/rxe"
)

// ErrUnmapped is what Memory answers for a range outside it.
var ErrUnmapped = errors.New("simnet: address not mapped")

// Memory is an address space of len(Data) bytes at Base. Its words are little
// endian whatever the host, so that runs compare.
type Memory struct {
	Base uint64
	Data []byte
}

// Bytes returns the n bytes at va, or nil if they are not all mapped.
func (m *Memory) Bytes(va uint64, n int) []byte {
	off := va - m.Base
	if va < m.Base || off > uint64(len(m.Data)) || uint64(n) > uint64(len(m.Data))-off {
		return nil
	}
	return m.Data[off:][:n:n]
}

// ReadV implements rxe.Memory.
func (m *Memory) ReadV(spans []rxe.Span) error {
	for _, s := range spans {
		b := m.Bytes(s.VA, len(s.Buf))
		if b == nil {
			return ErrUnmapped
		}
		copy(s.Buf, b)
	}
	return nil
}

// WriteV implements rxe.Memory.
func (m *Memory) WriteV(spans []rxe.Span) error {
	for _, s := range spans {
		b := m.Bytes(s.VA, len(s.Buf))
		if b == nil {
			return ErrUnmapped
		}
		copy(b, s.Buf)
	}
	return nil
}

func (m *Memory) update(va uint64, f func(uint64) uint64) (uint64, error) {
	b := m.Bytes(va, 8)
	if b == nil || va%8 != 0 {
		return 0, ErrUnmapped
	}
	old := binary.LittleEndian.Uint64(b)
	binary.LittleEndian.PutUint64(b, f(old))
	return old, nil
}

// CompareSwap implements rxe.Memory.
func (m *Memory) CompareSwap(va, compare, swap uint64) (uint64, error) {
	return m.update(va, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

// FetchAdd implements rxe.Memory.
func (m *Memory) FetchAdd(va, add uint64) (uint64, error) {
	return m.update(va, func(old uint64) uint64 { return old + add })
}

// Store implements rxe.Memory.
func (m *Memory) Store(va, value uint64) error {
	_, err := m.update(va, func(uint64) uint64 { return value })
	return err
}

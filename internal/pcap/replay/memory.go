package replay

import (
	"encoding/binary"
	"errors"

	"github.com/gorxe/gorxe/rxe"
)

var errUnmapped = errors.New("replay: no memory there")

const (
	chunkSize = 256
	// maxChunks bounds the memory of one session's responder.
	maxChunks = 1 << 18
)

// learnt is the memory of a captured responder, as far as the capture shows it: the
// bytes that were written or read.
type learnt struct {
	chunks map[uint64]*chunk
	full   bool
}

type chunk struct {
	data  [chunkSize]byte
	known [chunkSize / 8]byte
}

func (m *learnt) chunk(va uint64) *chunk {
	c := m.chunks[va/chunkSize]
	if c == nil {
		if len(m.chunks) >= maxChunks {
			m.full = true
			return nil
		}
		if m.chunks == nil {
			m.chunks = make(map[uint64]*chunk)
		}
		c = new(chunk)
		m.chunks[va/chunkSize] = c
	}
	return c
}

// write stores bytes, and reports whether different ones were known.
func (m *learnt) write(va uint64, b []byte) (changed bool, err error) {
	for len(b) > 0 {
		c := m.chunk(va)
		if c == nil {
			return changed, errUnmapped
		}
		at := int(va % chunkSize)
		n := min(len(b), chunkSize-at)
		for i := range n {
			bit := byte(1) << ((at + i) % 8)
			known := &c.known[(at+i)/8]
			changed = changed || *known&bit != 0 && c.data[at+i] != b[i]
			*known |= bit
			c.data[at+i] = b[i]
		}
		b, va = b[n:], va+uint64(n)
	}
	return changed, nil
}

// ReadV implements rxe.Memory. Unknown bytes are zero.
func (m *learnt) ReadV(spans []rxe.Span) error {
	for _, s := range spans {
		b, va := s.Buf, s.VA
		for len(b) > 0 {
			at := int(va % chunkSize)
			n := min(len(b), chunkSize-at)
			if c := m.chunks[va/chunkSize]; c != nil {
				copy(b[:n], c.data[at:])
			} else {
				clear(b[:n])
			}
			b, va = b[n:], va+uint64(n)
		}
	}
	return nil
}

// WriteV implements rxe.Memory.
func (m *learnt) WriteV(spans []rxe.Span) error {
	for _, s := range spans {
		if _, err := m.write(s.VA, s.Buf); err != nil {
			return err
		}
	}
	return nil
}

func (m *learnt) update(va uint64, f func(uint64) uint64) (uint64, error) {
	var b [8]byte
	if err := m.ReadV([]rxe.Span{{VA: va, Buf: b[:]}}); err != nil {
		return 0, err
	}
	old := binary.NativeEndian.Uint64(b[:])
	binary.NativeEndian.PutUint64(b[:], f(old))
	_, err := m.write(va, b[:])
	return old, err
}

// CompareSwap implements rxe.Memory.
func (m *learnt) CompareSwap(va, compare, swap uint64) (uint64, error) {
	return m.update(va, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

// FetchAdd implements rxe.Memory.
func (m *learnt) FetchAdd(va, add uint64) (uint64, error) {
	return m.update(va, func(old uint64) uint64 { return old + add })
}

// Store implements rxe.Memory.
func (m *learnt) Store(va, value uint64) error {
	_, err := m.update(va, func(uint64) uint64 { return value })
	return err
}

// sent is the memory of a captured requester. The payload of the packet n PSNs after the
// first is at n times the path MTU. It drops the results of READs and atomics, which no
// comparison needs.
type sent struct {
	mtu     uint64
	payload func(n uint64) []byte // nil if there is none
}

// ReadV implements rxe.Memory.
func (m *sent) ReadV(spans []rxe.Span) error {
	for _, s := range spans {
		b, va := s.Buf, s.VA
		for len(b) > 0 {
			at := va % m.mtu
			n := min(uint64(len(b)), m.mtu-at)
			clear(b[:n])
			if p := m.payload(va / m.mtu); uint64(len(p)) > at {
				copy(b[:n], p[at:])
			}
			b, va = b[n:], va+n
		}
	}
	return nil
}

// WriteV implements rxe.Memory.
func (*sent) WriteV([]rxe.Span) error { return nil }

// CompareSwap implements rxe.Memory.
func (*sent) CompareSwap(uint64, uint64, uint64) (uint64, error) { return 0, errUnmapped }

// FetchAdd implements rxe.Memory.
func (*sent) FetchAdd(uint64, uint64) (uint64, error) { return 0, errUnmapped }

// Store implements rxe.Memory.
func (*sent) Store(uint64, uint64) error { return errUnmapped }

// sink is the memory of receives. It drops their data.
type sink struct{ sent }

// ReadV implements rxe.Memory.
func (*sink) ReadV([]rxe.Span) error { return errUnmapped }

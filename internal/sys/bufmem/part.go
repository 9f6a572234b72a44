package bufmem

import (
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// Part is a mapped part of a file as memory whose first byte has address 0. Somebody may punch it
// out of the file, and an access may then fail with EFAULT.
type Part struct{ m Slice }

// MapPart maps size bytes at offset at, which are whole pages.
func MapPart(fd int, at int64, size int) (*Part, error) {
	buf, err := unix.Mmap(fd, at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Part{Slice{buf: buf}}, nil
}

// Close unmaps it. Nobody may access it any more.
func (p *Part) Close() { _ = unix.Munmap(p.m.buf) }

// ReadV implements rxe.Memory.
func (p *Part) ReadV(spans []rxe.Span) (err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return p.m.ReadV(spans)
}

// WriteV implements rxe.Memory.
func (p *Part) WriteV(spans []rxe.Span) (err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return p.m.WriteV(spans)
}

// CompareSwap implements rxe.Memory.
func (p *Part) CompareSwap(va, compare, swap uint64) (old uint64, err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return p.m.CompareSwap(va, compare, swap)
}

// FetchAdd implements rxe.Memory.
func (p *Part) FetchAdd(va, add uint64) (old uint64, err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return p.m.FetchAdd(va, add)
}

// Store implements rxe.Memory.
func (p *Part) Store(va, value uint64) (err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return p.m.Store(va, value)
}

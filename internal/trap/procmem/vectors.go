package procmem

import (
	"sync"
	"unsafe"

	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// vectors are the arguments of process_vm_readv and process_vm_writev.
type vectors struct {
	local  [2 * vectorLen]unix.Iovec
	remote [vectorLen]unix.RemoteIovec
	nl, nr int
	gap    [maxGap]byte // what a read finds between the pieces; nobody looks at it
}

var vectorPool = sync.Pool{New: func() any { return new(vectors) }}

// fill takes as many spans as fit. It returns their number, and how many bytes the call moves.
// Pieces that follow each other in the program become one for the kernel, which then
// looks up their pages once. A read bridges small gaps as well.
func (v *vectors) fill(spans []rxe.Span, write bool) (n int, total int, err error) {
	v.nl, v.nr = 0, 0
	next := uint64(0)
	for ; n < len(spans) && n < vectorLen; n++ {
		s := &spans[n]
		if len(s.Buf) == 0 {
			continue
		}
		if !addressable(s.VA, len(s.Buf)) {
			return 0, 0, unix.EFAULT
		}
		switch gap := s.VA - next; {
		case v.nr > 0 && gap == 0:
			v.remote[v.nr-1].Len += len(s.Buf)
		case v.nr > 0 && s.VA > next && gap <= maxGap && !write:
			v.place(v.gap[:gap])
			v.remote[v.nr-1].Len += int(gap) + len(s.Buf)
			total += int(gap)
		default:
			v.remote[v.nr] = unix.RemoteIovec{Base: uintptr(s.VA), Len: len(s.Buf)}
			v.nr++
		}
		v.place(s.Buf)
		next = s.VA + uint64(len(s.Buf))
		total += len(s.Buf)
	}
	return n, total, nil
}

// place makes b the next one in this process.
func (v *vectors) place(b []byte) {
	l := &v.local[v.nl]
	l.Base = unsafe.SliceData(b)
	l.SetLen(len(b))
	v.nl++
}

// move does the transfer. If the kernel moves less than all of it, the error is
// EFAULT: the kernel stops at the first page that it cannot get.
func (v *vectors) move(pid, total int, write bool) error {
	if total == 0 {
		return nil
	}
	n, err := v.call(pid, write)
	clear(v.local[:v.nl]) // do not keep the buffers
	if err != nil {
		return err
	}
	if n != total {
		return unix.EFAULT
	}
	return nil
}

func (v *vectors) call(pid int, write bool) (int, error) {
	if write {
		return unix.ProcessVMWritev(pid, v.local[:v.nl], v.remote[:v.nr], 0)
	}
	return unix.ProcessVMReadv(pid, v.local[:v.nl], v.remote[:v.nr], 0)
}

// Peek reads len(p) bytes at addr in the address space that thread tid has now.
func Peek(tid int, addr uint64, p []byte) error {
	local := [1]unix.Iovec{{Base: unsafe.SliceData(p)}}
	local[0].SetLen(len(p))
	remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
	n, err := unix.ProcessVMReadv(tid, local[:], remote[:], 0)
	if err == nil && n != len(p) {
		err = unix.EFAULT
	}
	return err
}

package procmem

import (
	"sync"
	"unsafe"

	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// vectorLen is how many pieces one call moves; the kernel takes 1024 (UIO_MAXIOV).
const vectorLen = 256

// vectors are the arguments of process_vm_readv and process_vm_writev.
type vectors struct {
	local  [vectorLen]unix.Iovec
	remote [vectorLen]unix.RemoteIovec
	nl, nr int
}

var vectorPool = sync.Pool{New: func() any { return new(vectors) }}

// fill takes as many spans as fit. It returns their number and their total size.
// Pieces that follow each other in the program become one for the kernel, which then
// looks up their pages once.
func (v *vectors) fill(spans []rxe.Span) (n int, total int, err error) {
	v.nl, v.nr = 0, 0
	next := uint64(0)
	for ; n < len(spans) && v.nl < vectorLen; n++ {
		s := &spans[n]
		if len(s.Buf) == 0 {
			continue
		}
		if !addressable(s.VA, len(s.Buf)) {
			return 0, 0, unix.EFAULT
		}
		l := &v.local[v.nl]
		l.Base = unsafe.SliceData(s.Buf)
		l.SetLen(len(s.Buf))
		v.nl++
		if v.nr > 0 && s.VA == next {
			v.remote[v.nr-1].Len += len(s.Buf)
		} else {
			v.remote[v.nr] = unix.RemoteIovec{Base: uintptr(s.VA), Len: len(s.Buf)}
			v.nr++
		}
		next = s.VA + uint64(len(s.Buf))
		total += len(s.Buf)
	}
	return n, total, nil
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

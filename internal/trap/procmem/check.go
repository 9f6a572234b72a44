package procmem

import (
	"errors"
	"io"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"golang.org/x/sys/unix"
)

// Check reports whether all of a range is mapped, and writable if write is set;
// EFAULT. It returns nil where the mappings cannot be read: an access to the memory
// will then show what is wrong.
func (s *Space) Check(addr, length uint64, write bool) error {
	if length == 0 {
		return nil
	}
	if !addressable(addr, 0) || length > math.MaxInt64-addr {
		return unix.EFAULT
	}
	if !s.Alive() {
		return unix.EFAULT
	}
	f, err := os.Open(procfs.Path(s.pid, "maps"))
	if err != nil {
		return nil
	}
	defer f.Close()
	covered := false
	err = unix.ENOTTY
	if !noMapQuery.Load() {
		covered, err = queryMaps(f, addr, addr+length, write)
	}
	if errors.Is(err, unix.ENOTTY) {
		noMapQuery.Store(true)
		covered, err = scanMaps(f, addr, addr+length, write)
	}
	if err == nil && !covered {
		return unix.EFAULT
	}
	return nil
}

// noMapQuery says that the kernel has no PROCMAP_QUERY: it is older than 6.11.
var noMapQuery atomic.Bool

// mapQuery is struct procmap_query.
type mapQuery struct {
	size, flags, addr       uint64
	start, end              uint64
	vmaFlags, pageSize      uint64
	offset, inode           uint64
	devMajor, devMinor      uint32
	nameSize, buildIDSize   uint32
	nameAddr, buildIDMemory uint64
}

const (
	procmapQuery = 0xc0686611 // linux/fs.h: PROCMAP_QUERY
	vmaReadable  = 1          // PROCMAP_QUERY_VMA_READABLE, as flag and as answer
	vmaWritable  = 2          // PROCMAP_QUERY_VMA_WRITABLE
)

// queryMaps asks for the mapping of each address in turn.
func queryMaps(f *os.File, addr, end uint64, write bool) (bool, error) {
	want := uint64(vmaReadable)
	if write {
		want |= vmaWritable
	}
	for addr < end {
		q := mapQuery{size: uint64(unsafe.Sizeof(mapQuery{})), flags: want, addr: addr}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), procmapQuery, uintptr(unsafe.Pointer(&q)))
		switch {
		case errno == unix.ENOENT:
			return false, nil
		case errno != 0:
			return false, errno
		case q.end <= addr:
			return false, unix.EINVAL
		}
		addr = q.end
	}
	return true, nil
}

// scanMaps reads /proc/PID/maps, which is sorted by address.
func scanMaps(r io.Reader, addr, end uint64, write bool) (bool, error) {
	for m, err := range procmaps.Read(r) {
		if err != nil {
			return false, err
		}
		if m.End <= addr {
			continue
		}
		if m.Start > addr || !m.Readable() || write && !m.Writable() {
			return false, nil
		}
		if addr = m.End; addr >= end {
			return true, nil
		}
	}
	return false, nil
}

package bufmem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/rxe"
)

// Info is what the kernel says of a dma-buf.
type Info struct {
	Size     uint64
	Exporter string // the driver whose buffer it is
}

// Describe tells a dma-buf from other files, and asks no file system: a file of the program could
// make the daemon wait. EINVAL as from dma_buf_get, if it is another file.
func Describe(fd int) (Info, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return Info{}, unix.EBADF
	}
	return describe(string(text))
}

// describe reads what drivers/dma-buf/dma-buf.c:dma_buf_show_fdinfo writes. No other kind of file
// has an exporter. The name at the end is the program's, and may have lines like the first ones.
func describe(text string) (Info, error) {
	var i Info
	var size string
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(line, ":"); {
		case key == "size" && size == "":
			size = strings.TrimSpace(value)
		case key == "exp_name" && i.Exporter == "":
			i.Exporter = strings.TrimSpace(value)
		}
	}
	var err error
	if i.Size, err = strconv.ParseUint(size, 10, 63); err != nil || i.Exporter == "" {
		return Info{}, unix.EINVAL
	}
	return i, nil
}

// errTooMany reports that this process maps too many dma-bufs.
var errTooMany = errors.New("too many dma-bufs are mapped")

// DMABuf is a mapped dma-buf as memory whose first byte has address 0. The exporter may take the
// buffer back at any time, and an access then fails with EFAULT.
//
// The copies do not ask the exporter to make caches coherent (DMA_BUF_IOCTL_SYNC): it may let them
// wait for a fence that a program never signals.
type DMABuf struct {
	m      *mapping
	closed atomic.Bool
}

// mapping is shared by all registrations of a buffer, so that their atomics are atomic against
// each other, and many registrations take one mapping.
type mapping struct {
	Slice
	key   mappingKey
	users int // of mappings.mu
}

// mappingKey tells mappings apart. A program that may only read a buffer does not get the mapping
// of one that may write.
type mappingKey struct {
	file     fdid.ID
	writable bool
}

var mappings = struct {
	mu  sync.Mutex // a leaf lock
	all map[mappingKey]*mapping
}{all: make(map[mappingKey]*mapping)}

// Map maps all of a dma-buf, for writing if fd was opened for that. It does not keep fd.
func Map(fd int, info Info) (*DMABuf, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, err
	}
	key := mappingKey{writable: flags&unix.O_ACCMODE == unix.O_RDWR}
	if key.file, err = fdid.Of(fd); err != nil {
		return nil, err
	}
	if m := join(key, nil); m != nil {
		return &DMABuf{m: m}, nil
	}
	if info.Size > math.MaxInt {
		return nil, unix.ENOMEM
	}
	prot := unix.PROT_READ
	if key.writable {
		prot |= unix.PROT_WRITE
	}
	buf, err := unix.Mmap(fd, 0, int(info.Size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	made := &mapping{Slice: Slice{buf: buf}, key: key}
	m := join(key, made)
	if m != made {
		_ = unix.Munmap(buf)
	}
	if m == nil {
		return nil, fmt.Errorf("%w (%d): %w", errTooMany, maxMappings, unix.ENOMEM)
	}
	return &DMABuf{m: m}, nil
}

// join returns the mapping of a buffer for one more user: the one that there is, or made. nil: it
// is neither there nor made, or there are too many.
func join(key mappingKey, made *mapping) *mapping {
	mappings.mu.Lock()
	defer mappings.mu.Unlock()
	m := mappings.all[key]
	switch {
	case m != nil:
	case made == nil, len(mappings.all) >= maxMappings:
		return nil
	default:
		m = made
		mappings.all[key] = m
	}
	m.users++
	return m
}

// Close gives the mapping up. The engine must not access it any more.
func (d *DMABuf) Close() {
	if d == nil || d.closed.Swap(true) {
		return
	}
	mappings.mu.Lock()
	d.m.users--
	last := d.m.users == 0
	if last {
		delete(mappings.all, d.m.key)
	}
	mappings.mu.Unlock()
	if last {
		_ = unix.Munmap(d.m.buf)
	}
}

// writable reports whether the buffer may be written.
func (d *DMABuf) writable() bool { return d.m.key.writable }

// Check implements kernel.Space. Addresses are offsets.
func (d *DMABuf) Check(offset, length uint64, write bool) error {
	size := uint64(len(d.m.buf))
	switch {
	case offset > size || length > size-offset:
		return unix.EINVAL
	case write && !d.writable():
		return unix.EACCES
	}
	return nil
}

// survive makes an error of a fault in the mapping: the kernel sends SIGBUS when the exporter has
// taken the page back. It is deferred, with the value that debug.SetPanicOnFault returned.
func survive(before bool, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if _, ok := r.(interface{ Addr() uintptr }); !ok {
		panic(r)
	}
	*err = unix.EFAULT
}

// ReadV implements rxe.Memory.
func (d *DMABuf) ReadV(spans []rxe.Span) (err error) {
	defer survive(debug.SetPanicOnFault(true), &err)
	return d.m.ReadV(spans)
}

// WriteV implements rxe.Memory.
func (d *DMABuf) WriteV(spans []rxe.Span) (err error) {
	if !d.writable() {
		return unix.EFAULT
	}
	defer survive(debug.SetPanicOnFault(true), &err)
	return d.m.WriteV(spans)
}

// CompareSwap implements rxe.Memory.
func (d *DMABuf) CompareSwap(va, compare, swap uint64) (old uint64, err error) {
	if !d.writable() {
		return 0, unix.EFAULT
	}
	defer survive(debug.SetPanicOnFault(true), &err)
	return d.m.CompareSwap(va, compare, swap)
}

// FetchAdd implements rxe.Memory.
func (d *DMABuf) FetchAdd(va, add uint64) (old uint64, err error) {
	if !d.writable() {
		return 0, unix.EFAULT
	}
	defer survive(debug.SetPanicOnFault(true), &err)
	return d.m.FetchAdd(va, add)
}

// Store implements rxe.Memory.
func (d *DMABuf) Store(va, value uint64) (err error) {
	if !d.writable() {
		return unix.EFAULT
	}
	defer survive(debug.SetPanicOnFault(true), &err)
	return d.m.Store(va, value)
}

package trap

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// A call that was received and never answered hangs for ever, even if somebody
// else holds the listener: nobody receives it twice. So what is in hand stands in
// a page that survives this process, and the keeper answers it (fallback.go).

const (
	pageSize   = 4096
	sharedSize = 7 * pageSize

	slots = 128 // more than receivers can be
	// maxWaiting bounds the calls of a session that wait, and maxPollable its pollable
	// files.
	maxWaiting  = 1024
	maxPollable = 2048
)

// A slot is the call that one receiver has in hand.
type slot struct {
	id    atomic.Uint64
	state atomic.Uint64
}

// States of a slot.
const (
	slotFree   = iota
	slotIdle   // a receiver without a call
	slotPath   // the kernel can carry the call out
	slotObject // a call on a descriptor: it can not, if that is ours
)

// layout is the page.
type layout struct {
	last  atomic.Uint64 // the id received last
	valid atomic.Uint64 // there is one
	slots [slots]slot

	waiting  [maxWaiting]record  // calls that wait, by their id
	pollable [maxPollable]record // files of ours that are not memfds, by fileKey
}

// A record is one entry of a list in the page; 0 is a free one. The kernel begins to
// number notifications at random, so that none will have number 0.
type record struct{ atomic.Uint64 }

const _ = sharedSize - unsafe.Sizeof(layout{}) // it fits

// page is the mapped page.
type page struct {
	*layout
	raw []byte
	mu  sync.Mutex // claims of slots
}

// NewShared makes the page that a keeper and the process that serves share.
func NewShared() (*os.File, error) {
	fd, err := fixedSize("gorxe-calls", sharedSize)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "gorxe-calls"), nil
}

// fixedSize makes a memfd of a fixed size. Nobody who gets it can shrink it under
// our feet.
func fixedSize(name string, size int64) (int, error) {
	fd, err := memfdCreate(name)
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("ftruncate of a memfd: %w", err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("sealing a memfd: %w", err)
	}
	return fd, nil
}

// mapPage maps f's page; without f, one that nobody else sees.
func mapPage(f *os.File) (*page, error) {
	fd, flags := -1, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE
	if f != nil {
		fd, flags = int(f.Fd()), unix.MAP_SHARED
		if err := checkPage(fd); err != nil {
			return nil, err
		}
	}
	raw, err := unix.Mmap(fd, 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("mapping the page of calls in hand: %w", err)
	}
	return &page{layout: (*layout)(unsafe.Pointer(&raw[0])), raw: raw}, nil
}

// checkPage refuses a file that could be truncated while it is mapped.
func checkPage(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("page of calls in hand: %w", err)
	}
	// Of huge pages there are only so many: one that is punched out may not come
	// back, and the next access is SIGBUS.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("page of calls in hand: %w", err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || st.Size < sharedSize || fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("page of calls in hand: not made by NewShared")
	}
	return nil
}

// unmap is called when no receiver is left.
func (p *page) unmap() { _ = unix.Munmap(p.raw) }

// slot claims a slot for a receiver.
func (p *page) slot() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slots {
		if s := &p.slots[i]; s.state.Load() == slotFree {
			s.state.Store(slotIdle)
			return s
		}
	}
	// Not reached: maxBlocked and the one receiver are fewer, unless the keeper
	// scribbles. The call in hand is then unknown to it.
	return new(slot)
}

// enter claims a record of a list for value; nil if all are in use.
func (p *page) enter(list []record, value uint64) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		if r := &list[i]; r.Load() == 0 {
			r.Store(value)
			return r
		}
	}
	return nil
}

// fileKey is what names a pollable file in the page: its inode, and which file system
// that is of.
func fileKey(st *unix.Stat_t) uint64 {
	key := st.Ino << 1
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		key |= 1
	}
	return key
}

// fileLink is what /proc/PID/fd shows of the file with that key (fs/pipe.c:
// pipefs_dname, net/socket.c: sockfs_dname).
func fileLink(key uint64) string {
	if key&1 != 0 {
		return fmt.Sprintf("socket:[%d]", key>>1)
	}
	return fmt.Sprintf("pipe:[%d]", key>>1)
}

func (p *page) free(s *slot) { s.state.Store(slotFree) }

// take notes the call in hand.
func (p *page) take(s *slot, n *notify.Call) {
	s.id.Store(n.ID)
	if touchesObject(n.NR) {
		s.state.Store(slotObject)
	} else {
		s.state.Store(slotPath)
	}
	p.last.Store(n.ID)
	p.valid.Store(1)
}

// release notes that the call is answered.
func (s *slot) release() { s.state.Store(slotIdle) }

// touchesObject tells calls that the kernel would carry out on the memfd, which
// is not what the program means, from those that it may. A socket for NETLINK_RDMA is
// not the kernel's to give either.
func touchesObject(nr int32) bool {
	switch nr {
	case unix.SYS_IOCTL, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_READ, unix.SYS_READV,
		unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FCHDIR,
		unix.SYS_GETDENTS64, filter.Getdents, unix.SYS_SOCKET:
		return true
	default:
		return false
	}
}

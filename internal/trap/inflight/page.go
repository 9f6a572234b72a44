package inflight

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"golang.org/x/sys/unix"
)

// A Slot is the call that one receiver has in hand.
type Slot struct {
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
	slots [Slots]Slot

	waiting  [MaxWaiting]Record  // calls that wait, by their id
	pollable [maxPollable]Record // files of ours that are not memfds, by their key
}

// A Record is one entry of a list in the page; 0 is a free one. The kernel begins to
// number notifications at random, so that none will have number 0.
type Record struct{ atomic.Uint64 }

// Free gives the entry up.
func (r *Record) Free() { r.Store(0) }

const _ = sharedSize - unsafe.Sizeof(layout{}) // it fits

// Page is the mapped page.
type Page struct {
	*layout
	raw []byte
	mu  sync.Mutex // claims of slots
}

// New makes the page that a keeper and the process that serves share.
func New() (*os.File, error) {
	fd, err := sealed.FixedSize("gorxe-calls", sharedSize)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "gorxe-calls"), nil
}

// Map maps f's page; without f, one that nobody else sees.
func Map(f *os.File) (*Page, error) {
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
	return &Page{layout: (*layout)(unsafe.Pointer(&raw[0])), raw: raw}, nil
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
		return fmt.Errorf("page of calls in hand: not made by this program")
	}
	return nil
}

// Unmap is called when no receiver is left.
func (p *Page) Unmap() { _ = unix.Munmap(p.raw) }

// Slot claims a slot for a receiver.
func (p *Page) Slot() *Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slots {
		if s := &p.slots[i]; s.state.Load() == slotFree {
			s.state.Store(slotIdle)
			return s
		}
	}
	// Not reached: receivers are fewer, unless the keeper scribbles. The call in hand is then
	// unknown to it.
	return new(Slot)
}

// enter claims a record of a list for value; nil if all are in use.
func (p *Page) enter(list []Record, value uint64) *Record {
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

// AddWaiting notes a call that waits, by its number. It returns nil if there are too many.
func (p *Page) AddWaiting(id uint64) *Record { return p.enter(p.waiting[:], id) }

// AddPollable notes a pollable file. It returns nil if there are too many.
func (p *Page) AddPollable(st *unix.Stat_t) *Record { return p.enter(p.pollable[:], fileKey(st)) }

// Waiting returns the numbers of the calls that wait.
func (p *Page) Waiting() []uint64 { return values(p.waiting[:]) }

// Pollable returns the pollable files, by what /proc/PID/fd shows of them.
func (p *Page) Pollable() []string {
	keys := values(p.pollable[:])
	links := make([]string, 0, len(keys))
	for _, key := range keys {
		links = append(links, fileLink(key))
	}
	return links
}

func values(list []Record) (in []uint64) {
	for i := range list {
		if v := list[i].Load(); v != 0 {
			in = append(in, v)
		}
	}
	return in
}

// A Call is one that a receiver has in hand.
type Call struct {
	ID           uint64
	OnDescriptor bool // see the function
}

// InHand returns the calls that receivers have in hand.
func (p *Page) InHand() (calls []Call) {
	for i := range p.slots {
		s := &p.slots[i]
		switch id := s.id.Load(); s.state.Load() {
		case slotObject:
			calls = append(calls, Call{id, true})
		case slotPath:
			calls = append(calls, Call{id, false})
		}
	}
	return calls
}

// Last returns the number of the call received last, if there was one.
func (p *Page) Last() (id uint64, ok bool) { return p.last.Load(), p.valid.Load() != 0 }

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

// Link returns what /proc/PID/fd shows of the pollable file that st describes. It names the file
// as its device and inode do: pipes have one file system, and sockets another.
func Link(st *unix.Stat_t) string { return fileLink(fileKey(st)) }

// Free gives a slot up.
func (p *Page) Free(s *Slot) { s.state.Store(slotFree) }

// Take notes the call in hand.
func (p *Page) Take(s *Slot, n *notify.Call) {
	s.id.Store(n.ID)
	if OnDescriptor(n.NR) {
		s.state.Store(slotObject)
	} else {
		s.state.Store(slotPath)
	}
	p.last.Store(n.ID)
	p.valid.Store(1)
}

// ID returns the number of the call.
func (s *Slot) ID() uint64 { return s.id.Load() }

// Release notes that the call is answered.
func (s *Slot) Release() { s.state.Store(slotIdle) }

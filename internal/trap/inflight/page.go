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

// A Slot has the call that one receiver has in hand, or has answered.
type Slot struct {
	call  notify.Call   // the kernel writes it; its receiver alone reads it
	id    atomic.Uint64 // of call, for other threads
	taken atomic.Bool
}

// layout is the page.
type layout struct {
	last  atomic.Uint64 // the id received last
	valid atomic.Uint64 // there is one
	pids  uint64        // the namespace that the numbers of threads are of
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

// New makes the page of a process that serves. Only that process writes it: what it believes of
// calls stands there. The file is for the keeper.
func New() (*Page, *os.File, error) {
	fd, raw, err := sealed.Mapped("gorxe-calls", sharedSize)
	if err != nil {
		return nil, nil, err
	}
	p := pageIn(raw)
	p.pids = pidNamespace()
	return p, os.NewFile(uintptr(fd), "gorxe-calls"), nil
}

// Own makes a page that nobody else reads.
func Own() *Page { return &Page{layout: new(layout)} }

// Open maps the page of another process, to read it.
func Open(f *os.File) (*Page, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("page of calls in hand: %w", err)
	}
	if st.Size != sharedSize {
		return nil, fmt.Errorf("page of calls in hand: %d bytes, want %d", st.Size, sharedSize)
	}
	raw, err := unix.Mmap(int(f.Fd()), 0, sharedSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the page of calls in hand: %w", err)
	}
	return pageIn(raw), nil
}

func pageIn(raw []byte) *Page { return &Page{layout: (*layout)(unsafe.Pointer(&raw[0])), raw: raw} }

// pidNamespace returns what tells the namespace of this process's numbers from others; 0: unknown.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// Unmap is called when no receiver is left.
func (p *Page) Unmap() {
	if p.raw != nil {
		_ = unix.Munmap(p.raw)
	}
}

// Slot claims a slot for a receiver.
func (p *Page) Slot() *Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slots {
		if s := &p.slots[i]; s.taken.CompareAndSwap(false, true) {
			return s
		}
	}
	return new(Slot) // not reached: receivers are fewer
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

// InHand returns the calls that receivers have in hand, or have answered. Their TID is 0 if this
// process cannot know it, because its numbers are of another namespace.
func (p *Page) InHand() (calls []notify.Call) {
	known := p.pids != 0 && p.pids == pidNamespace()
	for i := range p.slots {
		n := p.slots[i].call
		if n.ID == 0 {
			continue
		}
		if !known {
			n.TID = 0
		}
		calls = append(calls, n)
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
func (p *Page) Free(s *Slot) { s.taken.Store(false) }

// Receive receives the next call into n. The kernel writes it into the page, so it stands there
// before any thread of this process could be killed with it.
func (p *Page) Receive(s *Slot, l notify.Listener, n *notify.Call) unix.Errno {
	errno := l.Receive(&s.call)
	if errno == 0 {
		*n = s.call
		p.note(s)
	}
	return errno
}

// Inherit puts a call into the slot that another receiver has received.
func (p *Page) Inherit(s *Slot, n *notify.Call) {
	s.call = *n
	p.note(s)
}

func (p *Page) note(s *Slot) {
	s.id.Store(s.call.ID)
	p.last.Store(s.call.ID)
	p.valid.Store(1)
}

// ID returns the number of the call.
func (s *Slot) ID() uint64 { return s.id.Load() }

package sealed

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// ErrNoRoom says that all the descriptors of a [Contents] are of memfds that are in use.
var ErrNoRoom = errors.New("no room for another memfd")

// Contents are memfds that have a name and a content that nobody can change. However often
// one is opened, there is one memfd. The methods may be called by several threads.
type Contents struct {
	room int

	mu     sync.Mutex
	closed bool
	held   []content // at most room
	index  map[contentKey]int
	hand   int // of held: where the search for one that is not in use goes on
}

type contentKey struct{ name, content string }

type content struct {
	key contentKey
	fd  int
}

// NewContents returns Contents that hold at most room descriptors.
func NewContents(room int) *Contents {
	return &Contents{room: room, index: make(map[contentKey]int)}
}

// Room returns how many descriptors there may be.
func (c *Contents) Room() int { return c.room }

// Open returns a descriptor that reads content from the start, and has its own position. It is
// the caller's.
func (c *Contents) Open(name string, data []byte) (int, error) {
	key := contentKey{name, string(data)}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.index[key]
	if !ok {
		var err error
		if at, err = c.add(key); err != nil {
			return -1, err
		}
	}
	fd, err := unix.Open(procfs.SelfFD(c.held[at].fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("reopening a memfd: %w", err)
	}
	return fd, nil
}

// add makes a memfd and returns its place. The caller holds mu.
func (c *Contents) add(key contentKey) (int, error) {
	at, ok := c.place()
	if !ok {
		return 0, ErrNoRoom
	}
	fd, err := ReadOnly(key.name, []byte(key.content))
	if err != nil {
		return 0, err
	}
	// Only the owner may give it extended attributes, which are memory too.
	if err := unix.Fchmod(fd, 0o444); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("fchmod of a memfd: %w", err)
	}
	if at == len(c.held) {
		c.held = append(c.held, content{})
	} else {
		unix.Close(c.held[at].fd)
		delete(c.index, c.held[at].key)
	}
	c.held[at] = content{key, fd}
	c.index[key] = at
	return at, nil
}

// place returns the index of a free place, or of a memfd that nobody has open. The caller holds mu.
func (c *Contents) place() (int, bool) {
	if c.closed {
		return 0, false
	}
	if len(c.held) < c.room {
		return len(c.held), true
	}
	for range min(tries, len(c.held)) {
		at := c.hand
		c.hand = (at + 1) % len(c.held)
		if unused(c.held[at].fd) {
			return at, true
		}
	}
	return 0, false
}

// unused reports whether fd is the only descriptor of its file. The kernel grants F_WRLCK
// to the only description alone (fs/locks.c: check_conflicting_open).
func unused(fd int) bool {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

// Close closes the descriptors. Open then finds no room.
func (c *Contents) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		unix.Close(h.fd)
	}
	c.closed, c.held = true, nil
	clear(c.index)
}

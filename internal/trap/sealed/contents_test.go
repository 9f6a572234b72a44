package sealed

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

func inode(t *testing.T, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func open(t *testing.T, c *Contents, name, content string) int {
	t.Helper()
	fd, err := c.Open(name, []byte(content))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return fd
}

// All opens of one file share its memory, and none its position.
func TestOneMemfd(t *testing.T) {
	c := NewContents(2)
	defer c.Close()
	const text = "1: CA\n"
	var mu sync.Mutex
	inodes := make(map[uint64]bool)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				fd, err := c.Open("node_type", []byte(text))
				if err != nil {
					t.Error(err)
					return
				}
				var buf [16]byte
				if n, err := unix.Read(fd, buf[:]); err != nil || string(buf[:n]) != text {
					t.Errorf("read %q, %v", buf[:n], err)
				}
				mu.Lock()
				inodes[inode(t, fd)] = true
				mu.Unlock()
				defer unix.Close(fd)
			}
		})
	}
	all.Wait()
	if len(inodes) != 1 {
		t.Errorf("%d memfds", len(inodes))
	}
}

// No program can change what the others read.
func TestUnchangeable(t *testing.T) {
	c := NewContents(1)
	defer c.Close()
	fd := open(t, c, "x", "content")
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("y")); !errors.Is(err, unix.EBADF) {
		t.Errorf("write: %v", err)
	}
	rw, err := unix.Open(procfs.SelfFD(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // not the file's owner, nor root
	}
	defer unix.Close(rw)
	if _, err := unix.Write(rw, []byte("y")); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := unix.Ftruncate(rw, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("ftruncate: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o777 != 0o444 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
}

// There is room again when a memfd is no longer open.
func TestRoom(t *testing.T) {
	const room = 3
	c := NewContents(room)
	defer c.Close()
	var fds [room]int
	for i := range fds {
		fds[i] = open(t, c, fmt.Sprint(i), "x")
	}
	if _, err := c.Open("more", nil); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("one more than there is room for: %v", err)
	}
	same := open(t, c, "1", "x")
	if inode(t, same) != inode(t, fds[1]) {
		t.Error("a file that is held is made again")
	}
	unix.Close(fds[1])
	if _, err := c.Open("more", nil); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("a memfd that is open is forgotten: %v", err)
	}
	unix.Close(same)
	// The content is a part of what is held.
	other := open(t, c, "0", "changed")
	if inode(t, other) == inode(t, fds[0]) {
		t.Error("another content has the same memfd")
	}
	if len(c.held) != room || len(c.index) != room {
		t.Errorf("%d held, %d in the index", len(c.held), len(c.index))
	}
	for _, fd := range []int{fds[0], fds[2], other} {
		unix.Close(fd)
	}
	c.Close()
	if _, err := c.Open("0", []byte("x")); !errors.Is(err, ErrNoRoom) {
		t.Errorf("after Close: %v", err)
	}
}

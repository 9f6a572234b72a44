package fallback

import (
	"io"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// TestFlushOfAnyProvider: the fallback finds the queues of a device by its descriptor and in the
// memory of its process. It gives them to the provider's function, whatever the provider puts
// there.
func TestFlushOfAnyProvider(t *testing.T) {
	fd, err := memfd.Create("gorxe-test")
	if err == nil {
		err = unix.Ftruncate(fd, 1<<40)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const queue = 1 << 30
	mem, err := unix.Mmap(fd, queue, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem) //nolint:errcheck // it is mapped
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(self)

	// A provider that doubles each byte of its queue.
	f := fallback{flush: func(q Queues, _ Process) bool {
		for off := int64(0); ; {
			from, to, err := q.Data(off)
			if err == io.EOF {
				return false
			}
			var b [2]byte
			if _, err := q.ReadAt(b[:], from); err != nil {
				t.Error(err)
			}
			if _, err := q.WriteAt([]byte{2 * b[0], 2 * b[1]}, from); err != nil {
				t.Error(err)
			}
			off = to
		}
	}}
	copy(mem, []byte{1, 3})
	f.orphan(os.Getpid(), self, fd)
	if want := []byte{2, 6}; !slices.Equal(mem[:2], want) {
		t.Errorf("by the descriptor: %v, want %v", mem[:2], want)
	}
	f.flushMapped(os.Getpid())
	if want := []byte{4, 12}; !slices.Equal(mem[:2], want) {
		t.Errorf("in the memory of the process: %v, want %v", mem[:2], want)
	}
}

// TestFlushAgain: a provider with queues in the program's memory is called until it has had enough,
// and reaches the memory of the process, which it recognizes.
func TestFlushAgain(t *testing.T) {
	fd, err := memfd.Create("gorxe-test")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(self)
	mem, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem) //nolint:errcheck // it is mapped
	const rounds = 3
	done := make(chan struct{})
	f := fallback{flush: func(_ Queues, p Process) bool {
		var b [1]byte
		at := int64(uintptr(unsafe.Pointer(&mem[0])))
		if _, err := p.ReadAt(b[:], at); err != nil || p.Identity() != procfs.Identity(os.Getpid()) || p.Identity() == 0 {
			t.Errorf("memory of %#x: %v", p.Identity(), err)
		}
		b[0]++
		if _, err := p.WriteAt(b[:], at); err != nil {
			t.Error(err)
		}
		if b[0] == rounds {
			close(done)
		}
		return b[0] < rounds
	}}
	f.orphan(os.Getpid(), self, fd)
	<-done
	if mem[0] != rounds {
		t.Errorf("%d in memory", mem[0])
	}
}

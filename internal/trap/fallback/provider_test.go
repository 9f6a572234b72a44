package fallback

import (
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
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
	f := fallback{flush: func(q Queues) {
		for off := int64(0); ; {
			from, to, err := q.Data(off)
			if err == io.EOF {
				return
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
	f.orphan(self, fd)
	if want := []byte{2, 6}; !slices.Equal(mem[:2], want) {
		t.Errorf("by the descriptor: %v, want %v", mem[:2], want)
	}
	f.flushMapped(os.Getpid())
	if want := []byte{4, 12}; !slices.Equal(mem[:2], want) {
		t.Errorf("in the memory of the process: %v, want %v", mem[:2], want)
	}
}

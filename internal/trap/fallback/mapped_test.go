package fallback

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
)

const pageSize = 4096

// TestMappedQueues: the parts of a memfd that a process has mapped are read and written at their
// offsets in the file.
func TestMappedQueues(t *testing.T) {
	fd, err := memfd.Create("gorxe-test")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const far = 1 << 46
	if err := unix.Ftruncate(fd, 2*far); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{far, pageSize} {
		b, err := unix.Mmap(fd, off, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b) //nolint:errcheck // it is mapped
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	list := mappedQueues(maps, os.Getpid())
	if len(list) != 1 {
		t.Fatalf("%d files, want 1", len(list))
	}
	m := list[0]
	for _, off := range []int64{pageSize + 8, far + pageSize} {
		want := []byte(fmt.Sprint("at ", off))
		if _, err := m.WriteAt(want, off); err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func([]byte, int64) (int, error){
			"the process": m.ReadAt,
			"the file":    func(b []byte, off int64) (int, error) { return unix.Pread(fd, b, off) },
		} {
			got := make([]byte, len(want))
			if n, err := read(got, off); n != len(got) || err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s has %q, %v; want %q", name, got, err, want)
			}
		}
	}
	for _, tt := range []struct{ off, from, to int64 }{
		{0, pageSize, 3 * pageSize},
		{2 * pageSize, 2 * pageSize, 3 * pageSize},
		{3 * pageSize, far, far + 2*pageSize},
	} {
		if from, to, err := m.Data(tt.off); from != tt.from || to != tt.to || err != nil {
			t.Errorf("behind %d: %d to %d, %v; want %d to %d", tt.off, from, to, err, tt.from, tt.to)
		}
	}
	if _, _, err := m.Data(far + 2*pageSize); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
	for _, off := range []int64{0, 3*pageSize - 4, far - 1, far + 2*pageSize - 7} {
		if _, err := m.ReadAt(make([]byte, 8), off); err == nil {
			t.Errorf("read at %d, which is not mapped", off)
		}
	}
}

// TestStrangeMaps: lines of other mappings, and lines that the kernel does not write, are left out.
func TestStrangeMaps(t *testing.T) {
	const ours = "7f0000000000-7f0000002000 rw-s 00001000 00:01 77 /memfd:gorxe-uverbs (deleted)\n"
	for _, line := range []string{
		"",
		"7f0000000000-7f0000002000 r--s 00001000 00:01 77 /memfd:gorxe-uverbs (deleted)",
		"7f0000000000-7f0000002000 rw-p 00001000 00:01 77 /memfd:gorxe-uverbs (deleted)",
		"7f0000000000-7f0000002000 rw-s 00001000 00:01 77 /memfd:other (deleted)",
		"7f0000000000-7f0000002000 rw-p 00000000 00:00 0",
		"7f0000002000-7f0000002000 rw-s 00001000 00:01 78 /memfd:gorxe-uverbs (deleted)",
		"7f0000000000-7f0000002000 rw-s ffffffffffffffff 00:01 78 /memfd:gorxe-uverbs (deleted)",
		"7f0000000000-7f0000002000 rw-s 7ffffffffffff000 00:01 78 /memfd:gorxe-uverbs (deleted)",
		"x-y rw-s 00001000 00:01 78 /memfd:gorxe-uverbs",
		strings.Repeat("z", 1<<17),
	} {
		if list := mappedQueues(strings.NewReader(ours+line+"\n"), 1); len(list) != 1 || len(list[0].parts) != 1 {
			t.Errorf("after %.80q there are %d files", line, len(list))
		}
	}
}

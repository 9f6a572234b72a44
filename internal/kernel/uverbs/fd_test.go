package uverbs

import (
	"encoding/binary"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/eventfile"
)

// reader is the program's end of an event pipe: a description of its own.
func reader(t testing.TB, p *eventfile.Pipe) int {
	t.Helper()
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(p.FD()), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	p.HandedOver()
	return fd
}

// Next reads one event, which must be there.
func next(t testing.TB, fd int) uint64 {
	t.Helper()
	var b [8]byte
	if n, err := unix.Read(fd, b[:]); n != 8 || err != nil {
		t.Fatalf("read of an event: %d, %v", n, err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

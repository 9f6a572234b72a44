package trap

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// TestTakeFD: a file takes a descriptor that its program names, and reads what the program has put
// there. The program keeps its own.
func TestTakeFD(t *testing.T) {
	h := newFakes(t)
	h.write = func(c kernel.Caller, buf, _ uint64) (int64, error) {
		var b [4]byte
		if err := c.Read(buf, b[:]); err != nil {
			return 0, err
		}
		fd, err := c.TakeFD(int32(binary.NativeEndian.Uint32(b[:])))
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the descriptor has flags %#x, %v", flags, err)
		}
		_, err = unix.Pread(fd, b[:1], 0)
		return int64(b[0]), err
	}
	run(t, options{program: "give", host: h})
}

// give names descriptors to the device, which answers with the first byte of their files.
func give([]string) error {
	dev, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	name := func(fd int) (int, error) {
		return unix.Write(dev, binary.NativeEndian.AppendUint32(nil, uint32(fd)))
	}
	memory, err := unix.MemfdCreate("memory", 0)
	if err != nil {
		return err
	}
	for _, first := range []byte{42, 7} {
		if _, err := unix.Pwrite(memory, []byte{first}, 0); err != nil {
			return err
		}
		if n, err := name(memory); n != int(first) || err != nil {
			return fmt.Errorf("the device read %d, %v; want %d", n, err, first)
		}
	}
	for _, fd := range []int{-1, 300, 1 << 30} {
		if n, err := name(fd); err != unix.EBADF {
			return fmt.Errorf("descriptor %d: %d, %v", fd, n, err)
		}
	}
	return unix.Close(memory)
}

package testenv

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UserfaultSize is the size of the memory that Userfault makes.
const UserfaultSize = 1 << 20

// Userfault makes memory that never answers: the kernel reports its page faults to a
// descriptor that no thread reads. After that descriptor is closed, the memory is
// ordinary. EPERM means that this user may not have it
// (vm.unprivileged_userfaultfd).
func Userfault() (mem uintptr, fd int, err error) {
	handler, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, -1, fmt.Errorf("userfaultfd: %w", errno)
	}
	api := [3]uint64{0xaa, 0, 0} // UFFD_API
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, handler, 0xc018aa3f, uintptr(unsafe.Pointer(&api))); errno != 0 {
		return 0, -1, fmt.Errorf("UFFDIO_API: %w", errno)
	}
	mem, _, errno = unix.Syscall6(unix.SYS_MMAP, 0, UserfaultSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if errno != 0 {
		return 0, -1, fmt.Errorf("mmap: %w", errno)
	}
	reg := [4]uint64{uint64(mem), UserfaultSize, 1, 0} // UFFDIO_REGISTER_MODE_MISSING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, handler, 0xc020aa00, uintptr(unsafe.Pointer(&reg))); errno != 0 {
		return 0, -1, fmt.Errorf("UFFDIO_REGISTER: %w", errno)
	}
	return mem, int(handler), nil
}

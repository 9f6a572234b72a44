// Package uffd makes memory that does not answer, for tests: an access to it waits,
// as an access to memory under userfaultfd or FUSE may.
package uffd

import (
	"errors"
	"os"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// UnansweredPage returns memory whose first access waits until answer is called.
func UnansweredPage(t *testing.T) (page []byte, answer func()) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errors.Is(errno, unix.EPERM) && os.Getuid() != 0 {
		t.Skip("userfaultfd of system calls' accesses is for root (vm.unprivileged_userfaultfd)")
	}
	if errno != 0 {
		t.Fatalf("userfaultfd: %v", errno)
	}
	const api, register = 0xc018aa3f, 0xc020aa00 // UFFDIO_API, UFFDIO_REGISTER
	hello := [3]uint64{0xaa, 0, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, api, uintptr(unsafe.Pointer(&hello))); errno != 0 {
		t.Fatalf("UFFDIO_API: %v", errno)
	}
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	missing := [4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), pageSize, 1, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&missing))); errno != 0 {
		t.Fatalf("UFFDIO_REGISTER: %v", errno)
	}
	var once sync.Once
	answer = func() { once.Do(func() { _ = unix.Close(int(fd)) }) } // the page is then as any other
	t.Cleanup(func() {
		answer()
		_ = unix.Munmap(page)
	})
	return page, answer
}

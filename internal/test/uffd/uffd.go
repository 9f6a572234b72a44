// Package uffd makes memory that does not answer, for tests: an access to it waits,
// as an access to memory under userfaultfd or FUSE may.
package uffd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	apiRequest      = 0xc018aa3f // UFFDIO_API
	registerRequest = 0xc020aa00 // UFFDIO_REGISTER
	apiVersion      = 0xaa       // UFFD_API
	registerMissing = 1          // UFFDIO_REGISTER_MODE_MISSING
)

// Map maps size bytes that do not answer: their page faults are reported to a descriptor
// that nobody reads. After that descriptor is closed, the memory is ordinary. EPERM means
// that this user may not have such memory (vm.unprivileged_userfaultfd).
func Map(size int) (mem []byte, fd int, err error) {
	handler, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return nil, -1, fmt.Errorf("userfaultfd: %w", errno)
	}
	fd = int(handler)
	hello := [3]uint64{apiVersion, 0, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, handler, apiRequest, uintptr(unsafe.Pointer(&hello))); errno != 0 {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("UFFDIO_API: %w", errno)
	}
	if mem, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("mmap: %w", err)
	}
	missing := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(size), registerMissing, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, handler, registerRequest, uintptr(unsafe.Pointer(&missing))); errno != 0 {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("UFFDIO_REGISTER: %w", errno)
	}
	return mem, fd, nil
}

const pageSize = 4096

// UnansweredPage returns memory whose first access waits until answer is called.
func UnansweredPage(t *testing.T) (page []byte, answer func()) {
	t.Helper()
	page, fd, err := Map(pageSize)
	if errors.Is(err, unix.EPERM) && os.Getuid() != 0 {
		t.Skip("userfaultfd of system calls' accesses is for root (vm.unprivileged_userfaultfd)")
	}
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	answer = func() { once.Do(func() { _ = unix.Close(fd) }) } // the page is ordinary from then on
	t.Cleanup(func() {
		answer()
		_ = unix.Munmap(page)
	})
	return page, answer
}

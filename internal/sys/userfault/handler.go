package userfault

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of include/uapi/linux/userfaultfd.h.
const (
	userModeOnly = 1 // UFFD_USER_MODE_ONLY

	apiVersion   = 0xaa       // UFFD_API
	apiRequest   = 0xc018aa3f // UFFDIO_API
	registerReq  = 0xc020aa00 // UFFDIO_REGISTER
	protectReq   = 0xc018aa06 // UFFDIO_WRITEPROTECT
	registerWP   = 2          // UFFDIO_REGISTER_MODE_WP
	protectWP    = 1          // UFFDIO_WRITEPROTECT_MODE_WP
	featureWP    = 1          // UFFD_FEATURE_PAGEFAULT_FLAG_WP
	featureShmem = 1 << 12    // UFFD_FEATURE_WP_HUGETLBFS_SHMEM, Linux 5.19
	featureTID   = 1 << 8     // UFFD_FEATURE_THREAD_ID

	messageSize  = 32 // struct uffd_msg
	eventFault   = 0x12
	faultAddress = 16 // where the address stands
	faultThread  = 24 // and the number of the thread
)

// Range is a part of the other process's address space, in whole pages.
type Range struct{ Start, Len uint64 }

// Contains reports whether an address is in it.
func (r Range) Contains(addr uint64) bool { return addr-r.Start < r.Len }

// Handler is a userfaultfd of another process. Its calls may block as long as that process likes:
// it may have kept a descriptor of the same file. After Close they fail.
type Handler struct {
	fd     int
	mu     sync.Mutex // a leaf lock, not held for calls
	calls  int        // that use fd
	closed bool
}

// New takes over a userfaultfd, also if it fails. The descriptor does not block.
func New(fd int) (*Handler, error) {
	hello := [3]uint64{apiVersion, featureWP | featureShmem | featureTID, 0}
	if errno := ioctl(fd, apiRequest, unsafe.Pointer(&hello)); errno != 0 {
		_ = unix.Close(fd) // there is nothing to write back
		return nil, fmt.Errorf("userfaultfd has no write protection of shared memory (Linux 5.19): %w", errno)
	}
	return &Handler{fd: fd}, nil
}

// Await waits until a thread waits for a store, or d has passed.
func (h *Handler) Await(d time.Duration) (stores bool) {
	if !h.enter() {
		return false
	}
	defer h.leave()
	p := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	limit := unix.NsecToTimespec(d.Nanoseconds())
	_, _ = unix.Ppoll(p, &limit, nil) // a signal may end it
	return p[0].Revents&unix.POLLIN != 0
}

// Register makes a range one that can be protected. It may have been registered before.
func (h *Handler) Register(r Range) error {
	arg := [4]uint64{r.Start, r.Len, registerWP, 0}
	return h.call(registerReq, unsafe.Pointer(&arg))
}

// Protect has the next store to each page of a range wait.
func (h *Handler) Protect(r Range) error { return h.protect(r, protectWP) }

// Release ends that, and lets the stores that wait go on.
func (h *Handler) Release(r Range) error { return h.protect(r, 0) }

func (h *Handler) protect(r Range, mode uint64) error {
	arg := [3]uint64{r.Start, r.Len, mode}
	return h.call(protectReq, unsafe.Pointer(&arg))
}

func (h *Handler) call(request uintptr, arg unsafe.Pointer) error {
	if !h.enter() {
		return unix.EBADF
	}
	defer h.leave()
	if errno := ioctl(h.fd, request, arg); errno != 0 {
		return errno
	}
	return nil
}

// Next returns the address of the page of a store that waits and was not returned before. tid is
// its thread's number, in the PID namespace of the thread.
func (h *Handler) Next() (addr uint64, tid int, ok bool) {
	if !h.enter() {
		return 0, 0, false
	}
	defer h.leave()
	var b [messageSize]byte
	n, err := unix.Read(h.fd, b[:])
	if err != nil || n != messageSize || b[0] != eventFault {
		return 0, 0, false
	}
	return binary.NativeEndian.Uint64(b[faultAddress:]), int(binary.NativeEndian.Uint32(b[faultThread:])), true
}

// Close lets all stores go on, when the calls in hand have ended.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.closeUnused()
	}
}

func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.calls++
	return true
}

func (h *Handler) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	h.closeUnused()
}

// closeUnused closes the file behind the last call. mu is held.
func (h *Handler) closeUnused() {
	if h.closed && h.calls == 0 {
		_ = unix.Close(h.fd) // there is nothing to write back
	}
}

// Supported returns why this process cannot have such a file, nil if it can. A program in the same
// container can then, too.
var Supported = sync.OnceValue(func() error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		return fmt.Errorf("userfaultfd: %w", errno)
	}
	h, err := New(int(fd))
	if err == nil {
		h.Close()
	}
	return err
})

func ioctl(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}

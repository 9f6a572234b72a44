package userfault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of include/uapi/linux/userfaultfd.h.
const (
	userModeOnly = 1 // UFFD_USER_MODE_ONLY

	apiVersion  = 0xaa       // UFFD_API
	apiRequest  = 0xc018aa3f // UFFDIO_API
	registerReq = 0xc020aa00 // UFFDIO_REGISTER
	wakeReq     = 0x8010aa02 // UFFDIO_WAKE
	protectReq  = 0xc018aa06 // UFFDIO_WRITEPROTECT
	continueReq = 0xc020aa07 // UFFDIO_CONTINUE
	protectWP   = 1          // UFFDIO_WRITEPROTECT_MODE_WP

	registerWP    = 2     // UFFDIO_REGISTER_MODE_WP
	registerReads = 1 | 4 // UFFDIO_REGISTER_MODE_MISSING and _MINOR

	// UFFD_FEATURE_PAGEFAULT_FLAG_WP, _MISSING_SHMEM, _THREAD_ID, _MINOR_SHMEM, _EXACT_ADDRESS, and
	// _WP_HUGETLBFS_SHMEM of Linux 5.19
	features = 1 | 1<<5 | 1<<8 | 1<<10 | 1<<11 | 1<<12

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
	roused int        // an eventfd, which ends Await
	mu     sync.Mutex // a leaf lock, not held for calls
	calls  int        // that use fd
	closed bool
}

// New takes over a userfaultfd, also if it fails. The descriptor does not block.
func New(fd int) (*Handler, error) {
	hello := [3]uint64{apiVersion, features, 0}
	if errno := ioctl(fd, apiRequest, unsafe.Pointer(&hello)); errno != 0 {
		_ = unix.Close(fd) // there is nothing to write back
		return nil, fmt.Errorf("userfaultfd has no write protection of shared memory (Linux 5.19): %w", errno)
	}
	roused, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd) // as above
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Handler{fd: fd, roused: roused}, nil
}

// Await waits until a thread waits for an access, Rouse was called, or d has passed.
func (h *Handler) Await(d time.Duration) (waits bool) {
	if !h.enter() {
		return false
	}
	defer h.leave()
	p := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}, {Fd: int32(h.roused), Events: unix.POLLIN}}
	limit := unix.NsecToTimespec(d.Nanoseconds())
	_, _ = unix.Ppoll(p, &limit, nil) // a signal may end it
	if p[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(h.roused, count[:]) // another one may have read it
	}
	if p[0].Revents&unix.POLLERR != 0 {
		h.unblock() // or the next call would return at once, too
	}
	return p[0].Revents&unix.POLLIN != 0
}

// unblock undoes what the program may have done: it has made the file one whose calls wait.
func (h *Handler) unblock() { _ = unix.SetNonblock(h.fd, true) } // fails only for a bad descriptor

// Rouse ends Await, or the next one. It does not block.
func (h *Handler) Rouse() {
	if h.enter() {
		defer h.leave()
		h.rouse()
	}
}

func (h *Handler) rouse() {
	one := [8]byte{1}
	_, _ = unix.Write(h.roused, one[:]) // fails if it was roused already
}

// RegisterStores makes a range one that can be protected. It may have been registered before.
func (h *Handler) RegisterStores(r Range) error { return h.register(r, registerWP) }

// RegisterReads has each access to a range wait where the page tables have nothing: a page that is
// punched out of its file, and written again, is such a one. It may have been registered before.
func (h *Handler) RegisterReads(r Range) error { return h.register(r, registerReads) }

func (h *Handler) register(r Range, mode uint64) error {
	arg := [4]uint64{r.Start, r.Len, mode, 0}
	return h.call(registerReq, unsafe.Pointer(&arg))
}

// Show lets the accesses to a range go on, and all that follow. The file has the pages.
func (h *Handler) Show(r Range) error {
	arg := [4]uint64{r.Start, r.Len, 0, 0}
	err := h.call(continueReq, unsafe.Pointer(&arg))
	if errors.Is(err, unix.EEXIST) { // it has no page to put there, and woke nobody
		return h.call(wakeReq, unsafe.Pointer(&r))
	}
	return err
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

// Next returns the address of an access that waits and was not returned before. tid is its thread's
// number, in the PID namespace of the thread.
func (h *Handler) Next() (addr uint64, tid int, ok bool) {
	if !h.enter() {
		return 0, 0, false
	}
	defer h.leave()
	var b [messageSize]byte
	n, err := unix.Preadv2(h.fd, [][]byte{b[:]}, -1, unix.RWF_NOWAIT)
	if errors.Is(err, unix.EOPNOTSUPP) { // before Linux 6.10
		h.unblock()
		n, err = unix.Read(h.fd, b[:])
	}
	if err != nil || n != messageSize || b[0] != eventFault {
		return 0, 0, false
	}
	return binary.NativeEndian.Uint64(b[faultAddress:]), int(binary.NativeEndian.Uint32(b[faultThread:])), true
}

// Close lets all accesses go on, when the calls in hand have ended. It ends Await.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.rouse()
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
		_ = unix.Close(h.roused)
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

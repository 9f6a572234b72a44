package standby

import (
	"fmt"
	"os"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"golang.org/x/sys/unix"
)

func TestWaitsForMemory(t *testing.T) {
	const rest = " 0x7ffc7d2a0000 0x401000\n"
	for text, want := range map[string]bool{
		"running\n":                                  false,
		fmt.Sprint(unix.SYS_FUTEX, rest):             false,
		fmt.Sprint(unix.SYS_PROCESS_VM_WRITEV, rest): true,
		fmt.Sprint(noCall, rest):                     true,
		"":                                           true,
		"nonsense":                                   true,
	} {
		if got := waitsForMemory([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A thread that copies to memory which does not answer is found; one that is busy
// copying is not.
func TestMemoryWaits(t *testing.T) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		testenv.Missing(t, "userfaultfd: %v", errno)
	}
	closed := false
	silent := func() {
		if !closed {
			closed = true
			unix.Close(int(fd)) //nolint:errcheck // it was open
		}
	}
	defer silent()
	api := [3]uint64{0xaa, 0, 0} // UFFD_API
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, 0xc018aa3f, uintptr(unsafe.Pointer(&api))); errno != 0 {
		testenv.Missing(t, "UFFDIO_API: %v", errno)
	}
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem) //nolint:errcheck // it was mapped
	copyTo := func(to []byte) error {
		from := make([]byte, len(to))
		local := []unix.Iovec{{Base: &from[0], Len: uint64(len(from))}}
		remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&to[0])), Len: len(to)}}
		_, err := unix.ProcessVMWritev(os.Getpid(), local, remote, 0)
		return err
	}

	stop, busy := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(busy)
		for to := make([]byte, 1<<20); ; {
			select {
			case <-stop:
				return
			default:
				copyTo(to) //nolint:errcheck // it only takes time
			}
		}
	}()
	// A thread that touches a page for the first time waits for the kernel, but not for long.
	for range 20 {
		must.Eventually(t, "no thread waits for memory", func() bool { return !memoryWaits() })
	}
	close(stop)
	<-busy

	// UFFDIO_REGISTER_MODE_MISSING
	reg := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(len(mem)), 1, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, 0xc020aa00, uintptr(unsafe.Pointer(&reg))); errno != 0 {
		t.Fatalf("UFFDIO_REGISTER: %v", errno)
	}
	done := make(chan error, 1)
	go func() { done <- copyTo(mem) }()
	must.Eventually(t, "the copy waits for memory", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the memory answers: %v", err)
		default:
		}
		return memoryWaits()
	})
	silent() // and answers
	if err := <-done; err != nil {
		t.Error(err)
	}
}

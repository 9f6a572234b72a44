package fallback

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// memory is the memory of the program that a process executes, and not of the next one. It
// implements Process.
type memory struct {
	*os.File
	identity uint64
}

// openMemory opens that of a process. It was the process's own if the process is there afterward.
func openMemory(pid, pidfd int) (memory, error) {
	f, err := os.OpenFile(procfs.Path(pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		return memory{}, err
	}
	m := memory{f, procfs.Identity(pid)} // in this order: of another program, it is another one
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		f.Close()
		return memory{}, err
	}
	return m, nil
}

// Identity implements Process.
func (m memory) Identity() uint64 { return m.identity }

// nobody is for queues that a process has mapped: those of providers with queues in its memory are
// found by their file.
type nobody struct{}

func (nobody) ReadAt([]byte, int64) (int, error)  { return 0, unix.EFAULT }
func (nobody) WriteAt([]byte, int64) (int, error) { return 0, unix.EFAULT }
func (nobody) Identity() uint64                   { return 0 }

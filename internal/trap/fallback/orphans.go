package fallback

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/inflight"
)

// Queues is where the queues of one device are: its memfd, or what a process has mapped of it.
type Queues interface {
	io.ReaderAt
	io.WriterAt
	// Data returns the next part at or behind off that may have data. The error is io.EOF if there
	// is none.
	Data(off int64) (from, to int64, err error)
}

// Process is the memory of a process that has the device open, by addresses.
type Process interface {
	io.ReaderAt
	io.WriterAt
	// Identity is procfs.Identity.
	Identity() uint64
}

// Flush completes the work requests in the queues of a device with an error, as the provider of the
// device puts them there. The queues are in the file or in the process's memory. The program may
// change them meanwhile, and may block it for ever. It reports whether the process can post more,
// and no call will tell that the device is gone. Then it is called again as long as the process
// lives.
type Flush func(Queues, Process) (again bool)

// orphansSoon returns when orphans has done its work, or after orphansTimeout. A program that
// blocks orphans harms only itself.
func (f fallback) orphansSoon() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.orphans()
	}()
	select {
	case <-done:
	case <-time.After(orphansTimeout):
	}
}

// orphans tells programs that do not make calls that their devices are gone. From now on direct
// doorbells fail with EPERM, or with EAGAIN if they go to a pipe. Work requests in the queues
// complete with an error.
func (f fallback) orphans() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	var processes sync.WaitGroup // one may hold up the look at its memory for ever
	defer processes.Wait()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		processes.Go(func() {
			defer unix.Close(pidfd)
			if _, err := procfs.Descendant(pidfd); err == nil {
				f.orphansOf(pid, pidfd)
			}
		})
	}
}

// orphansOf does so in one process.
func (f fallback) orphansOf(pid, pidfd int) {
	pipes := false
	var one sync.Mutex // two that complete the same work requests would do it twice
	flush := func() {
		one.Lock()
		defer one.Unlock()
		f.flushMapped(pid)
	}
	open, err := os.ReadDir(procfs.Path(pid, "fd"))
	if err != nil {
		return
	}
	for _, e := range open {
		fd, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || !f.fds.Ours(uint32(fd)) {
			continue
		}
		link, err := procfs.Readlink(procfs.Path(pid, "fd/"+e.Name()))
		switch {
		case err != nil:
		case strings.HasPrefix(link, inflight.MemfdPrefix):
			f.orphan(pid, pidfd, int(fd))
		case f.pollable[link] && f.fds.Doorbells().Contains(uint32(fd)):
			pipes = jam(pidfd, int(fd), flush) || pipes
		}
	}
	if pipes {
		flush()
	}
}

// orphan does so for one descriptor of a process. What cannot be had, because the
// process has become another user's, stays as it is.
func (f fallback) orphan(pid, pidfd, fd int) {
	theirs, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return
	}
	defer unix.Close(theirs)
	// The program's description, of which it has all descriptors, moves to the end of
	// the file, where those with trapped doorbells stand anyway (package trap: describe).
	_, _ = unix.Seek(theirs, 0, unix.SEEK_END) // it is a memfd
	own, err := unix.Open(procfs.SelfFD(theirs), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // a file of the tree, which is read-only
	}
	mem, err := openMemory(pid, pidfd)
	if err != nil {
		f.flush(memfd.File(own), nobody{})
		unix.Close(own)
		return
	}
	again := f.flush(memfd.File(own), mem)
	go func() {
		defer unix.Close(own)
		defer mem.Close()
		for pause := flushPause; again; pause = min(2*pause, longestFlushPause) {
			time.Sleep(pause)
			again = f.flush(memfd.File(own), mem)
		}
	}()
}

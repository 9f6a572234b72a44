package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// A direct doorbell by itself: a program writes to a file, and inotify wakes a thread of another
// process. That thread reads 8 bytes of the program's memory, and writes 8 bytes to it, for which
// the program waits. Both are on one processor, as they are in the daemon if both programs poll.
//
// The figure is the time until the bytes are written. In half a round trip they are those of a
// program on another processor, which sees them at once.

// RingRole is the first argument of a program that must call RingProgram.
const RingRole = "ring"

// rungFile is the descriptor of the file to which RingProgram writes.
const rungFile = 3

// rung is a doorbell, until the bytes are written.
var rung = baseline{place: OneDaemon, kind: Latency}

// counted is in the memory of RingProgram. The program sets at to the time when it rings, and waits
// until another process has counted the ring in n.
type counted struct{ at, n atomic.Uint64 }

// monotonic is the kernel's CLOCK_MONOTONIC, in ns. It makes no system call.
type monotonic struct {
	base  time.Time
	since uint64
}

// newMonotonic reads both clocks several times, and keeps the readings that are closest to each
// other. The first call takes longer than what is measured here, because its pages are not in
// memory yet.
func newMonotonic() (m monotonic, err error) {
	const tries = 16
	closest := time.Duration(math.MaxInt64)
	for range tries {
		base := time.Now()
		since, err := readClock(unix.CLOCK_MONOTONIC)
		if err != nil {
			return m, err
		}
		if took := time.Since(base); took < closest {
			closest, m = took, monotonic{base, uint64(since - took/2)}
		}
	}
	return m, nil
}

func (m monotonic) now() uint64 { return m.since + uint64(time.Since(m.base)) }

// RingProgram prints the address of a counted. When a line comes in, it rings for the given time,
// and prints how often it did.
func RingProgram(out io.Writer, in io.Reader, span time.Duration) error {
	w := new(counted)
	clock, err := newMonotonic()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, uint64(uintptr(unsafe.Pointer(w)))); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	runtime.LockOSThread()
	var b [1]byte
	n, begin := uint64(0), clock.now()
	for at := begin; n == 0 || at-begin < uint64(span); at = clock.now() {
		n++
		w.at.Store(at)
		// Raw, to measure no more than the call: nothing else runs here.
		if _, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, rungFile, uintptr(unsafe.Pointer(&b[0])), 1, 0, 0, 0); errno != 0 {
			return os.NewSyscallError("pwrite", errno)
		}
		for w.n.Load() != n {
		}
	}
	_, err = fmt.Fprintln(out, n)
	runtime.KeepAlive(w)
	return err
}

// ring returns the time of a doorbell in µs, in the median: now and then the scheduler lets the
// thread wait for milliseconds.
func ring(ctx context.Context, cfg Config) (us float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	file, watch, err := watched()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	defer unix.Close(watch) //nolint:errcheck // scratch
	h, err := hold(ctx, cfg, []*os.File{file}, RingRole, cfg.Target.String())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s := &server{pid: h.cmd.Process.Pid, addr: h.addr, watch: watch, ended: make(chan error, 1)}
	go s.serve(cancel)
	if _, err = io.WriteString(h.in, "\n"); err == nil {
		_, err = h.number()
	}
	s.stop.Store(true)
	_, wake := file.Write([]byte{0})
	if err = errors.Join(err, wake, <-s.ended); err != nil {
		return 0, err
	}
	slices.Sort(s.took)
	return float64(s.took[len(s.took)/2]) / 1e3, nil
}

// watched returns a file in memory, and a descriptor that reports when it is written to.
func watched() (file *os.File, watch int, err error) {
	fd, err := unix.MemfdCreate("doorbells", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(fd) //nolint:errcheck // scratch
	// Writes to what memfd_create returns are not always reported. Writes to a file that was opened
	// are.
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, -1, err
	}
	if watch, err = unix.InotifyInit1(unix.IN_CLOEXEC); err == nil {
		if _, err = unix.InotifyAddWatch(watch, path, unix.IN_MODIFY); err == nil {
			return file, watch, nil
		}
		_ = unix.Close(watch)
	}
	_ = file.Close()
	return nil, -1, os.NewSyscallError("inotify", err)
}

// server is in the daemon's place.
type server struct {
	pid   int
	addr  uintptr
	watch int
	stop  atomic.Bool
	took  []int64 // ns of each ring until it was counted
	ended chan error
}

func (s *server) serve(fail func()) {
	// Never unlocked: the thread, which is bound to a processor, ends here.
	runtime.LockOSThread()
	err := s.run()
	if err != nil {
		fail() // the program would ring in vain
	}
	s.ended <- err
}

func (s *server) run() error {
	if err := onOneProcessor(s.pid); err != nil {
		return err
	}
	mem, err := procmem.Open(s.pid)
	if err != nil {
		return os.NewSyscallError("open of /proc/PID/mem", err)
	}
	defer unix.Close(mem) //nolint:errcheck // scratch
	clock, err := newMonotonic()
	if err != nil {
		return err
	}
	var (
		events [4 * unix.SizeofInotifyEvent]byte
		buf    word
		at     = s.addr + unsafe.Offsetof(counted{}.at)
		count  = s.addr + unsafe.Offsetof(counted{}.n)
	)
	for n := uint64(1); ; n++ {
		if _, err := unix.Read(s.watch, events[:]); err != nil {
			return os.NewSyscallError("read of inotify", err)
		}
		if s.stop.Load() {
			return nil
		}
		if err := buf.access(unix.SYS_PREAD64, mem, at); err != nil {
			return err
		}
		began := binary.NativeEndian.Uint64(buf[:])
		binary.NativeEndian.PutUint64(buf[:], n)
		if err := buf.access(unix.SYS_PWRITE64, mem, count); err != nil {
			return err
		}
		s.took = append(s.took, int64(clock.now()-began))
	}
}

// onOneProcessor binds the calling thread, and all threads of a process, to one processor.
func onOneProcessor(pid int) error {
	_, last, err := processors()
	if err != nil {
		return err
	}
	for _, tid := range procfs.Threads(pid) {
		_ = bind(tid, last) // it may have ended
	}
	return bind(0, last)
}

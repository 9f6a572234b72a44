package doorbell

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// A doorbell pipe can replace the file of a device, at the descriptor that the program writes
// doorbells to. The kernel then wakes the receiver on the writer's processor, and allocates no
// event (fs/pipe.c). A doorbell takes a seventh less time. The program cannot map its queues from a
// pipe, so package trap puts the file back whenever the program is about to.
//
// A doorbell that is written to the file meanwhile bypasses the pipe: one of a forked process,
// which keeps the file. inotify reports it.
//
// The program's description of the pipe is open for reading, too. So a write raises no SIGPIPE when
// the daemon has died. When the program's last descriptor of the pipe is closed, the receiver reads
// the end of the file.

// ErrPipeTaken means that the watch's pipe replaces the file of another device.
var ErrPipeTaken = errors.New("the pipe replaces the file of another device")

// pipe is a watch's, which has one at a time. All is under Watch.mu. Only the receiver reads from
// the pipe, and closes it.
type pipe struct {
	read   int     // the receiver waits for it; 0 while there is no pipe
	nowait int     // the same end, in a description with O_NONBLOCK
	device *Device // whose file it replaces; nil if there is no pipe, or that was removed
	// the program's description of that device's file: without it, its last close would end the
	// device
	file  int
	found int // work requests since the pipe was read
}

// UsePipe makes the watch's pipe replace the device's file, and returns a descriptor of it for the
// program, which the caller closes. file is a descriptor of the program's description of the
// device's file. It is the watch's from now on.
func (d *Device) UsePipe(file int) (write int, err error) {
	w := d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.pipe
	if write, err = w.openPipe(d); err != nil || p.device == d {
		unix.Close(file)
		return write, err
	}
	p.device, p.file = d, file
	w.rouse() // the receiver waits for inotify
	return write, nil
}

// openPipe returns a descriptor of the pipe for a device, and makes the pipe if there is none; w.mu
// is held.
func (w *Watch) openPipe(d *Device) (write int, err error) {
	p := &w.pipe
	switch {
	case w.stopped || w.watches[d.wd] != d:
		return -1, unix.ENODEV
	case p.read != 0 && p.device != d:
		return -1, ErrPipeTaken
	case p.read != 0:
		return p.open(unix.O_RDWR)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("pipe of doorbells: %w", err)
	}
	defer unix.Close(ends[1])
	p.read = ends[0]
	if p.nowait, err = p.open(unix.O_RDONLY | unix.O_NONBLOCK); err == nil {
		if write, err = p.open(unix.O_RDWR); err == nil {
			if err = w.owner.AddPipe(p.read); err == nil {
				return write, nil
			}
			unix.Close(write)
		}
		unix.Close(p.nowait)
	}
	unix.Close(p.read)
	p.read = 0
	return -1, err
}

// open opens the pipe once more.
func (p *pipe) open(mode int) (int, error) {
	fd, err := unix.Open(procfs.SelfFD(p.read), mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening a pipe of doorbells: %w", err)
	}
	return fd, nil
}

// File returns a duplicate of the description that the watch keeps while the pipe replaces the
// file. The caller closes it.
func (d *Device) File() (int, error) {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	if d.watch.pipe.device != d {
		return -1, unix.ENOENT
	}
	return unix.FcntlInt(uintptr(d.watch.pipe.file), unix.F_DUPFD_CLOEXEC, 0)
}

// HasPipe reports whether the pipe replaces the device's file.
func (d *Device) HasPipe() bool {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	return d.watch.pipe.device == d
}

// release gives up the file of the device; w.mu is held.
func (p *pipe) release() {
	if p.device != nil {
		unix.Close(p.file)
		p.device = nil
	}
}

// dropPipe closes the pipe, if there is one; w.mu is held, or no receiver is left.
func (w *Watch) dropPipe() {
	p := &w.pipe
	if p.read == 0 {
		return
	}
	p.release()
	w.owner.RemovePipe()
	unix.Close(p.read)
	unix.Close(p.nowait)
	p.read = 0
}

// readPipe empties the pipe, and puts its device on the list if there were doorbells. fd is one of
// its two descriptors.
func (w *Watch) readPipe(fd int) {
	var buf [pipeRead]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return // EINTR, or EAGAIN
	}
	more := n
	for reads := 1; more == len(buf) && reads < mostReads; reads++ {
		more, _ = unix.Read(w.pipe.nowait, buf[:])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pipe.found = 0
	if w.pipe.device == nil {
		return
	}
	w.enter(w.pipe.device)
	if n == 0 {
		w.hungUp()
	}
}

// hungUp is called when the program's last descriptor of the pipe is closed; w.mu is held. UsePipe
// may have opened another one since.
func (w *Watch) hungUp() {
	fds := []unix.PollFd{{Fd: int32(w.pipe.read)}}
	if _, err := unix.Poll(fds, 0); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
		w.dropPipe()
	}
}

// knock writes to the pipe, as a doorbell does.
func (p *pipe) knock() {
	fd, err := p.open(unix.O_WRONLY | unix.O_NONBLOCK)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, make([]byte, 1)) // a full pipe wakes the receiver, too
	unix.Close(fd)
}

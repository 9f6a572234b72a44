// Package fallback answers a program's calls when the process that served them is gone. The
// program goes on, without its devices. The keeper calls it.
//
// Calls on files of ours get ENODEV. All others continue in the kernel. So do calls on files of
// the tree, which then do not exist.
package fallback

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// Serve answers what the process that served the program had in hand, and then all further
// calls of the program. It returns when the program has ended. calls is the file of that process's
// inflight.New, or nil. flush is of the provider of the program's devices.
func Serve(l, calls *os.File, fds filter.Range, flush Flush) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := fallback{l: notify.Listener(l.Fd()), fds: fds, flush: flush}
	f.l.SyncWakeUp(true) // the listener is as the other process left it
	if calls == nil {
		f.orphansSoon()
	} else if err := f.handedOver(calls); err != nil {
		return err
	}
	var n notify.Call
	for {
		poll := []unix.PollFd{{Fd: int32(f.l), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if poll[0].Revents&unix.POLLHUP != 0 {
			return nil
		}
		switch errno := f.l.Receive(&n); errno {
		case 0:
			f.answer(&n)
		case unix.EINTR, unix.ENOENT:
		default:
			return fmt.Errorf("receiving the program's calls: %w", errno)
		}
	}
}

type fallback struct {
	l        notify.Listener
	fds      filter.Range
	flush    Flush
	pollable map[string]bool // the session's pollable files, by what /proc/PID/fd shows
}

// handedOver does what the page asks for.
func (f *fallback) handedOver(calls *os.File) error {
	p, err := inflight.Open(calls)
	if err != nil {
		f.orphansSoon()
		return err
	}
	defer p.Unmap()
	f.pollable = make(map[string]bool)
	for _, link := range p.Pollable() {
		f.pollable[link] = true
	}
	f.orphansSoon()
	f.inHand(p)
	return nil
}

// inHand answers the calls that the page names. Those that had an answer get no second one. It also
// answers calls around the last one: an exec that waited for other calls continues.
func (f *fallback) inHand(p *inflight.Page) {
	for _, id := range p.Waiting() {
		f.l.Refuse(id, unix.ENODEV)
	}
	for _, n := range p.InHand() {
		f.answer(&n)
	}
	last, ok := p.Last()
	if !ok {
		return // there was not one call yet
	}
	for id := last - probes; id != last+probes; id++ {
		f.l.Continue(id)
	}
}

func (f *fallback) answer(n *notify.Call) {
	if n.NR == unix.SYS_SOCKET {
		f.l.Refuse(n.ID, inflight.NoNetlink)
		return
	}
	if inflight.OnDescriptor(n.NR) && f.ours(n) {
		f.l.Refuse(n.ID, unix.ENODEV)
		return
	}
	f.l.Continue(n.ID)
}

// ours recognises objects by the names of their memfds, and pollable files by the page:
// there is no other table left.
func (f *fallback) ours(n *notify.Call) bool {
	fd := uint32(n.Args[0])
	if !f.fds.Ours(fd) {
		return false
	}
	if n.TID == 0 {
		return true // whose descriptor it is is not known; most in the range are ours
	}
	target, err := procfs.Readlink("/proc/" + strconv.Itoa(int(n.TID)) + "/fd/" + strconv.Itoa(int(fd)))
	if err != nil {
		// The range is ours, so hardly any other file is hit. Pollable files lie where
		// a program with many files has its own.
		return f.fds.Contains(fd)
	}
	return strings.HasPrefix(target, inflight.MemfdPrefix) || f.pollable[target]
}

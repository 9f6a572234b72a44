package keeper

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canary tells signals that were sent to the process group from those that were
// sent to the front alone: the keeper is in the group as well, has the signals
// blocked since before it was started, and finds its own pending in a signalfd. A
// signal for a group becomes pending for all its members in one system call, so it
// is there by the time that the front's message about it arrives.
type canary struct {
	fd   int
	seen [65]bool // since the front last told of that signal
}

func newCanary() (*canary, error) {
	set := maskOf(forwarded)
	fd, err := unix.Signalfd(-1, &set, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("signalfd", err)
	}
	return &canary{fd: fd}, nil
}

// groupHad tells whether s, which the front says it got, went to the whole group.
// Each telling counts once: signals that come twice before they are looked at
// are one, for the front and here.
func (c *canary) groupHad(s unix.Signal) bool {
	c.drain()
	if s < 1 || int(s) >= len(c.seen) {
		return true // no signal at all
	}
	had := c.seen[s]
	c.seen[s] = false
	switch s {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		// SIGCONT takes back those that are pending (signal(7)); what was sent to
		// the front alone does not happen within that time.
		had = had || c.seen[unix.SIGCONT]
	}
	return had
}

func (c *canary) drain() {
	var info [8]unix.SignalfdSiginfo
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(c.fd, raw)
		if err != nil || n <= 0 {
			return // EAGAIN: that was all
		}
		for _, in := range info[:n/int(unsafe.Sizeof(info[0]))] {
			if in.Signo < uint32(len(c.seen)) {
				c.seen[in.Signo] = true
			}
		}
	}
}

package keeper

import (
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canary tells signals that were sent to the process group from those that were
// sent to the front alone: the keeper is in the group as well, and gets the former
// too. A signal for a group becomes pending for all its members in one system
// call, so it is there by the time that the front's message about it arrives.
//
// The keeper is born with these signals blocked, and finds them in a signalfd. Go
// unblocks those that by default end a process (runtime/signal_unix.go:
// blockableSig); they have to be caught, and arrive a little later.
type canary struct {
	fd   int
	loud chan os.Signal // those that could not be blocked
	slow unix.Sigset_t  // the same as a set
	seen [65]bool       // since the front last told of that signal
	cont time.Time      // when SIGCONT was seen last
}

const (
	// canaryPatience is how long the runtime may take to deliver a signal that was
	// pending already.
	canaryPatience = 20 * time.Millisecond
	// contMemory is how long after a SIGCONT a stop signal is taken for one that
	// the group had and that the SIGCONT took back (signal(7)). The front may tell
	// of the two in either order.
	contMemory = 50 * time.Millisecond
)

func newCanary() (*canary, error) {
	c := &canary{loud: make(chan os.Signal, len(forwarded))}
	set, blocked := maskOf(forwarded), currentMask()
	c.slow.Val[0] = set.Val[0] &^ blocked.Val[0]
	for _, s := range forwarded {
		// What is ignored stays ignored: the program inherits it.
		if c.isSlow(s) && !signal.Ignored(s) {
			signal.Notify(c.loud, s)
		}
	}
	var err error
	if c.fd, err = unix.Signalfd(-1, &set, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("signalfd", err)
	}
	return c, nil
}

func (c *canary) isSlow(s unix.Signal) bool { return c.slow.Val[0]&(1<<(s-1)) != 0 }

// groupHad tells whether s, which the front says it got, went to the whole group.
// Each telling counts once: signals that come twice before they are looked at
// are one, for the front and here.
func (c *canary) groupHad(s unix.Signal) bool {
	if s < 1 || int(s) >= len(c.seen) {
		return true // no signal at all
	}
	c.drain()
	if !c.seen[s] && c.isSlow(s) {
		c.await(s)
	}
	had := c.seen[s]
	c.seen[s] = false
	switch s {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		had = had || time.Since(c.cont) < contMemory
	}
	return had
}

// await gives the runtime time to deliver s.
func (c *canary) await(s unix.Signal) {
	timeout := time.NewTimer(canaryPatience)
	defer timeout.Stop()
	for !c.seen[s] {
		select {
		case got := <-c.loud:
			c.note(got.(unix.Signal))
		case <-timeout.C:
			return
		}
	}
}

func (c *canary) note(s unix.Signal) {
	if int(s) < len(c.seen) {
		c.seen[s] = true
	}
	if s == unix.SIGCONT {
		c.cont = time.Now()
	}
}

// drain notes what has come so far.
func (c *canary) drain() {
	for more := true; more; {
		select {
		case s := <-c.loud:
			c.note(s.(unix.Signal))
		default:
			more = false
		}
	}
	var info [8]unix.SignalfdSiginfo
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(c.fd, raw)
		if err != nil || n <= 0 {
			return // EAGAIN: that was all
		}
		for _, in := range info[:n/int(unsafe.Sizeof(info[0]))] {
			c.note(unix.Signal(in.Signo))
		}
	}
}

package keeper

import (
	"slices"

	"golang.org/x/sys/unix"
)

// canary distinguishes signals to the process group from signals to the front alone. The
// keeper is in the group as well, so it gets the former too. kill(2) makes a signal pending
// for the members of a group one after the other, the newest first: for the program, the
// keeper, the front. So the signal is in the keeper's inbox before the front's notice of it
// arrives.
//
// A signal that comes twice before a process looks counts once, and the keeper may have
// looked less often than the front. Therefore notices have numbers. The keeper tells the
// front when it has handled one, and the front looks into its inbox before it records that.
// A notice says up to which number the front has recorded. The front got the signals of
// such a notice after the keeper had looked.
type canary struct {
	in      *inbox
	heard   int        // notices that have been handled
	settled int        // the last of them after which the front was to settle
	seen    []sighting // that the front has not reported
	told    [65]int    // by signal: sighting.notice of the last one it reported
}

// sighting is a signal that the keeper got.
type sighting struct {
	arrival
	notice int // the first notice handled after it was seen
}

func newCanary() (*canary, error) {
	in, err := newInbox()
	return &canary{in: in}, err
}

// look records new signals. The front has all of these too.
func (c *canary) look() {
	list := c.in.drain()
	// kill(2) may still be running. It holds the kernel's tasklist_lock, for which
	// setpgid(2) waits. This call has no other effect.
	_ = unix.Setpgid(0, unix.Getpgrp())
	c.note(list...)
}

func (c *canary) note(list ...arrival) {
	for _, a := range list {
		c.seen = append(c.seen, sighting{a, c.heard + 1})
	}
}

// hear begins to handle a notice. heard is how many notices its front has recorded.
func (c *canary) hear(heard int) {
	c.seen = slices.DeleteFunc(c.seen, func(s sighting) bool {
		if c.in.isLoud(s.Signal) && (c.settled < s.notice || heard < c.settled) {
			return false // it may still be on its way to the front's inbox
		}
		// The front has reported it, or never will, because another signal cancelled it.
		return s.notice <= heard
	})
	c.look()
}

// dealt ends the handling of a notice. It reports whether the front must settle before it
// looks.
func (c *canary) dealt(number int) (settle bool) {
	c.heard = number
	settle = slices.ContainsFunc(c.seen, func(s sighting) bool { return c.in.isLoud(s.Signal) })
	if settle {
		c.settled = number
	}
	return settle
}

// groupHad reports whether the signal a, which the front reports in a notice, went to the
// group. It did if one of these is true:
//
//   - The keeper has seen the signal.
//   - The keeper may have seen it together with one that the front reported earlier, and it
//     is a job control signal, which has no further effect if it comes twice.
//   - The keeper has seen a signal that overrules it: a stop signal to the group after a
//     SIGCONT, or the reverse. The keeper may have missed the first one then. The front
//     has not reported the second one yet, so it came later.
func (c *canary) groupHad(a arrival, heard int) bool {
	at := slices.IndexFunc(c.seen, func(s sighting) bool { return s.arrival == a })
	if at < 0 && c.in.isLoud(a.Signal) {
		c.in.settle()
		c.look()
		at = slices.IndexFunc(c.seen, func(s sighting) bool { return s.arrival == a })
	}
	if at >= 0 {
		c.told[a.Signal] = c.seen[at].notice
		// The front does not report earlier ones that this one cancelled.
		n := 0
		c.seen = slices.DeleteFunc(c.seen, func(s sighting) bool {
			n++
			return n-1 == at || n-1 < at && overrules(a.Signal, s.Signal)
		})
		return true
	}
	if (isStop(a.Signal) || a.Signal == unix.SIGCONT) && heard < c.told[a.Signal] {
		return true
	}
	return slices.ContainsFunc(c.seen, func(s sighting) bool { return overrules(s.Signal, a.Signal) })
}

// overrules reports whether signal s cancels a pending signal (signal(7)).
func overrules(s, pending unix.Signal) bool {
	return s == unix.SIGCONT && isStop(pending) || isStop(s) && pending == unix.SIGCONT
}

// isStop reports whether s stops a process and can be caught.
func isStop(s unix.Signal) bool {
	return s == unix.SIGTSTP || s == unix.SIGTTIN || s == unix.SIGTTOU
}

package keeper

import (
	"slices"

	"golang.org/x/sys/unix"
)

// canary tells signals that were sent to the process group from those that were
// sent to the front alone: the keeper is in the group as well, and gets the former
// too. kill(2) makes a signal pending for the members of a group one after the
// other, the newest first: for the program, the keeper, the front. So it is in the
// keeper's inbox by the time that the front's notice of it arrives.
//
// Signals that come twice before a process looks are one, and the keeper may have
// looked less often than the front. Notices are numbered for that. The front hears
// when the keeper has dealt with one, and looks into its inbox before it takes note
// of that: a notice says how far it has heard, and what that included, the front
// got after the keeper had looked.
type canary struct {
	in      *inbox
	heard   int        // notices that have been dealt with
	settled int        // the last of them after which the front was to settle
	seen    []sighting // that the front has not told of
	told    [65]int    // by signal: sighting.notice of the last one it told of
}

// sighting is a signal that the keeper got.
type sighting struct {
	arrival
	notice int // the first to be dealt with after it was seen
}

func newCanary() (*canary, error) {
	in, err := newInbox()
	return &canary{in: in}, err
}

// look notes what has come, and what it notes, the front has as well.
func (c *canary) look() {
	list := c.in.drain()
	// kill(2) may still be at it. It holds the kernel's tasklist_lock, which
	// setpgid(2) has to wait for, here without an effect.
	_ = unix.Setpgid(0, unix.Getpgrp())
	c.note(list...)
}

func (c *canary) note(list ...arrival) {
	for _, a := range list {
		c.seen = append(c.seen, sighting{a, c.heard + 1})
	}
}

// hear begins to deal with a notice from a front that has heard of so many.
func (c *canary) hear(heard int) {
	c.seen = slices.DeleteFunc(c.seen, func(s sighting) bool {
		if c.in.isLoud(s.Signal) && (c.settled < s.notice || heard < c.settled) {
			return false // it may still be on its way to the front's inbox
		}
		// The front has told of it, or never will: another signal took it back.
		return s.notice <= heard
	})
	c.look()
}

// dealt ends dealing with a notice. It tells whether the front must settle before
// it looks.
func (c *canary) dealt(number int) (settle bool) {
	c.heard = number
	settle = slices.ContainsFunc(c.seen, func(s sighting) bool { return c.in.isLoud(s.Signal) })
	if settle {
		c.settled = number
	}
	return settle
}

// groupHad tells whether the group had a, of which the front tells in a notice. So
// it was if the keeper
//
//   - has seen it;
//   - may have seen it together with one that the front has told of already, and
//     it is a job control signal, which does nothing if it comes twice;
//   - has seen what overrules it: a stop signal that was sent to the group after a
//     SIGCONT, which the keeper then may have seen or not, or the reverse. The
//     front did not tell of this one before, so it came later.
func (c *canary) groupHad(a arrival, heard int) bool {
	at := slices.IndexFunc(c.seen, func(s sighting) bool { return s.arrival == a })
	if at < 0 && c.in.isLoud(a.Signal) {
		c.in.settle()
		c.look()
		at = slices.IndexFunc(c.seen, func(s sighting) bool { return s.arrival == a })
	}
	if at >= 0 {
		c.told[a.Signal] = c.seen[at].notice
		// Those before it that it took back, the front does not tell of.
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

// overrules tells whether signal s takes back one that is pending (signal(7)).
func overrules(s, pending unix.Signal) bool {
	return s == unix.SIGCONT && isStop(pending) || isStop(s) && pending == unix.SIGCONT
}

// isStop tells whether s is one of the signals that stop a process and can be
// caught.
func isStop(s unix.Signal) bool {
	return s == unix.SIGTSTP || s == unix.SIGTTIN || s == unix.SIGTTOU
}

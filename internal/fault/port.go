package fault

import "time"

// Port is what rules say of a port.
type Port struct {
	Down  bool
	GIDs  []int // indexes of GIDs that are not there
	Moved []int // indexes of GIDs that are elsewhere
	Mbps  int   // the speed; 0: as it is
}

// Port returns what the rules say of the port of a device at a time, and when that changes next:
// zero if it does not. It must be asked for each of these times, in order.
func (s *Set) Port(device string, at time.Time) (p Port, next time.Time) {
	for _, e := range s.list(listOf(WherePort, true)) {
		r := &e.rule
		if r.Device != "" && r.Device != device {
			continue
		}
		active, change := e.interval(at)
		if !change.IsZero() && (next.IsZero() || change.Before(next)) {
			next = change
		}
		switch {
		case !active:
		case r.What == GIDRemoved:
			p.GIDs = append(p.GIDs, int(*r.GID))
		case r.What == GIDMoved:
			p.Moved = append(p.Moved, int(*r.GID))
		case r.What == Speed:
			p.Mbps = int(r.Gbps) * 1000
		default:
			p.Down = true
		}
		if active {
			e.begin(device, at)
		}
	}
	return p, next
}

// interval reports whether a rule for a port is in force at a time, and when that changes. A rule
// is in force for Time, and with Times again and again, with pauses of the same length. Without
// Time it is in force as long as the set has it.
func (e *entry) interval(at time.Time) (active bool, change time.Time) {
	since := at.Sub(e.from)
	if since < 0 {
		return false, e.from
	}
	if e.rule.Time == 0 {
		return true, time.Time{}
	}
	n := uint64(since / e.rule.Time) // intervals and pauses that are over
	switch {
	case n >= 2*max(e.rule.Times, 1)-1:
		return false, time.Time{}
	default:
		return n%2 == 0, e.from.Add(time.Duration(n+1) * e.rule.Time)
	}
}

// begin counts an interval, once for all devices.
func (e *entry) begin(device string, at time.Time) {
	n := uint64(1)
	if e.rule.Time != 0 {
		n += uint64(at.Sub(e.from)/e.rule.Time) / 2
	}
	for {
		before := e.numbered.Load()
		if before >= n {
			return
		}
		if e.numbered.CompareAndSwap(before, n) {
			e.candidates.Add(n - before)
			e.fired.Add(n - before)
			e.note(Event{Time: at, Device: device})
			return
		}
	}
}

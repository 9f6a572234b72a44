package inject

import (
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
)

// works is what the rules say of the work requests of a program. It implements rxe.WorkFaults.
type works struct {
	set  *fault.Set
	link *Link
	of   Program
}

// Program is what rules do to the owner of queue pairs.
type Program struct {
	fault.Process
	// Fatal tells the program, and all others with the same set, that the device has failed.
	Fatal func()
	// Remove takes the device away from them, for a time; 0 is for ever. all: from all programs.
	Remove func(time time.Duration, all bool)
	// Kill kills the process. It is called with a queue pair locked, and must not block.
	Kill func()
}

// Works returns what goes wrong with the work requests of a program, whose queue pairs have the set
// as their owner. Fatal and Remove are called from goroutines of their own.
func (l *Link) Works(set *fault.Set, p Program) rxe.WorkFaults { return works{set, l, p} }

// NoReceive implements rxe.WorkFaults.
func (w works) NoReceive(q *rxe.QP) bool {
	wide, own := w.link.works.all(), w.set.Has(fault.WherePeer, false)
	if len(wide) == 0 && !own {
		return false
	}
	work := w.about(q)
	for _, set := range wide {
		if set.NoReceive(&work, true) {
			return true
		}
	}
	return own && w.set.NoReceive(&work, false)
}

// Work implements rxe.WorkFaults.
func (w works) Work(q *rxe.QP, op rxe.WCOpcode) (f rxe.WorkFault) {
	wide := w.link.works.all()
	if len(wide) == 0 && !w.set.Has(fault.WhereDevice, false) && !w.set.Has(fault.WhereCompletion, false) {
		return f
	}
	work := w.about(q)
	work.Op = op.String()
	hit, ok := fault.Hit{}, false
	for _, set := range wide {
		if hit, ok = set.Broken(&work, true); ok {
			break
		}
	}
	if !ok {
		hit, ok = w.set.Broken(&work, false)
	}
	switch {
	case !ok:
	case hit.Where == fault.WhereDevice || hit.Where == fault.WherePeer:
		return w.breakdown(hit)
	case hit.What == fault.Delay:
		f.Delay = hit.Wait()
	default:
		f.Event = qpEvents[hit.Event]
		f.Status = rxe.WCStatus(hit.Status)
		if hit.VendorErr != nil {
			f.VendorErr = uint32(*hit.VendorErr)
		}
	}
	return f
}

func (w works) about(q *rxe.QP) fault.Work {
	return fault.Work{
		Device: w.link.name, QP: q.Num(), Type: q.Type().String(), SRQ: q.HasSRQ(), Process: w.of.Process,
	}
}

// qpEvents are the events of a queue pair that rules raise.
var qpEvents = map[fault.AsyncEvent]rxe.EventType{
	fault.QPFatal: rxe.EventQPFatal, fault.QPReqErr: rxe.EventQPReqErr, fault.QPAccessErr: rxe.EventQPAccessErr,
}

// breakdown returns what happens to a work request when what it uses fails.
func (w works) breakdown(h fault.Hit) rxe.WorkFault {
	switch h.What {
	case fault.Killed:
		w.of.Kill()
		return rxe.WorkFault{Status: rxe.WCFlushErr, Ends: true}
	case fault.Removed:
		go w.of.Remove(h.Time, h.WholeDevice) // the queue pair is locked
		return rxe.WorkFault{Status: rxe.WCFlushErr, Ends: true}
	default: // Fail
	}
	f := rxe.WorkFault{Status: rxe.WCFlushErr, Event: qpEvents[h.Event]}
	switch h.Event {
	case fault.QPFatal, fault.QPReqErr, fault.QPAccessErr: // only the queue pair fails
	case fault.CQErr:
		f.Breaks = rxe.BreaksCQ
	case fault.SRQErr:
		f.Breaks = rxe.BreaksSRQ
	case fault.SRQLimitReached:
		return rxe.WorkFault{ReachLimit: true}
	case fault.DeviceFatal:
		f.Event = rxe.EventQPFatal
		go func() { // the queue pair is locked
			w.of.Fatal()
			w.link.dev.FailQPs(w.set)
		}()
	}
	return f
}

package faultlink

import (
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
)

// works is a set's rules for work requests. It implements rxe.WorkFaults.
type works struct {
	set   *fault.Set
	link  *Link
	fatal func()
}

// Works returns what goes wrong with the work requests of a set's queue pairs. fatal tells their
// programs that the device has failed. It is called from a goroutine of its own.
func (l *Link) Works(set *fault.Set, fatal func()) rxe.WorkFaults { return works{set, l, fatal} }

// NoReceive implements rxe.WorkFaults.
func (w works) NoReceive(q *rxe.QP) bool {
	if !w.set.Has(fault.WherePeer, false) {
		return false
	}
	work := w.of(q)
	return w.set.NoReceive(&work)
}

// Work implements rxe.WorkFaults.
func (w works) Work(q *rxe.QP, op rxe.WCOpcode) (f rxe.WorkFault) {
	devices := w.set.Has(fault.WhereDevice, false)
	if !devices && !w.set.Has(fault.WhereCompletion, false) {
		return f
	}
	work := w.of(q)
	work.Op = op.String()
	if devices {
		if hit, ok := w.set.Device(&work); ok {
			return w.breakdown(hit.Event)
		}
	}
	hit, ok := w.set.Work(&work)
	switch {
	case !ok:
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

func (w works) of(q *rxe.QP) fault.Work {
	return fault.Work{Device: w.link.name, QP: q.Num(), Type: q.Type().String(), SRQ: q.HasSRQ()}
}

// qpEvents are the events of a queue pair that rules raise.
var qpEvents = map[fault.AsyncEvent]rxe.EventType{
	fault.QPFatal: rxe.EventQPFatal, fault.QPReqErr: rxe.EventQPReqErr, fault.QPAccessErr: rxe.EventQPAccessErr,
}

// breakdown returns what happens to a work request when the object of an event fails.
func (w works) breakdown(event fault.AsyncEvent) rxe.WorkFault {
	f := rxe.WorkFault{Status: rxe.WCFlushErr, Event: qpEvents[event]}
	switch event {
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
			w.fatal()
			w.link.dev.FailQPs(w.set)
		}()
	}
	return f
}

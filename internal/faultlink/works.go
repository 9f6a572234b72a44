package faultlink

import (
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
)

// works is a set's rules for work requests. It implements rxe.WorkFaults.
type works struct {
	set  *fault.Set
	name string // of the device
}

// Works returns what goes wrong with the work requests of a set's queue pairs.
func (l *Link) Works(set *fault.Set) rxe.WorkFaults { return works{set, l.name} }

// NoReceive implements rxe.WorkFaults.
func (w works) NoReceive(q *rxe.QP) bool {
	return w.set.Has(fault.WherePeer, false) &&
		w.set.NoReceive(&fault.Work{Device: w.name, QP: q.Num(), Type: q.Type().String()})
}

// Work implements rxe.WorkFaults.
func (w works) Work(q *rxe.QP, op rxe.WCOpcode) (f rxe.WorkFault) {
	if !w.set.Has(fault.WhereCompletion, false) {
		return f
	}
	hit, ok := w.set.Work(&fault.Work{Device: w.name, QP: q.Num(), Type: q.Type().String(), Op: op.String()})
	switch {
	case !ok:
	case hit.What == fault.Delay:
		f.Delay = hit.Wait()
	default:
		f.Event = rxe.EventType(hit.Event)
		f.Status = rxe.WCStatus(hit.Status)
		if hit.VendorErr != nil {
			f.VendorErr = uint32(*hit.VendorErr)
		}
	}
	return f
}

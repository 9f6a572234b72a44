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

// workOps are the operations as rules name them.
var workOps = map[rxe.WCOpcode]string{
	rxe.WCSend: "SEND", rxe.WCWrite: "RDMA_WRITE", rxe.WCRead: "RDMA_READ",
	rxe.WCCompareSwap: "COMP_SWAP", rxe.WCFetchAdd: "FETCH_ADD",
	rxe.WCBindMW: "BIND_MW", rxe.WCLocalInv: "LOCAL_INV",
	rxe.WCFlush: "FLUSH", rxe.WCAtomicWrite: "ATOMIC_WRITE",
	rxe.WCRecv: "RECV", rxe.WCRecvImm: "RECV_RDMA_WITH_IMM",
}

// Work implements rxe.WorkFaults.
func (w works) Work(q *rxe.QP, op rxe.WCOpcode) (f rxe.WorkFault) {
	if !w.set.Has(fault.WhereCompletion, false) {
		return f
	}
	hit, ok := w.set.Work(&fault.Work{Device: w.name, QP: q.Num(), Type: q.Type().String(), Op: workOps[op]})
	switch {
	case !ok:
	case hit.What == fault.Delay:
		f.Delay = hit.Wait()
	default:
		f.Status = rxe.WCStatus(hit.Status)
		if hit.VendorErr != nil {
			f.VendorErr = uint32(*hit.VendorErr)
		}
	}
	return f
}

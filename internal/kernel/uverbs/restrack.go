package uverbs

import (
	"slices"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// numbers gives the resources of a device their numbers (restrack.c: rdma_restrack_add). Each
// kind counts from 1: in the kernel, number 0 is a resource of ib_core. A queue pair's is its
// QPN.
type numbers struct{ contexts, pds, cqs, mrs, srqs, tables atomic.Uint32 }

// AddResources adds what the open holds to the resources of the device, as those of process pid.
// Like Status it waits for nobody, and leaves out what is being made or destroyed.
func (f *File) AddResources(to *nldev.Resources, pid uint32) {
	if f.context.Load() != contextMade {
		return
	}
	w := walk{f: f, to: to, pid: pid, pds: make(map[*rxe.PD]uint32), receivers: make(map[*srqRes][]uint32)}
	f.each(w.domain)
	f.each(w.add)
	for srq, qpns := range w.receivers {
		slices.Sort(qpns)
		i := slices.IndexFunc(to.SRQs, func(s nldev.SRQ) bool { return s.ID == srq.number })
		if i >= 0 {
			to.SRQs[i].QPs = qpns
		}
	}
	to.Contexts = append(to.Contexts, nldev.Context{ID: f.number, PID: pid})
}

// walk collects the resources of a file.
type walk struct {
	f         *File
	to        *nldev.Resources
	pid       uint32
	pds       map[*rxe.PD]uint32 // the numbers of the domains
	receivers map[*srqRes][]uint32
}

// domain adds an object that is a protection domain. The others name theirs by its number.
func (w *walk) domain(o *dispatch.Object) {
	r, ok := o.Res.(*pdRes)
	if !ok {
		return
	}
	w.pds[r.pd] = r.number
	w.to.PDs = append(w.to.PDs, nldev.PD{ID: r.number, Context: w.f.number, Users: uint64(r.pd.Users()), PID: w.pid})
}

// add adds another object.
func (w *walk) add(o *dispatch.Object) {
	switch r := o.Res.(type) {
	case *cqRes:
		w.to.CQs = append(w.to.CQs, nldev.CQ{
			ID: r.number, Context: w.f.number, Entries: r.entries(), Users: uint64(r.cq.Users()), PID: w.pid,
		})
	case *mrRes:
		g := r.get()
		w.to.MRs = append(w.to.MRs, nldev.MR{
			ID: r.number, PD: w.pds[g.pd], LKey: uint32(r.mr.LKey()), RKey: r.rkey(), Length: g.length, PID: w.pid,
		})
	case *srqRes:
		s := nldev.SRQ{ID: r.number, PD: w.pds[r.domain], PID: w.pid}
		if r.cq != nil {
			s.Type, s.CQ = uapi.SRQTypeXRC, r.cq.number
		}
		w.to.SRQs = append(w.to.SRQs, s)
	case *qpRes:
		s := r.qp.Snapshot()
		w.to.QPs = append(w.to.QPs, nldev.QP{
			Num: uint32(s.Num), DestQPN: uint32(s.DestQPN), RecvPSN: uint32(s.RecvPSN), SendPSN: uint32(s.SendPSN),
			Type: uint8(s.Type), State: uint8(s.State), Connected: s.Type == rxe.QPRC || s.Type == rxe.QPUC,
			XRC: s.Type == rxe.QPXRCIni || s.Type == rxe.QPXRCTgt, PD: w.pds[r.domain], PID: w.pid,
		})
		if r.srq != nil {
			w.receivers[r.srq] = append(w.receivers[r.srq], uint32(s.Num))
		}
	}
}

package uverbs

import (
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// FileStatus is what one open of a device holds (`gorxe status`).
type FileStatus struct {
	PDs, MWs, AHs int
	Overrun       bool // see File.Overrun
	Channels      int  // completion channels
	MRs           []MRStatus
	CQs           []CQStatus
	SRQs          []SRQStatus
	QPs           []QPStatus
}

// MRStatus is a memory region.
type MRStatus struct {
	Handle     uint32
	LKey, RKey uint32 // RKey 0: peers have no right
	Addr       uint64 // in the program's memory
	Length     uint64
	IOVA       uint64 // as work requests name Addr
	Access     rxe.Access
}

// CQStatus is a completion queue.
type CQStatus struct {
	Handle           uint32
	Entries, Waiting int // Waiting: not polled yet
}

// SRQStatus is a shared receive queue.
type SRQStatus struct {
	Handle           uint32
	Entries, Waiting int // Waiting: posted and not used yet
}

// QPStatus is a queue pair.
type QPStatus struct {
	Handle uint32
	rxe.QPSnapshot
	MulticastGroups []wire.GID
	Counters        []rxe.Counter
}

// Status says what the open holds at this moment. It waits for nobody: what is
// being made or destroyed is left out.
func (f *File) Status() FileStatus {
	var s FileStatus
	s.Channels, _ = f.events.counts()
	f.gate.Lock()
	if f.gate.running || f.gate.pending || f.gate.done {
		f.gate.Unlock()
		return s
	}
	f.gate.calls++
	f.gate.Unlock()
	f.objects.each(func(o *object) {
		if o.share() {
			s.add(o)
			o.unshare()
		}
	})
	f.uncount()
	s.Overrun = f.Overrun()
	// Handles come in falling order.
	slices.Reverse(s.MRs)
	slices.Reverse(s.CQs)
	slices.Reverse(s.SRQs)
	slices.Reverse(s.QPs)
	return s
}

func (s *FileStatus) add(o *object) {
	switch r := o.res.(type) {
	case *pdRes:
		s.PDs++
	case *mwRes:
		s.MWs++
	case *ahRes:
		s.AHs++
	case *mrRes:
		g := r.get()
		s.MRs = append(s.MRs, MRStatus{Handle: o.handle, LKey: uint32(r.mr.LKey()), RKey: r.rkey(),
			Addr: g.start, Length: g.length, IOVA: g.iova, Access: g.access})
	case *cqRes:
		s.CQs = append(s.CQs, CQStatus{Handle: o.handle, Entries: r.mem.Entries(), Waiting: r.mem.Waiting()})
	case *srqRes:
		s.SRQs = append(s.SRQs, SRQStatus{Handle: o.handle, Entries: r.mem.Entries(), Waiting: r.mem.Waiting()})
	case *qpRes:
		s.QPs = append(s.QPs, QPStatus{Handle: o.handle, QPSnapshot: r.qp.Snapshot(),
			MulticastGroups: r.joined(), Counters: r.qp.Counters()})
	}
}

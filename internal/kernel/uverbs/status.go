package uverbs

import (
	"slices"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// FileStatus is what one open of a device holds (`gorxe status`).
type FileStatus struct {
	PDs, MWs, AHs int
	XRCDs         int
	Flows, WQs    int
	RSS           int  // queue pairs with an indirection table
	Overrun       bool // see File.Overrun
	Channels      int  // completion channels
	MRs           []MRStatus
	CQs           []CQStatus
	SRQs          []SRQStatus
	QPs           []QPStatus
	LeftOut       LeftOut
	MRBytes       uint64 // of all regions, listed or not
	Fill          QueueFill
	Doorbells     kernel.DoorbellKind // empty: the program does not have the file yet

	room int // how much more may be listed
}

// QueueFill says how full all queues of a kind are together, listed or not.
type QueueFill struct{ Send, Recv, SRQ, CQ Fill }

// Fill is how many entries of queues are in use, and how many there are.
type Fill struct{ Used, Size uint64 }

func (f *Fill) add(used, size int) {
	f.Used += uint64(used)
	f.Size += uint64(size)
}

// LeftOut counts the objects that a list was too short for.
type LeftOut struct{ MRs, CQs, SRQs, QPs int }

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
	Entries, Waiting int    // Waiting: posted and not used yet
	Num              uint32 // of XRC: rxe.SRQ.Num
}

// QPStatus is a queue pair.
type QPStatus struct {
	Handle uint32
	rxe.QPSnapshot
	MulticastGroups []wire.GID
	Counters        []rxe.Counter
}

// Status says what the open holds at this moment. It waits for nobody: what is
// being made or destroyed is left out. It lists at most room objects and multicast groups,
// the newest first, and counts the others.
func (f *File) Status(room int) FileStatus {
	s := FileStatus{room: room, Doorbells: f.doorbellKind()}
	s.Channels, _ = f.events.counts()
	if !f.each(s.add) {
		return s
	}
	s.Overrun = f.Overrun()
	// Handles come in falling order.
	slices.Reverse(s.MRs)
	slices.Reverse(s.CQs)
	slices.Reverse(s.SRQs)
	slices.Reverse(s.QPs)
	return s
}

// each calls look with the objects that are neither being made nor destroyed, the newest handles
// first. It reports false if the file ends.
func (f *File) each(look func(*dispatch.Object)) bool {
	if !f.gate.enter() {
		return false
	}
	f.objects.Each(func(o *dispatch.Object) {
		if o.Share() {
			look(o)
			o.Unshare()
		}
	})
	f.uncount()
	return true
}

func (s *FileStatus) add(o *dispatch.Object) {
	switch r := o.Res.(type) {
	case *pdRes:
		s.PDs++
	case *mwRes:
		s.MWs++
	case *ahRes:
		s.AHs++
	case *xrcdRes:
		s.XRCDs++
	case *flowRes:
		s.Flows++
	case *wqRes:
		s.WQs++
	case *rssRes:
		s.RSS++
	case *mrRes:
		g := r.get()
		s.MRBytes += g.length
		if !s.list(&s.LeftOut.MRs) {
			return
		}
		s.MRs = append(s.MRs, MRStatus{Handle: o.Handle, LKey: uint32(r.mr.LKey()), RKey: r.rkey(),
			Addr: g.start, Length: g.length, IOVA: g.iova, Access: g.access})
	case *cqRes:
		entries, waiting := r.mem.Entries(), r.mem.Waiting()
		s.Fill.CQ.add(waiting, entries)
		if !s.list(&s.LeftOut.CQs) {
			return
		}
		s.CQs = append(s.CQs, CQStatus{Handle: o.Handle, Entries: entries, Waiting: waiting})
	case *srqRes:
		entries, waiting := r.mem.Entries(), r.mem.Waiting()
		s.Fill.SRQ.add(waiting, entries)
		if !s.list(&s.LeftOut.SRQs) {
			return
		}
		s.SRQs = append(s.SRQs, SRQStatus{Handle: o.Handle, Entries: entries, Waiting: waiting, Num: r.srq.Num()})
	case *qpRes:
		snapshot := r.qp.Snapshot()
		s.Fill.Send.add(int(snapshot.SendQueue), int(r.caps.MaxSendWR))
		s.Fill.Recv.add(r.mem.Receives())
		if !s.list(&s.LeftOut.QPs) {
			return
		}
		groups := r.joined()
		groups = groups[:min(len(groups), s.room)]
		s.room -= len(groups)
		s.QPs = append(s.QPs, QPStatus{Handle: o.Handle, QPSnapshot: snapshot,
			MulticastGroups: groups, Counters: r.qp.Counters()})
	}
}

// list reports whether there is room for one more object, and counts it in left if not.
func (s *FileStatus) list(left *int) bool {
	if s.room <= 0 {
		*left++
		return false
	}
	s.room--
	return true
}

// Listed returns how many entries the lists have, with the multicast groups.
func (s *FileStatus) Listed() int {
	n := len(s.MRs) + len(s.CQs) + len(s.SRQs) + len(s.QPs)
	for i := range s.QPs {
		n += len(s.QPs[i].MulticastGroups)
	}
	return n
}

// overrun remembers that a program's completion queue was overrun (cqRing.settle).
type overrun struct {
	seen atomic.Bool
	tell func() // nil: nobody wants to know
}

// Overrun reports whether the program's librxe moved the consumer's index of a
// completion queue past the producer's. Every librxe before rdma-core 55 does that when
// ibv_next_poll returns ENOENT.
func (f *File) Overrun() bool { return f.overrun.seen.Load() }

// OnOverrun has tell called, in a goroutine of its own, when Overrun becomes true. It
// comes before the program's first call.
func (f *File) OnOverrun(tell func()) { f.overrun.tell = tell }

// overran is cqRing.overrun.
func (f *File) overran() {
	if !f.overrun.seen.Load() && !f.overrun.seen.Swap(true) && f.overrun.tell != nil {
		go f.overrun.tell()
	}
}

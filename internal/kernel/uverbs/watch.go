package uverbs

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// Watcher sees what a program does with its objects. A call that has a Caller is made while the
// program's thread waits for its answer. An id is of one object, as long as it exists.
type Watcher interface {
	rxe.Observer
	// Made sees a new object, Changed a region after reregistration, and Ended an object that the
	// program has destroyed. unacked is how many of its events the program has read and not
	// acknowledged, as far as is known.
	Made(id any, o Watched, c kernel.Caller)
	Changed(id any, o Watched, c kernel.Caller)
	Ended(id any, unacked uint32, c kernel.Caller)
	// Kept sees that the program could not destroy an object, because others use it.
	Kept(id any, c kernel.Caller)
	// Unread sees that the program destroys a shared receive queue, and has not read n events of
	// it.
	Unread(id any, n uint32, c kernel.Caller)
	// Modified sees a change of a queue pair that the program made.
	Modified(q *rxe.QP, attr *rxe.QPAttr, mask rxe.QPAttrMask, c kernel.Caller)
	// Posting sees a doorbell of a queue pair, before its work requests are posted.
	Posting(q *rxe.QP, c kernel.Caller)
	// Rang follows Posting, after the work requests of that doorbell.
	Rang(q *rxe.QP)
}

// Watched describes an object for a Watcher.
type Watched struct {
	Kind string
	Key  uint32 // of a region or a window; of a queue pair its number

	Start, Length, Base uint64 // of a region; Base is its first address for work requests
	Space               kernel.Space

	QP        *rxe.QP
	SendCQ    any // the id
	RecvCQ    any // likewise; nil: receives name another one
	Cap       rxe.QPCap
	SignalAll bool

	Entries, Waiting func() int        // of a completion queue
	Behind           func() func() int // likewise: provider.LateCQ's; nil: Waiting is as of now

	Receives func() rxe.WaitingRing // of a queue pair or an SRQ; nil: nobody can look
	SRQ      any                    // the id of the one that a queue pair takes from; nil: none
}

// SetWatcher sets the Watcher of this open. It must be called before the first call.
func (f *File) SetWatcher(w Watcher) { f.watcher = w }

// watched tells what a call has made or destroyed.
func (f *File) watched(k *call, err error) {
	if o, res := k.Ended(); res != nil {
		unacked := uint32(0)
		if runtime.GOARCH == "amd64" { // ownStructs
			unacked = unacknowledged(k.Caller, o)
		}
		if _, srq := res.(*srqRes); srq && o.AsyncUnread > 0 {
			f.watcher.Unread(res, o.AsyncUnread, k.Caller)
		}
		f.watcher.Ended(res, unacked, k.Caller)
	}
	if res := k.Kept(); res != nil && errnoOf(err) == unix.EBUSY {
		f.watcher.Kept(res, k.Caller)
	}
	if o := k.Made(); o != nil && err == nil {
		if w := watchedOf(o.Res); w.Kind != "" {
			f.watcher.Made(o.Res, w, k.Caller)
		}
	}
}

// watchedOf describes an object; of one that no check knows, Kind is empty.
func watchedOf(res dispatch.Resource) Watched {
	switch r := res.(type) {
	case *mrRes:
		return r.watched()
	case *mwRes:
		return Watched{Kind: "memory window", Key: r.rkey}
	case *qpRes:
		w := Watched{Kind: "queue pair", Key: uint32(r.qp.Num()), QP: r.qp, Cap: r.caps, SignalAll: r.sigAll}
		if r.sendCQ != nil {
			w.SendCQ = r.sendCQ
		}
		if r.srq != nil {
			w.SRQ = r.srq
		} else if ring := r.qp.RecvQueue(); ring != nil {
			w.Receives = func() rxe.WaitingRing { return ring }
		}
		if r.recvCQ != nil {
			w.RecvCQ = r.recvCQ
		}
		return w
	case *cqRes:
		w := Watched{Kind: "completion queue", Entries: r.mem.Entries, Waiting: r.mem.Waiting}
		if late, ok := r.mem.(provider.LateCQ); ok {
			w.Behind = late.Behind
		}
		return w
	case *srqRes:
		w := Watched{Kind: "shared receive queue"}
		if _, ok := r.mem.Ring().(rxe.WaitingRing); ok { // a resized queue has another ring
			w.Receives = func() rxe.WaitingRing { return r.mem.Ring().(rxe.WaitingRing) }
		}
		return w
	case *pdRes:
		return Watched{Kind: "protection domain"}
	case *ahRes:
		return Watched{Kind: "address handle"}
	}
	return Watched{}
}

func (r *mrRes) watched() Watched {
	g := r.get()
	w := Watched{Kind: "memory region", Key: uint32(r.mr.LKey()), Start: g.start, Length: g.length, Base: g.iova, Space: g.space}
	if g.access&rxe.AccessZeroBased != 0 {
		w.Base = 0
	}
	return w
}

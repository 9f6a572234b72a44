// Package work keeps a journal of the work requests of queue pairs: when each was posted, began and
// completed. It has a bound of memory. Of a long run it keeps fewer requests that succeeded, and
// says so; those that failed it keeps as long as there is room. How many were under way it knows of
// all.
package work

import (
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxRequests bounds the requests that a journal keeps. As text they take 2 MB of a report.
	maxRequests = 1 << 14
	// maxQueues bounds the queue pairs. The page has charts of as many directions.
	maxQueues = 256
	// maxPending bounds the requests of a queue pair that are under way and known one by one.
	maxPending = 1 << 12
)

// Request is a work request. Times count from the start of the journal.
type Request struct {
	ID      uint64 `json:"id"`
	Op      string `json:"op"`
	Receive bool   `json:"receive,omitempty"`
	// as IBV_WC_RETRY_EXC_ERR; empty: it did not complete
	Status string `json:"status,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	Bytes  uint32 `json:"bytes,omitempty"`
	// of a receive: as Done, because posted receives are not seen
	Posted time.Duration `json:"posted"`
	Done   time.Duration `json:"done"` // 0: it did not complete
	Began  bool          `json:"began,omitempty"`
	First  uint32        `json:"first,omitempty"` // PSN, if it began
	Last   uint32        `json:"last,omitempty"`
}

// Queue is what one queue pair did.
type Queue struct {
	QPN       uint32 `json:"qpn"`
	Posted    uint64 `json:"posted"`
	Completed uint64 `json:"completed"` // of those posted
	Received  uint64 `json:"received"`
	Failed    uint64 `json:"failed"`
	// of requests that succeeded, one in so many is in the list
	Stride   uint64    `json:"stride"`
	LeftOut  uint64    `json:"left_out,omitempty"` // of those that failed
	Requests []Request `json:"requests"`
	Depth    Depth     `json:"depth"` // requests under way
}

// Report is what a journal knows.
type Report struct {
	Started time.Time     `json:"started"`
	Until   time.Duration `json:"until"` // of the report
	Queues  []Queue       `json:"queues"`
	LeftOut int           `json:"left_out,omitempty"` // queue pairs
}

// Journal implements rxe.WorkTap.
type Journal struct {
	started time.Time
	now     func() time.Time

	mu      sync.Mutex // a leaf
	queues  map[wire.QPN]*queue
	kept    int
	unknown map[wire.QPN]bool // beyond maxQueues
}

type queue struct {
	Queue
	of      weak.Pointer[rxe.QP] // another one may get its number
	pending []pending
	good    uint64 // requests that succeeded
}

// pending is a request under way.
type pending struct {
	Request
	number uint64 // among those posted
}

// New returns an empty journal.
func New(now func() time.Time) *Journal {
	return &Journal{started: now(), now: now, queues: make(map[wire.QPN]*queue), unknown: make(map[wire.QPN]bool)}
}

// at returns the journal's entry of a queue pair, and the time; nil: there are too many. j.mu is
// locked.
func (j *Journal) at(q *rxe.QP) (*queue, time.Duration) {
	x := j.queues[q.Num()]
	if x == nil {
		if len(j.queues) == maxQueues {
			if len(j.unknown) < maxRequests {
				j.unknown[q.Num()] = true
			}
			return nil, 0
		}
		x = &queue{Queue: Queue{QPN: uint32(q.Num()), Stride: 1}, of: weak.Make(q)}
		j.queues[q.Num()] = x
	}
	if x.of != weak.Make(q) {
		j.abandon(x)
		x.of = weak.Make(q)
	}
	return x, j.now().Sub(j.started)
}

// abandon keeps what a queue pair left under way that exists no more. j.mu is locked.
func (j *Journal) abandon(x *queue) {
	for i := range x.pending {
		j.keep(x, &x.pending[i].Request)
	}
	x.pending, x.Completed = nil, x.Posted
}

// Posted implements rxe.WorkTap.
func (j *Journal) Posted(q *rxe.QP, id uint64, op rxe.WROpcode, bytes uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, now := j.at(q)
	if x == nil {
		return
	}
	if len(x.pending) < maxPending {
		x.pending = append(x.pending, pending{Request{ID: id, Op: op.String(), Bytes: bytes, Posted: now}, x.Posted})
	}
	x.Posted++
	x.Depth.add(now, x.Posted-x.Completed)
}

// Began implements rxe.WorkTap.
func (j *Journal) Began(q *rxe.QP, id uint64, first, last wire.PSN, _ *wire.Route, _ wire.QPN) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, _ := j.at(q)
	if x == nil {
		return
	}
	for i := range x.pending { // in their order
		if p := &x.pending[i]; !p.Began && p.ID == id {
			p.Began, p.First, p.Last = true, uint32(first), uint32(last)
			return
		}
	}
}

// Completed implements rxe.WorkTap.
func (j *Journal) Completed(q *rxe.QP, wc rxe.WC, receive bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, now := j.at(q)
	if x == nil {
		return
	}
	r := Request{ID: wc.ID, Op: "request", Receive: receive, Bytes: wc.ByteLen, Posted: now}
	if receive {
		r.Op = "RECV"
		x.Received++
	} else {
		if len(x.pending) > 0 && x.pending[0].number == x.Completed {
			r = x.pending[0].Request
			x.pending = x.pending[1:]
		}
		x.Completed++
		x.Depth.add(now, x.Posted-min(x.Posted, x.Completed))
	}
	r.Done, r.Status, r.Failed = max(now, 1), explain.StatusName(wc.Status), wc.Status != rxe.WCSuccess
	j.keep(x, &r)
}

// keep keeps a request that has ended, if there is room. j.mu is locked.
func (j *Journal) keep(x *queue, r *Request) {
	if r.Failed {
		x.Failed++
	} else if x.good++; (x.good-1)%x.Stride != 0 {
		return
	}
	if j.kept == maxRequests {
		j.thin()
	}
	if j.kept == maxRequests {
		if r.Failed {
			x.LeftOut++
		}
		return
	}
	x.Requests = append(x.Requests, *r)
	j.kept++
}

// thin drops every second request that succeeded, of the queue pairs that have the most.
func (j *Journal) thin() {
	most := 0
	for _, x := range j.queues {
		most = max(most, len(x.Requests))
	}
	for _, x := range j.queues {
		if len(x.Requests) <= most/2 {
			continue
		}
		n := uint64(0)
		before := len(x.Requests)
		x.Requests = slices.DeleteFunc(x.Requests, func(r Request) bool {
			if r.Failed {
				return false
			}
			n++
			return n%2 == 0
		})
		x.Stride *= 2
		j.kept -= before - len(x.Requests)
	}
}

// Report returns what the journal knows now.
func (j *Journal) Report() *Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &Report{Started: j.started, Until: j.now().Sub(j.started), Queues: []Queue{}, LeftOut: len(j.unknown)}
	for _, x := range j.queues {
		q := x.Queue
		q.Requests = slices.Clone(q.Requests)
		for i := range x.pending { // without an end
			q.Requests = append(q.Requests, x.pending[i].Request)
		}
		slices.SortStableFunc(q.Requests, func(a, b Request) int { return int(a.Posted - b.Posted) })
		q.Depth = x.Depth.clone()
		r.Queues = append(r.Queues, q)
	}
	slices.SortFunc(r.Queues, func(a, b Queue) int { return int(a.QPN) - int(b.QPN) })
	return r
}

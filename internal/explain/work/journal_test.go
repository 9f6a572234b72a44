package work

import (
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

type nowhere struct{}

func (nowhere) Send([]wire.Burst)    {}
func (nowhere) Join(wire.GID) error  { return nil }
func (nowhere) Leave(wire.GID) error { return nil }
func (nowhere) Now() rxe.Time        { return 1 }
func (nowhere) Arm(rxe.Time)         {}

// queuePairs makes some.
func queuePairs(t *testing.T, n int) (list []*rxe.QP) {
	t.Helper()
	d := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: nowhere{}, Clock: nowhere{}}))
	pd := must.Get[*rxe.PD](t)(d.AllocPD())
	cq := must.Get[*rxe.CQ](t)(d.CreateCQ(rxe.CQInit{Entries: 16}))
	for range n {
		list = append(list, must.Get[*rxe.QP](t)(pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: cq, RecvCQ: cq, Cap: rxe.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})))
	}
	return list
}

// TestJournal: a request has its times, its PSNs and its status. One that did not complete has no
// status, and the depth goes on until the end.
func TestJournal(t *testing.T) {
	c := &clock{time.Unix(1, 0)}
	j, q := New(c.now), queuePairs(t, 1)[0]
	step := func() { c.at = c.at.Add(time.Millisecond) }
	step()
	j.Posted(q, 7, rxe.WRSend, 100)
	step()
	j.Posted(q, 7, rxe.WRWrite, 200) // programs give equal ids
	j.Began(q, 7, 5, 6, nil, 0)
	j.Began(q, 7, 7, 7, nil, 0)
	step()
	j.Completed(q, rxe.WC{ID: 7}, false)
	step()
	j.Completed(q, rxe.WC{ID: 7, Status: rxe.WCRetryExcErr}, false)
	j.Completed(q, rxe.WC{ID: 9, ByteLen: 3}, true)
	step()
	j.Posted(q, 8, rxe.WRRead, 1)
	c.at = c.at.Add(10 * time.Millisecond)
	r := j.Report()
	const ms = time.Millisecond
	want := []Request{
		{ID: 7, Op: "SEND", Status: "IBV_WC_SUCCESS", Bytes: 100, Posted: ms, Done: 3 * ms, Began: true, First: 5, Last: 6},
		{ID: 7, Op: "RDMA_WRITE", Status: "IBV_WC_RETRY_EXC_ERR", Failed: true, Bytes: 200, Posted: 2 * ms, Done: 4 * ms, Began: true, First: 7, Last: 7},
		{ID: 9, Op: "RECV", Receive: true, Status: "IBV_WC_SUCCESS", Bytes: 3, Posted: 4 * ms, Done: 4 * ms},
		{ID: 8, Op: "RDMA_READ", Bytes: 1, Posted: 5 * ms},
	}
	x := r.Queues[0]
	if !slices.Equal(x.Requests, want) || x.Posted != 3 || x.Completed != 2 || x.Received != 1 || x.Failed != 1 {
		t.Errorf("%+v", x)
	}
	depth := x.Depth.Until(r.Until)
	at := func(d time.Duration) uint64 { return depth.Steps[(d-depth.Start)/depth.Width].Most }
	if depth.Start != ms || at(ms) != 1 || at(2*ms) != 2 || at(3*ms-depth.Width) != 2 || at(4*ms+2*depth.Width) != 0 || at(14*ms) != 1 {
		t.Errorf("the depth is %+v", depth)
	}
}

// TestJournalBounds: a long run keeps all failed requests and a part of the others, says which
// part, and knows how many were under way of all. Queue pairs and requests under way have bounds,
// too.
func TestJournalBounds(t *testing.T) {
	c := &clock{time.Unix(1, 0)}
	j, qps := New(c.now), queuePairs(t, maxQueues+3)
	const n, failed = 3 * maxRequests, 50
	for i := range uint64(n) {
		c.at = c.at.Add(time.Microsecond)
		status := rxe.WCSuccess
		if i%(n/failed) == 0 {
			status = rxe.WCFlushErr
		}
		j.Posted(qps[0], i, rxe.WRSend, 1)
		j.Completed(qps[0], rxe.WC{ID: i, Status: status}, false)
	}
	for i := range uint64(maxPending + 5) {
		j.Posted(qps[1], i, rxe.WRSend, 1)
	}
	for i := range uint64(maxPending + 5) {
		j.Completed(qps[1], rxe.WC{ID: i}, false)
	}
	for _, q := range qps {
		j.Posted(q, 1, rxe.WRSend, 1)
	}
	r := j.Report()
	if len(r.Queues) != maxQueues || r.LeftOut != 3 {
		t.Fatalf("%d queue pairs, %d left out", len(r.Queues), r.LeftOut)
	}
	total := 0
	for _, x := range r.Queues {
		total += len(x.Requests)
		bad := 0
		for i := range x.Requests {
			if x.Requests[i].Failed {
				bad++
			}
		}
		switch x.QPN {
		case uint32(qps[0].Num()):
			if bad < failed || x.Stride < 4 || x.Posted != n+1 || x.Depth.Steps[0].Most != 1 {
				t.Errorf("%d failed, stride %d, %d posted", bad, x.Stride, x.Posted)
			}
		case uint32(qps[1].Num()):
			most := uint64(0)
			for _, s := range x.Depth.Steps {
				most = max(most, s.Most)
			}
			if most != maxPending+5 {
				t.Errorf("%d under way, want %d", most, maxPending+5)
			}
		}
	}
	if total > maxRequests+maxQueues || total < maxRequests/4 {
		t.Errorf("%d requests", total)
	}
}

// TestJournalOfAnother: a queue pair that gets the number of one that is gone begins again.
func TestJournalOfAnother(t *testing.T) {
	c := &clock{time.Unix(1, 0)}
	j, qps := New(c.now), queuePairs(t, 2)
	j.Posted(qps[0], 1, rxe.WRSend, 1)
	j.queues[qps[1].Num()] = j.queues[qps[0].Num()]
	j.Posted(qps[1], 2, rxe.WRSend, 1)
	j.Completed(qps[1], rxe.WC{ID: 2}, false)
	x := j.queues[qps[1].Num()]
	if len(x.Requests) != 2 || x.Requests[0].Status != "" || x.Requests[1].ID != 2 || x.Depth.last() != 0 {
		t.Errorf("%+v", x.Queue)
	}
}

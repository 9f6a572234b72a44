package rxe

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/must"
)

// A work request that the queue's owner calls malformed completes with that status
// in order: after those before it, which the peer still answers. RC goes to ERR, UC
// and UD to SQE, and later requests are flushed.
func TestSendStatus(t *testing.T) {
	for _, status := range []WCStatus{WCLocLenErr, WCLocQPOpErr, WCLocProtErr, WCMWBindErr} {
		p := newPair(t, 1, 1<<20, 1024)
		sge := []SGE{{Length: 3000, LKey: p.a.mr.LKey()}}
		write := SendWR{Op: WRWrite, Flags: SendSignaled, SGL: sge, RKey: p.b.mr.RKey(), RemoteAddr: 8192}
		before, after := write, write
		before.ID, after.ID = 1, 3
		// PostSend looks at nothing else of it.
		bad := SendWR{ID: 2, Op: 99, Flags: 0xff, Status: status,
			SGL: make([]SGE, 1000), Inline: make([]byte, 1<<16), AH: &AH{}}
		n, err := p.a.qps[0].PostSend([]SendWR{before, bad, after})
		if n != 3 || err != nil {
			t.Fatalf("%v: %d posted, %v", status, n, err)
		}
		wcs := make([]WC, 4)
		if n, _ := p.a.cq.Poll(wcs); n != 0 {
			t.Fatalf("%v: completed before its turn: %+v", status, wcs[:n])
		}
		p.pump()
		k, err := p.a.cq.Poll(wcs)
		must.OK(t, err)
		want := []WC{{ID: 1}, {ID: 2, Status: status}, {ID: 3, Status: WCFlushErr}}
		if k != len(want) {
			t.Fatalf("%v: completions %+v", status, wcs[:k])
		}
		for i, w := range want {
			if wcs[i].ID != w.ID || wcs[i].Status != w.Status {
				t.Errorf("%v: completion %d is %+v, want %+v", status, i, wcs[i], w)
			}
		}
		if s := p.a.qps[0].State(); s != QPErr {
			t.Errorf("%v: the QP is in %v", status, s)
		}
		if got := p.b.counter(t, p.b.qps[0], "rcvd_packets"); got != 3 {
			t.Errorf("%v: the peer got %d packets, want 3", status, got)
		}
	}
}

func TestSendStatusUD(t *testing.T) {
	o := newObjDev(t)
	q := o.qp(o.pd(), QPUD)
	o.reach(q, QPRTS)
	if _, err := q.PostSend([]SendWR{{ID: 1, Op: WRSend, Status: WCLocQPOpErr}, {ID: 2, Status: WCLocLenErr}}); err != nil {
		t.Fatal(err)
	}
	if s := q.State(); s != QPSQE {
		t.Errorf("the QP is in %v, want SQE", s)
	}
}

// OnSendDone is called for every work request once, in order, before its
// completion. That includes unsignaled and flushed ones, and those that RESET
// forgets.
func TestOnSendDone(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	var left int
	var log []string
	cq, err := p.a.dev.CreateCQ(CQInit{Entries: 64, OnCompletion: func(*CQ) { log = append(log, "wc") }})
	must.OK(t, err)
	q, err := p.a.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 16, MaxSendSGE: 1},
		OnSendDone: func(n uint32) { left += int(n); log = append(log, fmt.Sprint("left ", n)) }})
	must.OK(t, err)
	connect(t, q, p.b.qps[0], p.b.gid, 1024)
	connect2(t, p.b.qps[0], q, p.a.gid, 1024)
	wr := SendWR{Op: WRWrite, SGL: []SGE{{Length: 100, LKey: p.a.mr.LKey()}}, RKey: p.b.mr.RKey()}
	signaled := wr
	signaled.Flags = SendSignaled

	must.OK(t, cq.ReqNotify(false))
	_, err = q.PostSend([]SendWR{wr, wr, signaled})
	must.OK(t, err)
	if left != 0 {
		t.Fatalf("%d left the queue before they were answered", left)
	}
	p.pump()
	if got := fmt.Sprint(log); got != "[left 1 left 1 left 1 wc]" {
		t.Errorf("heard %s", got)
	}
	// Flushed.
	_, err = q.PostSend([]SendWR{wr, wr})
	must.OK(t, err)
	must.OK(t, q.Modify(&QPAttr{State: QPErr}, QPAttrState))
	if left != 5 {
		t.Errorf("%d left the queue, want 5", left)
	}
	_, err = q.PostSend([]SendWR{wr})
	must.OK(t, err)
	if left != 6 {
		t.Errorf("%d left the queue, want 6", left)
	}
	// Forgotten.
	must.OK(t, q.Modify(&QPAttr{State: QPReset}, QPAttrState))
	if left != 6 {
		t.Errorf("RESET of an empty queue: %d left, want 6", left)
	}
	p.a.link.take()
	connect(t, q, p.b.qps[0], p.b.gid, 1024)
	log = nil
	_, err = q.PostSend([]SendWR{wr, wr, wr})
	must.OK(t, err)
	must.OK(t, q.Modify(&QPAttr{State: QPReset}, QPAttrState))
	if got := fmt.Sprint(log); got != "[left 3]" {
		t.Errorf("RESET: heard %s", got)
	}
	must.OK(t, q.Destroy())
	if left != 9 {
		t.Errorf("%d left the queue, want 9", left)
	}
}

// connect2 connects a QP that was connected before.
func connect2(t *testing.T, q, peer *QP, gid [16]byte, mtu MTU) {
	t.Helper()
	must.OK(t, q.Modify(&QPAttr{State: QPReset}, QPAttrState))
	connect(t, q, peer, gid, mtu)
}

// TestSendMemory checks that SendMemory is enough for what the queue holds.
func TestSendMemory(t *testing.T) {
	if n := unsafe.Sizeof(sendEntry{}); n > sendEntryBytes {
		t.Errorf("a sendWQE has %d bytes, sendWQEBytes says %d", n, sendEntryBytes)
	}
	for _, c := range []QPCap{{}, {MaxSendWR: 1}, {MaxSendWR: 5, MaxSendSGE: 3}, {MaxSendWR: 1 << 20, MaxInlineData: 500}} {
		var s sendQueue
		s.init(roundCap(c))
		per := int64(unsafe.Sizeof(sendEntry{})) + int64(s.maxSGE)*int64(unsafe.Sizeof(SGE{})) + int64(s.maxInline)
		if need := int64(len(s.wqes)) * per; c.SendMemory() < need {
			t.Errorf("%+v: %d bytes, %d are needed", c, c.SendMemory(), need)
		}
	}
}

// A thread that sees the completion of a work request that failed also sees that the queue pair
// is in ERR, even while another thread still works on it.
func TestFailedStateIsSeen(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	var q *QP
	var seen QPSnapshot
	cq, err := p.a.dev.CreateCQ(CQInit{Entries: 64, OnCompletion: func(*CQ) { seen = q.Snapshot() }})
	must.OK(t, err)
	q, err = p.a.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 16, MaxSendSGE: 1}})
	must.OK(t, err)
	connect(t, q, p.b.qps[0], p.b.gid, 1024)
	must.OK(t, cq.ReqNotify(false))
	_, err = q.PostSend([]SendWR{{Op: WRSend, Status: WCLocQPOpErr}})
	must.OK(t, err)
	if !seen.Busy || seen.State != QPErr {
		t.Errorf("the snapshot at the completion: %+v", seen)
	}
}

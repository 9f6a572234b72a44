package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestNop: a NOP completes after what was posted before it, sends nothing, and is flushed in ERR.
// Each type of queue pair has it.
func TestNop(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	q := p.a.qps[0]
	write := SendWR{ID: 1, Op: WRWrite, SGL: []SGE{{Length: 3000, LKey: p.a.mr.LKey()}}, RKey: p.b.mr.RKey()}
	if n, err := q.PostSend([]SendWR{write, {ID: 2, Op: WRNop, Flags: SendSignaled}, write}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	wcs := make([]WC, 4)
	if n, _ := p.a.cq.Poll(wcs); n != 0 {
		t.Fatalf("completed before its turn: %+v", wcs[:n])
	}
	p.pump()
	n, err := p.a.cq.Poll(wcs)
	must.OK(t, err)
	if n != 1 || wcs[0].ID != 2 || wcs[0].Status != WCSuccess {
		t.Errorf("completions %+v", wcs[:n])
	}
	if got := p.b.counter(t, p.b.qps[0], "rcvd_packets"); got != 6 {
		t.Errorf("the peer got %d packets, want 6 of the two WRITEs", got)
	}
	must.OK(t, q.Modify(&QPAttr{State: QPErr}, QPAttrState))
	if _, err := q.PostSend([]SendWR{{ID: 3, Op: WRNop}}); err != nil {
		t.Fatal(err)
	}
	if n, _ := p.a.cq.Poll(wcs); n != 1 || wcs[0].ID != 3 || wcs[0].Status != WCFlushErr {
		t.Errorf("flushed: %+v", wcs[:n])
	}

	o := newObjDev(t)
	for _, typ := range []QPType{QPUC, QPUD} {
		q := o.qp(o.pd(), typ)
		o.reach(q, QPRTS)
		if _, err := q.PostSend([]SendWR{{Op: WRNop}}); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

package rxe

import "testing"

// A queue pair that was never connected has no path MTU. In ERR it takes work requests all the
// same, and flushes them (IBA 10.3.1).
func TestChaosNotConnected(t *testing.T) {
	b := newBench(t, QPRC, nil)
	for seed := range uint64(100) {
		q, err := b.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: b.cq, RecvCQ: b.cq, Chaos: NewChaos(seed),
			Cap: QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
		b.must(err)
		b.must(q.Modify(&QPAttr{State: QPInit, PortNum: 1}, RequiredMask(QPRC, QPReset, QPInit)))
		b.must(q.Modify(&QPAttr{State: QPErr}, QPAttrState))
		_, err = q.PostSend([]SendWR{{ID: seed, Op: WRSend, SGL: []SGE{{Addr: localVA, Length: 64, LKey: b.local.LKey()}}}})
		b.must(err)
		var wcs [2]WC
		if n, err := b.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != seed || wcs[0].Status != WCFlushErr {
			t.Fatalf("seed %d: %d completions, %+v, %v", seed, n, wcs[0], err)
		}
		b.must(q.Destroy())
	}
}

// A region that ends waits for late data of its protection domain only. Chaos of other programs
// costs it nothing.
func TestSettleOwnDomain(t *testing.T) {
	b := newBench(t, QPRC, nil)
	create := func(pd *PD, c *Chaos) *QP {
		q, err := pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: b.cq, RecvCQ: b.cq, Chaos: c, Cap: QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
		b.must(err)
		return q
	}
	other, err := b.pd.Device().AllocPD()
	b.must(err)
	var others []*QP
	for range 50 {
		others = append(others, create(other, NewChaos(1)))
	}
	calm, own := create(b.pd, nil), create(b.pd, NewChaos(2))
	if list := b.pd.chaotic(); len(list) != 1 || list[0] != own {
		t.Errorf("a region that ends looks at %d queue pairs", len(list))
	}
	srq, err := b.pd.CreateSRQ(SRQInit{MaxWR: 1, MaxSGE: 1})
	b.must(err)
	shared, err := other.CreateQP(QPInitAttr{Type: QPRC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, Chaos: NewChaos(3), Cap: QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	b.must(err)
	if list := b.pd.chaotic(); len(list) != 2 {
		t.Errorf("a region of the SRQ's domain looks at %d queue pairs, want 2", len(list))
	}
	for _, q := range append(others, calm, own, shared) {
		b.must(q.Destroy())
	}
	if n := len(b.pd.chaotic()) + len(other.chaotic()); n != 0 {
		t.Errorf("%d queue pairs are left", n)
	}
}

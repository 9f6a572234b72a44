package rxe

import "testing"

func recvWRs(ids ...uint64) []RecvWR {
	wrs := make([]RecvWR, len(ids))
	for i, id := range ids {
		wrs[i] = RecvWR{ID: id, SGL: []SGE{{Addr: id, Length: 1}}}
	}
	return wrs
}

func (o *objDev) wantPop(ring RecvRing, w *RecvWQE, ids ...uint64) {
	o.t.Helper()
	for _, id := range ids {
		ok, bad := ring.Pop(w)
		if !ok || bad || w.ID != id || len(w.SGL) != 1 || w.SGL[0].Addr != id {
			o.t.Fatalf("popped %+v, %v, %v, want ID %d", w, ok, bad, id)
		}
	}
}

func TestRecvRing(t *testing.T) {
	d := newObjDev(t)
	r := newRecvRing(3, 1)
	var w RecvWQE
	for i := range uint64(7) { // wraps
		for _, wr := range recvWRs(i, i+1, i+2) {
			d.must(r.post(&wr))
		}
		d.want(r.post(&RecvWR{}), ErrFull, "")
		d.wantPop(r, &w, i, i+1, i+2)
	}
	d.want(r.post(&RecvWR{SGL: make([]SGE, 2)}), ErrInvalid, "num_sge")
	d.must(r.post(&RecvWR{ID: 5}))
	if ok, bad := r.Pop(&w); !ok || bad || len(w.SGL) != 0 {
		t.Errorf("empty list: %+v", w)
	}
	if ok, _ := r.Pop(&w); ok {
		t.Error("popped from an empty ring")
	}
	wr := recvWRs(1)[0]
	if n := testing.AllocsPerRun(100, func() { _ = r.post(&wr); r.Pop(&w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(10, func() { _ = newRecvRing(0, 0).post(&wr) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}

func TestPostRecv(t *testing.T) {
	d := newObjDev(t)
	q := d.qp(d.pd(), QPRC) // takes 4
	_, err := q.PostRecv(recvWRs(1))
	d.want(err, ErrInvalid, "qp") // in RESET
	d.reach(q, QPInit)
	n, err := q.PostRecv(recvWRs(1, 2))
	if n != 2 || err != nil {
		t.Errorf("posted %d, %v", n, err)
	}
	bad := recvWRs(3, 4)
	bad[1].SGL = make([]SGE, 3)
	n, err = q.PostRecv(bad)
	d.want(err, ErrInvalid, "num_sge")
	if n != 1 {
		t.Errorf("bad one at %d, want 1", n)
	}
	n, err = q.PostRecv(recvWRs(4, 5))
	d.want(err, ErrFull, "")
	if n != 1 {
		t.Errorf("bad one at %d, want 1", n)
	}
	var w RecvWQE
	d.wantPop(q.rq, &w, 1)

	d.step(q, QPErr)
	d.wantIDs(q.recvCQ, 8, 2, 3, 4)
	if n, err := q.PostRecv(recvWRs(6, 7)); n != 2 || err != nil {
		t.Errorf("in ERR: posted %d, %v", n, err)
	}
	wcs := make([]WC, 3)
	if n, _ := q.recvCQ.Poll(wcs); n != 2 || wcs[0].ID != 6 || wcs[1].ID != 7 ||
		wcs[0].Status != WCFlushErr || wcs[0].QPN != q.qpn {
		t.Errorf("flushed %d: %+v", n, wcs)
	}

	d.step(q, QPReset)
	d.step(q, QPInit)
	if n, err := q.PostRecv(recvWRs(1)); n != 1 || err != nil {
		t.Errorf("after RESET: posted %d, %v", n, err)
	}
	d.step(q, QPReset) // forgets without completing
	d.wantIDs(q.recvCQ, 1)
	d.must(q.Destroy())
	_, err = q.PostRecv(nil)
	d.want(err, ErrClosed, "qp")
}

func TestSRQ(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	for _, c := range []struct {
		init SRQInit
		arg  string
	}{
		{SRQInit{MaxWR: 0}, "max_wr"},
		{SRQInit{MaxWR: 1<<20 + 1}, "max_wr"},
		{SRQInit{MaxWR: 1, MaxSGE: 28}, "max_sge"},
		{SRQInit{MaxWR: 1, Limit: 2}, "srq_limit"},
	} {
		_, err := pd.CreateSRQ(c.init)
		d.want(err, ErrInvalid, c.arg)
	}
	s, err := pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 1})
	d.must(err)
	n, err := s.PostRecv(recvWRs(1, 2, 3, 4, 5))
	d.want(err, ErrFull, "")
	if n != 4 {
		t.Errorf("posted %d", n)
	}

	var w RecvWQE
	pop := func(id uint64) {
		t.Helper()
		if ok, bad := s.pop(&w); !ok || bad || w.ID != id {
			t.Errorf("popped %+v, %v, %v", w, ok, bad)
		}
	}
	for _, c := range []struct {
		attr SRQAttr
		mask SRQAttrMask
		arg  string
	}{
		{SRQAttr{}, 0, "mask"},
		{SRQAttr{}, 4, "mask"},
		{SRQAttr{MaxWR: 3}, SRQAttrMaxWR, "max_wr"},
		{SRQAttr{MaxWR: 0}, SRQAttrMaxWR, "max_wr"},
		{SRQAttr{Limit: 5}, SRQAttrLimit, "srq_limit"},
		{SRQAttr{MaxWR: 8, Limit: 9}, SRQAttrMaxWR | SRQAttrLimit, "srq_limit"},
	} {
		d.want(s.Modify(c.attr, c.mask), ErrInvalid, c.arg)
	}
	if a, _ := s.Query(); a != (SRQAttr{MaxWR: 4, MaxSGE: 1}) {
		t.Errorf("refusals left %+v", a)
	}

	d.must(s.Modify(SRQAttr{Limit: 3}, SRQAttrLimit))
	pop(1) // 3 left: not fewer than the limit
	d.wantNoEvent()
	pop(2)
	d.wantEvent(Event{Type: EventSRQLimitReached, SRQ: s})
	if a, _ := s.Query(); a.Limit != 0 {
		t.Errorf("limit still armed: %+v", a)
	}
	pop(3)
	d.wantNoEvent() // once for each arming

	d.must(s.Modify(SRQAttr{MaxWR: 2, Limit: 1}, SRQAttrMaxWR|SRQAttrLimit))
	if n, err := s.PostRecv(recvWRs(6, 7)); n != 1 || err == nil {
		t.Errorf("resized queue of 2 took %d, %v", n, err)
	}
	pop(4)
	pop(6)
	d.wantEvent(Event{Type: EventSRQLimitReached, SRQ: s})
	if ok, _ := s.pop(&w); ok {
		t.Error("popped from an empty SRQ")
	}

	d.must(s.Destroy())
	if ok, _ := s.pop(&w); ok {
		t.Error("popped from a destroyed SRQ")
	}
	_, err = s.Query()
	_, perr := s.PostRecv(nil)
	for _, err := range []error{err, perr, s.Modify(SRQAttr{}, SRQAttrLimit)} {
		d.want(err, ErrClosed, "srq")
	}
}

func TestQPWithSRQ(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	s, err := pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 1})
	d.must(err)
	cq := d.cq(4)
	q, err := pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, SRQ: s,
		Cap: QPCap{MaxRecvWR: 9, MaxRecvSGE: 9}})
	d.must(err)
	if a, init, _ := q.Query(); a.Cap.MaxRecvWR != 0 || init.SRQ != s {
		t.Errorf("cap %+v", a.Cap)
	}
	d.reach(q, QPInit)
	_, err = q.PostRecv(recvWRs(1))
	d.want(err, ErrInvalid, "qp")
	_, err = s.PostRecv(recvWRs(1, 2))
	d.must(err)
	var w RecvWQE
	if ok, _ := q.popRecv(&w); !ok || w.ID != 1 {
		t.Errorf("popped %+v", w)
	}
	d.step(q, QPErr)
	d.wantEvent(Event{Type: EventQPLastWQEReached, QP: q})
	d.wantIDs(cq, 4) // what is in the SRQ stays there
	if ok, _ := s.pop(&w); !ok || w.ID != 2 {
		t.Errorf("SRQ has %+v", w)
	}
}

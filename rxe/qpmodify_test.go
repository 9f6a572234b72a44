package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

func TestQueryReturnsWhatWasSet(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	want := map[QPType]func(a, set QPAttr) QPAttr{
		QPRC: func(a, set QPAttr) QPAttr {
			a.PathMTU, a.RQPSN, a.SQPSN, a.DestQPN = set.PathMTU, set.RQPSN, set.SQPSN, set.DestQPN
			a.Access, a.AH, a.PortNum = set.Access, set.AH, set.PortNum
			a.MaxRdAtomic, a.MaxDestRdAtomic = set.MaxRdAtomic, set.MaxDestRdAtomic
			a.MinRNRTimer, a.Timeout = set.MinRNRTimer, set.Timeout
			a.RetryCnt, a.RNRRetry = set.RetryCnt, set.RNRRetry
			return a
		},
		QPUC: func(a, set QPAttr) QPAttr {
			a.PathMTU, a.RQPSN, a.SQPSN, a.DestQPN = set.PathMTU, set.RQPSN, set.SQPSN, set.DestQPN
			a.Access, a.AH, a.PortNum = set.Access, set.AH, set.PortNum
			return a
		},
		QPXRCIni: func(a, set QPAttr) QPAttr {
			a.PathMTU, a.RQPSN, a.SQPSN, a.DestQPN = set.PathMTU, set.RQPSN, set.SQPSN, set.DestQPN
			a.Access, a.AH, a.PortNum, a.MaxRdAtomic = set.Access, set.AH, set.PortNum, set.MaxRdAtomic
			a.Timeout, a.RetryCnt, a.RNRRetry = set.Timeout, set.RetryCnt, set.RNRRetry
			return a
		},
		QPXRCTgt: func(a, set QPAttr) QPAttr {
			a.PathMTU, a.RQPSN, a.SQPSN, a.DestQPN = set.PathMTU, set.RQPSN, set.SQPSN, set.DestQPN
			a.Access, a.AH, a.PortNum, a.MaxDestRdAtomic = set.Access, set.AH, set.PortNum, set.MaxDestRdAtomic
			a.MinRNRTimer, a.Timeout = set.MinRNRTimer, set.Timeout
			return a
		},
		QPUD: func(a, set QPAttr) QPAttr {
			a.SQPSN, a.QKey, a.PortNum = set.SQPSN, set.QKey, set.PortNum
			return a
		},
	}
	for _, typ := range objTypes {
		q := d.qp(pd, typ)
		d.reach(q, QPRTS)
		got, init, err := q.Query()
		d.must(err)
		expect := want[typ](QPAttr{State: QPRTS, CurState: QPRTS, Cap: got.Cap}, objAttr())
		if got != expect {
			t.Errorf("%v: %+v, want %+v", typ, got, expect)
		}
		if init.Type != typ || init.SendCQ != q.sendCQ || init.RecvCQ != q.recvCQ || init.Cap != got.Cap {
			t.Errorf("%v: init %+v", typ, init)
		}
		d.step(q, QPReset)
		if got, _, _ := q.Query(); got != (QPAttr{Cap: got.Cap}) || got.Cap != init.Cap {
			t.Errorf("%v after RESET: %+v", typ, got)
		}
	}
}

// TestModifyChecksValues has one bad value for each attribute that can have one.
// The error must name the attribute, and nothing may change.
func TestModifyChecksValues(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	for _, c := range []struct {
		from, to QPState
		arg      string
		set      func(*QPAttr)
	}{
		{QPReset, QPInit, "pkey_index", func(a *QPAttr) { a.PKeyIndex = 1 }},
		{QPReset, QPInit, "port_num", func(a *QPAttr) { a.PortNum = 0 }},
		{QPReset, QPInit, "port_num", func(a *QPAttr) { a.PortNum = 2 }},
		{QPReset, QPInit, "qp_access_flags", func(a *QPAttr) { a.Access = 1 << 11 }},
		{QPInit, QPRTR, "path_mtu", func(a *QPAttr) { a.PathMTU = 0 }},
		{QPInit, QPRTR, "path_mtu", func(a *QPAttr) { a.PathMTU = 1500 }},
		{QPInit, QPRTR, "path_mtu", func(a *QPAttr) { a.PathMTU = 8192 }},
		{QPInit, QPRTR, "dest_qp_num", func(a *QPAttr) { a.DestQPN = 1 << 24 }},
		{QPInit, QPRTR, "rq_psn", func(a *QPAttr) { a.RQPSN = 1 << 24 }},
		{QPInit, QPRTR, "max_dest_rd_atomic", func(a *QPAttr) { a.MaxDestRdAtomic = 129 }},
		{QPInit, QPRTR, "min_rnr_timer", func(a *QPAttr) { a.MinRNRTimer = 32 }},
		{QPInit, QPRTR, "ah.sgid_index", func(a *QPAttr) { a.AH.SGIDIndex = 9 }},
		{QPInit, QPRTR, "ah.dgid", func(a *QPAttr) { a.AH.DGID = wire.GID{} }},
		{QPInit, QPRTR, "ah.port_num", func(a *QPAttr) { a.AH.PortNum = 0 }},
		{QPInit, QPRTR, "ah_attr", func(a *QPAttr) { a.AH.DGID = objMGID }},
		{QPRTR, QPRTS, "sq_psn", func(a *QPAttr) { a.SQPSN = 1 << 24 }},
		{QPRTR, QPRTS, "timeout", func(a *QPAttr) { a.Timeout = 32 }},
		{QPRTR, QPRTS, "retry_cnt", func(a *QPAttr) { a.RetryCnt = 8 }},
		{QPRTR, QPRTS, "rnr_retry", func(a *QPAttr) { a.RNRRetry = 8 }},
		{QPRTR, QPRTS, "max_rd_atomic", func(a *QPAttr) { a.MaxRdAtomic = 129 }},
		{QPRTR, QPRTS, "path_mig_state", func(a *QPAttr) { a.PathMigState = 1 }},
	} {
		q := d.qp(pd, QPRC)
		d.reach(q, c.from)
		before, _, _ := q.Query()
		a := objAttr()
		a.State = c.to
		c.set(&a)
		attrs, _ := attrsFor(QPRC, c.from, c.to)
		mask := attrs.required | QPAttrState | attrs.optional&QPAttrPathMigState
		d.want(q.Modify(&a, mask), ErrInvalid, c.arg)
		if after, _, _ := q.Query(); after != before {
			t.Errorf("%s: refusal changed %+v to %+v", c.arg, before, after)
		}
		d.step(q, c.to) // still usable
	}
}

func TestModifyRefusals(t *testing.T) {
	d := newObjDev(t)
	q := d.qp(d.pd(), QPRC)
	d.reach(q, QPRTR)
	a := objAttr()
	a.State, a.CurState = QPRTS, QPSQD
	set, _ := attrsFor(QPRC, QPRTR, QPRTS)
	d.want(q.Modify(&a, set.required|QPAttrState|QPAttrCurState), ErrInvalid, "cur_qp_state")
	d.want(q.Modify(&a, set.required|QPAttrState|QPAttrAltPath), ErrInvalid, "alt_ah_attr")
	d.want(q.Modify(&a, set.required|QPAttrState|1<<30), ErrInvalid, "attr_mask")
	a.State = 9
	d.want(q.Modify(&a, QPAttrState), ErrInvalid, "qp_state")
	d.step(q, QPRTS)

	q.lock()
	q.attr.State, q.attr.SQDraining = QPSQD, true
	q.unlock(nil)
	a.State = QPRTS
	d.want(q.Modify(&a, QPAttrState), ErrInvalid, "qp_state")
	d.want(q.Modify(&a, QPAttrTimeout), ErrInvalid, "qp_state")
	a.State = QPErr
	d.must(q.Modify(&a, QPAttrState))

	d.must(q.Destroy())
	d.want(q.Modify(&a, QPAttrState), ErrClosed, "qp")
	_, _, err := q.Query()
	d.want(err, ErrClosed, "qp")
}

func TestDrainEvent(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	for _, notify := range []bool{true, false} {
		q := d.qp(pd, QPRC)
		d.reach(q, QPRTS)
		d.must(q.Modify(&QPAttr{State: QPSQD, EnSQDNotify: notify}, QPAttrState|QPAttrEnSQDNotify))
		if notify {
			d.wantEvent(Event{Type: EventSQDrained, QP: q})
		} else {
			d.wantNoEvent()
		}
		if a, _, _ := q.Query(); a.State != QPSQD || a.SQDraining {
			t.Errorf("%+v", a)
		}
		d.step(q, QPRTS)
	}
}

func TestRouteFollowsAttributes(t *testing.T) {
	d := newObjDev(t)
	q := d.qp(d.pd(), QPRC)
	d.reach(q, QPRTS)
	r := q.route
	if r.Src != objGID4.Addr() || r.Dst != objPeer.Addr() || q.pkey != wire.DefaultPKey ||
		r.SrcPort != wire.UDPSourcePort(5, q.qpn, 0x4711) {
		t.Errorf("route %+v, pkey %x", r, q.pkey)
	}
	d.step(q, QPSQD)
	a := objAttr()
	a.AH.FlowLabel, a.AH.HopLimit = 0, 3
	d.must(q.Modify(&a, QPAttrAV))
	if q.route == r || q.route.HopLimit != 3 || q.route.SrcPort != wire.UDPSourcePort(0, q.qpn, 0x4711) {
		t.Errorf("route %+v", q.route)
	}
	d.step(q, QPReset)
	if q.route != nil || q.pkey != 0 {
		t.Error("RESET keeps the route")
	}
}

func TestCreateQP(t *testing.T) {
	d, other := newObjDev(t), newObjDev(t)
	pd, cq := d.pd(), d.cq(1)
	foreignSRQ, err := other.pd().CreateSRQ(SRQInit{MaxWR: 1})
	d.must(err)
	good := QPInitAttr{Type: QPUC, SendCQ: cq, RecvCQ: cq}
	for _, c := range []struct {
		arg  string
		kind error
		set  func(*QPInitAttr)
	}{
		{"qp_type", ErrNotSupported, func(a *QPInitAttr) { a.Type = 8 }},
		{"send_cq", ErrInvalid, func(a *QPInitAttr) { a.SendCQ = nil }},
		{"recv_cq", ErrInvalid, func(a *QPInitAttr) { a.RecvCQ = other.cq(1) }},
		{"srq", ErrInvalid, func(a *QPInitAttr) { a.SRQ = foreignSRQ }},
		{"cap.max_send_wr", ErrInvalid, func(a *QPInitAttr) { a.Cap.MaxSendWR = 1<<20 + 1 }},
		{"cap.max_recv_wr", ErrInvalid, func(a *QPInitAttr) { a.Cap.MaxRecvWR = 1<<20 + 1 }},
		{"cap.max_send_sge", ErrInvalid, func(a *QPInitAttr) { a.Cap.MaxSendSGE = 33 }},
		{"cap.max_recv_sge", ErrInvalid, func(a *QPInitAttr) { a.Cap.MaxRecvSGE = 33 }},
		{"cap.max_inline_data", ErrInvalid, func(a *QPInitAttr) { a.Cap.MaxInlineData = 513 }},
		{"recv_cq", ErrClosed, func(a *QPInitAttr) {
			a.RecvCQ = d.cq(1)
			d.must(a.RecvCQ.Destroy())
		}},
	} {
		a := good
		c.set(&a)
		_, err := pd.CreateQP(a)
		d.want(err, c.kind, c.arg)
	}
	if n := d.Objects(); n.QP != 0 || pd.children != 0 || cq.users != 0 {
		t.Errorf("left by refusals: %+v", n)
	}
	for _, c := range []struct{ asked, got QPCap }{
		{QPCap{}, QPCap{}},
		{QPCap{MaxSendSGE: 2}, QPCap{MaxSendSGE: 2, MaxInlineData: 32}},
		{QPCap{MaxSendSGE: 1, MaxInlineData: 33}, QPCap{MaxSendSGE: 3, MaxInlineData: 48}},
		{QPCap{MaxSendSGE: 32, MaxInlineData: 512}, QPCap{MaxSendSGE: 32, MaxInlineData: 512}},
	} {
		a := good
		a.Cap = c.asked
		q, err := pd.CreateQP(a)
		d.must(err)
		if _, init, _ := q.Query(); init.Cap != c.got || q.State() != QPReset || d.QP(q.Num()) != q {
			t.Errorf("asked for %+v, got %+v", c.asked, init.Cap)
		}
		d.must(q.Destroy())
		if d.QP(q.Num()) != nil {
			t.Error("a destroyed QP is found")
		}
	}
}

package verbsapi

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// xrcSide is a context of the receiving device, with an SRQ in the domain of a file.
type xrcSide struct {
	*end
	xrcd *XRCD
	srq  *SRQ
	num  uint32
	tgt  *QP
}

func newXRCSide(t *testing.T, c *Context, file *os.File) *xrcSide {
	t.Helper()
	s := &xrcSide{end: newEnd(t, c, endConfig{typ: QPRC, bufSize: 256, depth: 4})}
	s.xrcd = must(c.OpenXRCD(file))(t)
	s.srq = must(c.CreateSRQEx(SRQInitAttrEx{PD: s.pd, Type: SRQXRC, SRQAttr: SRQAttr{MaxWR: 4, MaxSGE: 1}, XRCD: s.xrcd, CQ: s.cq}))(t)
	s.num = must(s.srq.Num())(t)
	if _, err := s.srq.PostRecv([]RecvWR{{ID: 1, SGL: []SGE{s.mr.SGE(0, 64)}}, {ID: 2, SGL: []SGE{s.mr.SGE(64, 64)}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestXRC: two contexts of a device share a domain by its file, and a target. One initiator sends
// to both. The target lives as long as one of them.
func TestXRC(t *testing.T) {
	ctx := testContext(t)
	addr := testAddr()
	file := must(os.Create(filepath.Join(t.TempDir(), "domain")))(t)
	defer file.Close()
	first, second := newXRCSide(t, openTest(t, Config{Address: addr}), file), newXRCSide(t, openTest(t, Config{Address: addr}), file)
	var err error
	first.tgt = must(first.xrcd.CreateTarget())(t)
	a := newEnd(t, openTest(t, Config{}), endConfig{typ: QPRC, bufSize: 256, depth: 4})
	a.qp = must(a.pd.CreateQP(QPInitAttr{Type: QPXRCIni, SendCQ: a.cq, Cap: QPCap{MaxSendWR: 4, MaxSendSGE: 1}}))(t)
	ours, theirs := a.info(7), must(first.tgt.Info(9, 0))(t)
	if err := errors.Join(first.tgt.Connect(theirs, ours, ConnectAttr{}), a.qp.Connect(ours, theirs, ConnectAttr{})); err != nil {
		t.Fatal(err)
	}
	second.tgt = must(second.xrcd.OpenQP(first.tgt.Num()))(t)
	if second.tgt.Num() != first.tgt.Num() {
		t.Error("another target")
	}
	for i, side := range []*xrcSide{first, second} {
		copy(a.buf, []string{"to the first", "to the second"}[i])
		a.post(SendWR{ID: 5, Op: WRSend, XRCSRQN: side.num, SGL: []SGE{a.mr.SGE(0, 13)}})
		a.expect(ctx, 5, WCSuccess)
		if wc := side.expect(ctx, 1, WCSuccess); wc.QPN != first.tgt.Num() || string(side.buf[:13]) != string(a.buf[:13]) {
			t.Errorf("%+v, %q", wc, side.buf[:13])
		}
	}
	if err := first.xrcd.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("with an SRQ and a target: %v", err)
	}
	if err := errors.Join(first.tgt.Destroy(ctx), first.srq.Destroy(ctx), first.xrcd.Close()); err != nil {
		t.Fatal(err)
	}
	if err = first.tgt.Destroy(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("destroyed again: %v", err)
	}
	if err = first.xrcd.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
	x := a.qp.Ex()
	x.WRID, x.WRFlags = 6, SendSignaled
	x.WRStart()
	x.WRSendImm(8)
	x.WRSetXRCSRQN(second.num)
	x.WRSetInlineData(nil)
	if err = x.WRComplete(); err != nil {
		t.Fatal(err)
	}
	a.expect(ctx, 6, WCSuccess)
	if wc := second.expect(ctx, 2, WCSuccess); wc.Imm != 8 {
		t.Errorf("%+v", wc)
	}
	// A message to the SRQ that is gone is the target's error, and each that has it learns of it.
	again := must(second.xrcd.OpenQP(first.tgt.Num()))(t)
	a.post(SendWR{ID: 7, Op: WRSend, XRCSRQN: first.num})
	a.expect(ctx, 7, WCRemAccessErr)
	seen := map[*QP]int{}
	for seen[second.tgt] == 0 || seen[again] == 0 {
		ev := must(second.ctx.GetAsyncEvent(ctx))(t)
		if ev.Type == EventQPAccessErr {
			seen[ev.QP]++
		}
		ev.Ack()
	}
	if err = second.ctx.Close(); err != nil {
		t.Error(err)
	}
}

// TestXRCRefusals: what is not of the context, or of another type, is refused.
func TestXRCRefusals(t *testing.T) {
	c, other := openTest(t, Config{}), openTest(t, Config{})
	s, o := newXRCSide(t, c, nil), newXRCSide(t, other, nil)
	for name, attr := range map[string]SRQInitAttrEx{
		"no domain":            {PD: s.pd, CQ: s.cq},
		"no CQ":                {PD: s.pd, XRCD: s.xrcd},
		"another device":       {PD: s.pd, CQ: s.cq, XRCD: o.xrcd},
		"CQ of another device": {PD: s.pd, CQ: o.cq, XRCD: s.xrcd},
	} {
		attr.Type, attr.SRQAttr = SRQXRC, SRQAttr{MaxWR: 1}
		if _, err := c.CreateSRQEx(attr); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := must(s.pd.CreateSRQ(SRQAttr{MaxWR: 1}))(t).Num(); !errors.Is(err, ErrInvalid) {
		t.Errorf("the number of an ordinary SRQ: %v", err)
	}
	if _, err := s.xrcd.OpenQP(1); !errors.Is(err, ErrInvalid) {
		t.Errorf("no target: %v", err)
	}
	if _, err := s.pd.CreateQP(QPInitAttr{Type: QPXRCTgt, SendCQ: s.cq, RecvCQ: s.cq}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a target of a PD: %v", err)
	}
	closed := must(os.Create(filepath.Join(t.TempDir(), "domain")))(t)
	closed.Close()
	if _, err := c.OpenXRCD(closed); err == nil {
		t.Error("a domain of a closed file")
	}
	if must(c.QueryDevice())(t).Cap&CapXRC == 0 {
		t.Error("the device does not announce XRC")
	}
}

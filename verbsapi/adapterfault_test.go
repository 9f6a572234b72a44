package verbsapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	testmust "github.com/gorxe/gorxe/internal/test/must"
)

// adapterFailures are the rows of the table of docs/faults.md about adapters, but the last, which
// TestDeviceReturns of internal/test/e2e runs.
var adapterFailures = []struct {
	rule string
	meet func(ctx context.Context, a, b *end, rules []Fault)
}{
	{"port gid_moved,gid=1,scope=device", gidMoved},
	{"port down,scope=device", downAtDifferentTimes},
	{"port down,time=20ms,times=3,scope=device", flaps},
	{"limits set,max_uc=0", withoutUC},
	{"packet shape,rate=10mbit,queue=1000", slowRail},
	{"completion fail,status=IBV_WC_RETRY_EXC_ERR,qp=NUMBER,first=1", oneQueuePair},
}

// TestAdapterFailures: what breaks on adapters has the outcome that docs/faults.md names.
func TestAdapterFailures(t *testing.T) {
	text := string(must(os.ReadFile("../docs/faults.md"))(t))
	for _, c := range adapterFailures {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(text, " | `"+c.rule+"` | ") {
				t.Errorf("docs/faults.md has no outcome for %s", c.rule)
			}
			a, b := newPair(t, endConfig{}, ConnectAttr{Timeout: hasty})
			rule := strings.ReplaceAll(c.rule, "NUMBER", fmt.Sprint(uint32(a.qp.Num())))
			c.meet(testContext(t), a, b, faults(t, rule))
		})
	}
}

// write does a WRITE from a to b, and says how it completes.
func (e *end) write(ctx context.Context, to *end, want WCStatus) {
	e.t.Helper()
	fill(e.buf[:20000], byte(want)+1)
	e.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{e.mr.SGE(0, 20000)}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
	e.expect(ctx, 1, want)
	if want == WCSuccess && !bytes.Equal(e.buf[:20000], to.buf[:20000]) {
		e.t.Error("the bytes that arrived are others")
	}
}

// again takes the queue pairs of both ends through RESET, and connects them.
func again(a, b *end, timeout uint8) {
	for _, e := range []*end{a, b} {
		for _, s := range []QPState{QPErr, QPReset} {
			if err := e.qp.Modify(&QPAttr{State: s}, QPAttrState); err != nil {
				e.t.Fatalf("to %v: %v", s, err)
			}
		}
	}
	ia, ib := a.info(5), b.info(6)
	for _, err := range []error{a.qp.Connect(ia, ib, ConnectAttr{Timeout: timeout}), b.qp.Connect(ib, ia, ConnectAttr{Timeout: timeout})} {
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// gidMoved: connected queue pairs keep the address. Another one that goes by the old index cannot
// be connected, as after a port flap where addresses came back in another order.
func gidMoved(ctx context.Context, a, b *end, rules []Fault) {
	t, c := a.t, a.ctx
	gid := must(c.QueryGID(1, 1))(t)
	id := must(c.AddFaults(rules...))(t)
	wantEvents(t.(*testing.T), portEvents(ctx, t.(*testing.T), c, 1), EventGIDChange)
	old, moved := must(c.QueryGID(1, 1))(t), must(c.QueryGID(1, 2))(t)
	if !old.IsZero() || moved != gid {
		t.Errorf("GID 1 is %v and GID 2 is %v; GID 1 was %v", old, moved, gid)
	}
	a.write(ctx, b, WCSuccess)
	x := newEnd(t, c, endConfig{typ: QPRC, bufSize: 8, depth: 1})
	if err := x.qp.Connect(x.info(1), b.info(2), ConnectAttr{SGIDIndex: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("to RTR with the old index: %v", err)
	}
	y := newEnd(t, c, endConfig{typ: QPRC, bufSize: 8, depth: 1})
	if err := y.qp.Connect(y.info(1), b.info(2), ConnectAttr{SGIDIndex: 2}); err != nil {
		t.Errorf("to RTR with the new index: %v", err)
	}
	must(c.RemoveFaults(id))(t)
	if back := must(c.QueryGID(1, 1))(t); back != gid {
		t.Errorf("GID 1 is %v afterwards", back)
	}
}

// downAtDifferentTimes: the first end to come back does not reach the other one, which comes back
// later. Their queue pairs fail, and work after both have been connected again.
func downAtDifferentTimes(ctx context.Context, a, b *end, rules []Fault) {
	const short = 1
	here, there := must(a.ctx.AddFaults(rules...))(a.t), must(b.ctx.AddFaults(rules...))(b.t)
	again(a, b, short)
	a.write(ctx, b, WCRetryExcErr)
	must(a.ctx.RemoveFaults(here))(a.t)
	again(a, b, short)
	a.write(ctx, b, WCRetryExcErr)
	must(b.ctx.RemoveFaults(there))(b.t)
	again(a, b, hasty)
	a.write(ctx, b, WCSuccess)
}

// flaps: each has its events, and requests that are lost in them are sent again.
func flaps(ctx context.Context, a, b *end, rules []Fault) {
	again(a, b, patient)
	must(a.ctx.AddFaults(rules...))(a.t)
	wantEvents(a.t.(*testing.T), portEvents(ctx, a.t.(*testing.T), a.ctx, 6),
		EventPortErr, EventPortActive, EventPortErr, EventPortActive, EventPortErr, EventPortActive)
	a.write(ctx, b, WCSuccess)
}

// withoutUC: the device makes queue pairs of all types but one.
func withoutUC(ctx context.Context, a, b *end, rules []Fault) {
	c := openTest(a.t, Config{Faults: rules})
	x, y := pair(a.t, c, b.ctx, endConfig{}, ConnectAttr{Timeout: hasty})
	init := QPInitAttr{Type: QPUC, SendCQ: x.cq, RecvCQ: x.cq}
	if _, err := x.pd.CreateQP(init); !errors.Is(err, ErrNotSupported) {
		a.t.Errorf("a queue pair of UC: %v", err)
	}
	init.Type = QPUD
	must(x.pd.CreateQP(init))(a.t)
	x.write(ctx, y, WCSuccess)
}

// slowRail: the rule of one device leaves another one as it is.
func slowRail(ctx context.Context, a, b *end, rules []Fault) {
	must(a.ctx.AddFaults(rules...))(a.t)
	again(a, b, patient)
	x, y := newPair(a.t, endConfig{}, ConnectAttr{Timeout: patient})
	a.post(SendWR{ID: 9, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 20000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	x.write(ctx, y, WCSuccess)
	a.expect(ctx, 9, WCSuccess)
	if s := a.ctx.Faults()[0]; s.Fired == 0 {
		a.t.Errorf("%+v", s)
	}
}

// oneQueuePair: it is in ERR, and another one of the device works.
func oneQueuePair(ctx context.Context, a, b *end, rules []Fault) {
	must(a.ctx.AddFaults(rules...))(a.t)
	x, y := pair(a.t, a.ctx, b.ctx, endConfig{}, ConnectAttr{Timeout: hasty})
	x.write(ctx, y, WCSuccess)
	a.write(ctx, b, WCRetryExcErr)
	testmust.Eventually(a.t, "the queue pair is in ERR", func() bool {
		attr, _, err := a.qp.Query()
		return err == nil && attr.State == QPErr
	})
	x.write(ctx, y, WCSuccess)
}

package verbsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// errorEvents returns the next n events of a context that tell of an error or a limit.
func errorEvents(ctx context.Context, t *testing.T, c *Context, n int) (list []*AsyncEvent) {
	t.Helper()
	for len(list) < n {
		ev := must(c.GetAsyncEvent(ctx))(t)
		ev.Ack()
		if ev.Type != EventCommEst {
			list = append(list, ev)
		}
	}
	return list
}

func wantTypes(t *testing.T, events []*AsyncEvent, want ...EventType) {
	t.Helper()
	if got := slices.Collect(func(yield func(EventType) bool) {
		for _, ev := range events {
			if !yield(ev.Type) {
				return
			}
		}
	}); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func deviceRule(event, more string) string {
	return fmt.Sprintf("device fail,event=IBV_EVENT_%s%s", event, more)
}

// TestDeviceFaultQP: a queue pair fails and raises an event. The peer of one that fails as
// responder gets the NAK that belongs to the event.
func TestDeviceFaultQP(t *testing.T) {
	for _, c := range []struct {
		event string
		want  EventType
		peer  WCStatus
	}{
		{"QP_FATAL", EventQPFatal, WCRemOpErr},
		{"QP_REQ_ERR", EventQPReqErr, WCRemInvReqErr},
		{"QP_ACCESS_ERR", EventQPAccessErr, WCRemAccessErr},
	} {
		t.Run(c.event+"/SEND", func(t *testing.T) {
			x := openTest(t, Config{})
			a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
			must(x.AddFaults(faults(t, deviceRule(c.event, ",opcode=SEND,after=1,first=1"))...))(t)
			ctx := testContext(t)
			b.recv(7, 0, 100)
			for id := range uint64(3) {
				a.post(SendWR{ID: id, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}})
			}
			a.expect(ctx, 0, WCSuccess)
			a.expect(ctx, 1, WCFlushErr)
			a.expect(ctx, 2, WCFlushErr)
			events := errorEvents(ctx, t, x, 1)
			if wantTypes(t, events, c.want); events[0].QP != a.qp || a.qp.State() != QPErr {
				t.Errorf("%+v, and the queue pair is in %v", events[0], a.qp.State())
			}
		})
		t.Run(c.event+"/RECV", func(t *testing.T) {
			x, y := openTest(t, Config{}), openTest(t, Config{})
			a, b := pair(t, x, y, endConfig{}, ConnectAttr{})
			must(y.AddFaults(faults(t, deviceRule(c.event, ",opcode=RECV"))...))(t)
			ctx := testContext(t)
			b.recv(7, 0, 100)
			a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}})
			a.expect(ctx, 1, c.peer)
			b.expect(ctx, 7, WCFlushErr)
			wantTypes(t, errorEvents(ctx, t, y, 1), c.want)
		})
	}
}

// TestDeviceFaultCQ: a completion queue fails, and each queue pair that uses it, with its next
// completion.
func TestDeviceFaultCQ(t *testing.T) {
	x := openTest(t, Config{})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
	c, d := pair(t, x, x, endConfig{cq: a.cq}, ConnectAttr{})
	must(x.AddFaults(faults(t, deviceRule("CQ_ERR", fmt.Sprintf(",qp=%d,first=1", a.qp.Num())))...))(t)
	ctx := testContext(t)
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	events := errorEvents(ctx, t, x, 2)
	if wantTypes(t, events, EventCQErr, EventQPFatal); events[0].CQ != a.cq || events[1].QP != a.qp {
		t.Errorf("%+v, %+v", events[0], events[1])
	}
	if n, err := a.cq.Poll(make([]WC, 1)); n != 0 || err == nil {
		t.Errorf("Poll of a queue in error: %d, %v", n, err)
	}
	if state := c.qp.State(); state != QPRTS {
		t.Errorf("the other queue pair is in %v before it completes anything", state)
	}
	c.post(SendWR{ID: 2, Op: WRWrite, SGL: []SGE{c.mr.SGE(0, 100)}, RemoteAddr: d.mr.Addr(), RKey: d.mr.RKey()})
	events = errorEvents(ctx, t, x, 1)
	if wantTypes(t, events, EventQPFatal); events[0].QP != c.qp {
		t.Errorf("%+v", events[0])
	}
	for _, e := range []*end{a, c} {
		if state := e.qp.State(); state != QPErr {
			t.Errorf("the queue pair is in %v", state)
		}
	}
}

// TestDeviceFaultSRQ: a shared receive queue fails, and each queue pair that takes from it, with
// its next message.
func TestDeviceFaultSRQ(t *testing.T) {
	x, y := openTest(t, Config{}), openTest(t, Config{})
	srq := must(must(y.AllocPD())(t).CreateSRQ(SRQAttr{MaxWR: 8, MaxSGE: 1}))(t)
	a, b := pair(t, x, y, endConfig{srq: srq}, ConnectAttr{Timeout: 1})
	c, d := pair(t, x, y, endConfig{srq: srq}, ConnectAttr{Timeout: 1})
	must(y.AddFaults(faults(t, deviceRule("SRQ_ERR", ",first=1"))...))(t)
	ctx := testContext(t)
	must(srq.PostRecv([]RecvWR{{ID: 1}, {ID: 2}}))(t)
	a.post(SendWR{ID: 3, Op: WRSend})
	events := errorEvents(ctx, t, y, 3)
	if wantTypes(t, events, EventSRQErr, EventQPFatal, EventQPLastWQEReached); events[0].SRQ != srq || events[1].QP != b.qp {
		t.Errorf("%+v, %+v", events[0], events[1])
	}
	b.expect(ctx, 1, WCFlushErr)
	a.expect(ctx, 3, WCRetryExcErr) // there is no NAK
	if _, err := srq.PostRecv([]RecvWR{{ID: 4}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("PostRecv to a queue in error: %v", err)
	}
	c.post(SendWR{ID: 5, Op: WRSend})
	events = errorEvents(ctx, t, y, 2)
	if wantTypes(t, events, EventQPFatal, EventQPLastWQEReached); events[0].QP != d.qp {
		t.Errorf("%+v", events[0])
	}
}

// TestDeviceFaultSRQLimit: a shared receive queue raises the limit event, which is then disarmed.
func TestDeviceFaultSRQLimit(t *testing.T) {
	x, y := openTest(t, Config{}), openTest(t, Config{})
	srq := must(must(y.AllocPD())(t).CreateSRQ(SRQAttr{MaxWR: 8, MaxSGE: 1}))(t)
	a, b := pair(t, x, y, endConfig{srq: srq}, ConnectAttr{})
	if err := srq.Modify(SRQAttr{Limit: 1}, SRQAttrLimit); err != nil {
		t.Fatal(err)
	}
	must(y.AddFaults(faults(t, deviceRule("SRQ_LIMIT_REACHED", ",first=1"))...))(t)
	ctx := testContext(t)
	must(srq.PostRecv([]RecvWR{{ID: 1}, {ID: 2}, {ID: 3}}))(t)
	a.post(SendWR{ID: 3, Op: WRSend})
	a.expect(ctx, 3, WCSuccess)
	b.expect(ctx, 1, WCSuccess)
	wantTypes(t, errorEvents(ctx, t, y, 1), EventSRQLimitReached)
	if attr := must(srq.Query())(t); attr.Limit != 0 {
		t.Errorf("the limit is %d", attr.Limit)
	}
}

// TestDeviceFaultFatal: the device fails for one context: all its queue pairs do. Another context
// on the same device hears nothing.
func TestDeviceFaultFatal(t *testing.T) {
	addr := testAddr()
	x, y := openTest(t, Config{Address: addr}), openTest(t, Config{Address: addr})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
	c, d := pair(t, y, y, endConfig{}, ConnectAttr{})
	must(x.AddFaults(faults(t, deviceRule("DEVICE_FATAL", ",first=1"))...))(t)
	ctx := testContext(t)
	b.recv(7, 0, 100)
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.expect(ctx, 1, WCFlushErr)
	b.expect(ctx, 7, WCFlushErr)
	found := false
	for !found {
		found = errorEvents(ctx, t, x, 1)[0].Type == EventDeviceFatal
	}
	c.post(SendWR{ID: 2, Op: WRWrite, SGL: []SGE{c.mr.SGE(0, 100)}, RemoteAddr: d.mr.Addr(), RKey: d.mr.RKey()})
	c.expect(ctx, 2, WCSuccess)
}

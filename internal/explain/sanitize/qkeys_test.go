package sanitize

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestQKey: which datagrams that are dropped for their Q_Key are mistakes.
func TestQKey(t *testing.T) {
	const mine, right, wrong = 0x33, 0x11, 0x22 // mine is that of the sender
	const number = 2                            // of the receiver
	for name, c := range map[string]struct {
		do   func(set func(q int, qkey uint32), post func(remote uint32), dropped func(qkey, own uint32))
		want []string // parts of the finding; nil: none
	}{
		"wrong": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(wrong)
			dropped(wrong, right)
		}, []string{"a SEND (wr_id 0x9) of queue pair 0x0 ", "Q_Key 0x22 (remote_qkey), and queue pair 0x2 has 0x11"}},
		"its own": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(privileged | right)
			dropped(mine, right)
		}, []string{"Q_Key 0x33 (the sender's own, as the highest bit of remote_qkey 0x80000011 is set), and queue pair 0x2 has 0x11"}},
		"its own, which fits": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			set(0, right)
			post(privileged)
		}, nil},
		"of a stranger": {func(_ func(int, uint32), _ func(uint32), dropped func(qkey, own uint32)) {
			dropped(wrong, right)
		}, nil},
		"damaged": {func(_ func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(right)
			dropped(wrong, right)
		}, nil},
		"wrong and damaged": {func(_ func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(wrong)
			dropped(wrong+1, right)
		}, nil},
		"late": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(right)
			set(number, wrong)
			dropped(right, wrong)
		}, nil},
		"with the Q_Key from before a change": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			set(number, wrong)
			post(right)
			dropped(right, wrong)
		}, nil},
		"too early": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(wrong)
			set(number, wrong)
			dropped(wrong, right)
		}, nil},
		"while the Q_Key changes": {func(_ func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(wrong)
			dropped(wrong, right+1)
		}, nil},
		"to one that was there before": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			post(wrong)
			set(-number, 0)
			dropped(wrong, right)
		}, nil},
		"the same Q_Key again": {func(set func(int, uint32), post func(uint32), dropped func(qkey, own uint32)) {
			set(number, right)
			post(wrong)
			dropped(wrong, right)
		}, []string{"0x22"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Default)
			qps := map[int]*rxe.QP{0: r.qp, number: new(rxe.QP)}
			r.Made("to", Made{Kind: kindQP, Number: number, QP: &QP{QP: qps[number], Depth: depth}}, at(5))
			set := func(q int, qkey uint32) {
				if q < 0 {
					r.Modified(qps[-q], &rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState, at(7))
					return
				}
				r.Modified(qps[q], &rxe.QPAttr{QKey: qkey}, rxe.QPAttrQKey, at(6))
			}
			set(0, mine)
			set(number, right)
			c.do(set, func(remote uint32) {
				r.Posting(r.qp, at(8))
				r.Posted(r.qp, rxe.SendWR{ID: 9, Op: rxe.WRSend, Flags: rxe.SendSignaled, RemoteQPN: number, RemoteQKey: remote})
			}, func(qkey, own uint32) {
				for range 2 {
					r.Failed(qps[number], &rxe.Failure{Cause: rxe.CauseQKey, PSN: 5, QKey: qkey, OwnQKey: own})
				}
			})
			found := r.s.Report().Findings
			if len(c.want) == 0 {
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Check != qkeyMismatch || found[0].Places[0].Stack.PC != 8 || *found[0].PSN != 5 {
				t.Fatalf("found %+v", found)
			}
			for _, part := range c.want {
				if !strings.Contains(found[0].What, part) {
					t.Errorf("%q lacks %q", found[0].What, part)
				}
			}
			if where := found[0].Places; !slices.ContainsFunc(where, func(p Place) bool { return p.What == "the receiver got its Q_Key" && p.Stack.PC == 6 }) {
				t.Errorf("places %+v", where)
			}
		})
	}
}

// TestManyStrays: a session keeps a bounded number of datagrams with a wrong Q_Key, the last ones.
func TestManyStrays(t *testing.T) {
	r := newRig(t, Default)
	r.Modified(r.qp, &rxe.QPAttr{QKey: 1}, rxe.QPAttrQKey, at(5))
	for i := range 4 * maxStrays {
		for range 2 {
			r.Posted(r.qp, rxe.SendWR{Op: rxe.WRSend, RemoteQKey: uint32(i + 2)})
			r.complete(false)
		}
	}
	r.Posted(r.qp, rxe.SendWR{Op: rxe.WRSend, RemoteQPN: wire.MulticastQPN, RemoteQKey: 7})
	if n := len(r.s.stray); n != maxStrays || r.s.stray[n-1].qkey != 4*maxStrays+1 {
		t.Errorf("%d are kept: %+v", n, r.s.stray)
	}
	if r.Ended("qp", at(6)); len(r.s.stray) > 0 {
		t.Errorf("%d are kept of a receiver that has ended", len(r.s.stray))
	}
}

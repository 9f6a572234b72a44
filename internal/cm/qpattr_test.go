package cm

import (
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The masks of struct ib_uverbs_qp_attr that Linux fills in for RC.
const (
	maskInit = 0x39
	maskRTR  = 0x129181
	maskRTS  = 0x12e01
)

func TestQPAttr(t *testing.T) {
	attr := func(r *peerRig, target rxe.QPState, mask rxe.QPAttrMask) rxe.QPAttr {
		t.Helper()
		a, m, err := r.c.QPAttr(target)
		if err != nil || m != mask || a.State != target {
			t.Fatalf("state %v, target %d: mask %#x, want %#x; %+v, %v", r.c.State(), target, uint32(m), uint32(mask), a, err)
		}
		return a
	}
	const access = rxe.AccessRemoteWrite | rxe.AccessRemoteRead | rxe.AccessRemoteAtomic | rxe.AccessFlushGlobal | rxe.AccessFlushPersist

	// The passive side has its PSN before it answers, and announces that one.
	r := newPeerRig(t)
	r.passive()
	if a := attr(r, rxe.QPInit, maskInit); a.Access != access || a.PortNum != 1 || a.PKeyIndex != 0 {
		t.Errorf("INIT: %+v", a)
	}
	rtr := attr(r, rxe.QPRTR, maskRTR)
	want := rxe.QPAttr{
		State: rxe.QPRTR, PathMTU: 1024, DestQPN: clientQPN, RQPSN: rtr.RQPSN, MaxDestRdAtomic: 6,
		AH: rxe.AHAttr{DGID: r.other.gid, HopLimit: 64, TrafficClass: 8, FlowLabel: 9, PortNum: 1},
	}
	if rtr != want {
		t.Errorf("RTR: %+v, want %+v", rtr, want)
	}
	want = rxe.QPAttr{State: rxe.QPRTS, SQPSN: 0x123456, RetryCnt: 4, RNRRetry: 3, MaxRdAtomic: 5, Timeout: 17}
	if a := attr(r, rxe.QPRTS, maskRTS); a != want {
		t.Errorf("RTS: %+v, want %+v", a, want)
	}
	// What Accept says replaces what the REQ asked for.
	r.noError(r.c.Accept(r.now, &AcceptParams{QPN: serverQPN, ResponderResources: 2, InitiatorDepth: 1}))
	rep := wire.CMREP{}
	if msg, ok := r.messages()[0].(wire.CMREP); ok {
		rep = msg
	}
	if rep.StartingPSN() != rtr.RQPSN {
		t.Errorf("the REP announces PSN %#x, the queue pair expects %#x", rep.StartingPSN(), rtr.RQPSN)
	}
	if a, b := attr(r, rxe.QPRTR, maskRTR), attr(r, rxe.QPRTS, maskRTS); a.MaxDestRdAtomic != 2 || b.MaxRdAtomic != 1 {
		t.Errorf("depths %d and %d", a.MaxDestRdAtomic, b.MaxRdAtomic)
	}

	// The active side knows its peer from the REP on. Its retry count is its own; the
	// RNR retry count is the peer's.
	r = newPeerRig(t)
	r.reach(StateREQSent, func() {})
	attr(r, rxe.QPInit, maskInit)
	rqPSN := r.c.qp.rqPSN
	r.from(r.rep())
	want = rxe.QPAttr{
		State: rxe.QPRTR, PathMTU: 1024, DestQPN: serverQPN, RQPSN: rqPSN, MaxDestRdAtomic: 8,
		AH: rxe.AHAttr{DGID: r.other.gid, HopLimit: 64, PortNum: 1},
	}
	if a := attr(r, rxe.QPRTR, maskRTR); a != want {
		t.Errorf("RTR: %+v, want %+v", a, want)
	}
	want = rxe.QPAttr{State: rxe.QPRTS, SQPSN: 0x654321, RetryCnt: 7, RNRRetry: 2, MaxRdAtomic: 7, Timeout: 17}
	if a := attr(r, rxe.QPRTS, maskRTS); a != want {
		t.Errorf("RTS: %+v, want %+v", a, want)
	}

	// Without READs, the peer has no right to READ; UC has no READs and no retries.
	r = newPeerRig(t)
	m := r.req()
	wire.CMREQ{MAD: m}.SetInitiatorDepth(0)
	wire.CMREQ{MAD: m}.SetTransportType(1)
	r.from(m)
	r.c = r.taken[0]
	if a := attr(r, rxe.QPInit, maskInit); a.Access != rxe.AccessRemoteWrite {
		t.Errorf("INIT: access %#x", a.Access)
	}
	attr(r, rxe.QPRTR, rxe.QPAttrState|rxe.QPAttrAV|rxe.QPAttrPathMTU|rxe.QPAttrDestQPN|rxe.QPAttrRQPSN)
	attr(r, rxe.QPRTS, rxe.QPAttrState|rxe.QPAttrSQPSN)
}

// TestQPAttrStates: which attributes a state has.
func TestQPAttrStates(t *testing.T) {
	for _, s := range allStates() {
		r := newPeerRig(t)
		r.reach(s, func() {
			init, more := false, false
			switch s {
			case StateREQSent, StateMRAREQRcvd:
				init = true
			case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent, StateEstablished:
				init, more = true, true
			default:
			}
			for target, want := range map[rxe.QPState]bool{
				rxe.QPReset: false, rxe.QPInit: init, rxe.QPRTR: more, rxe.QPRTS: more, rxe.QPErr: false,
			} {
				if _, mask, err := r.c.QPAttr(target); (err == nil) != want || (mask != 0) != want || !want && err != ErrState {
					t.Errorf("state %v, target %d: mask %#x, %v", s, target, uint32(mask), err)
				}
			}
		})
	}
}

// TestACKTimeout: the sum of twice the packet lifetime and the delay, in exponents, and
// what the active side makes of the REP.
func TestACKTimeout(t *testing.T) {
	for _, c := range []struct{ delay, lifetime, want uint8 }{
		{15, 16, 17}, {15, 18, 19}, {16, 16, 18}, {17, 16, 18}, {18, 16, 19}, {19, 16, 19}, {0, 0, 2}, {0, 1, 2}, {0, 2, 3}, {31, 31, 31}, {31, 0, 31},
	} {
		if got := ackTimeout(c.delay, c.lifetime); got != c.want {
			t.Errorf("delay %d, lifetime %d: %d, want %d", c.delay, c.lifetime, got, c.want)
		}
	}
	r := newPeerRig(t)
	r.reach(StateREQSent, func() {})
	m := r.rep()
	rep, err := wire.ParseCM(m[:])
	r.noError(err)
	rep.(wire.CMREP).SetTargetACKDelay(18)
	r.from(m)
	if a, _, _ := r.c.QPAttr(rxe.QPRTS); a.Timeout != 19 {
		t.Errorf("timeout %d after a REP with delay 18", a.Timeout)
	}
}

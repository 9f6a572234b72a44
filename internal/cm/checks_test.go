package cm

import (
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestREPOfKnownPeer: a REP with the ID or the queue pair of another connection does
// not establish this one.
func TestREPOfKnownPeer(t *testing.T) {
	for _, stale := range []bool{false, true} {
		r := newPeerRig(t)
		r.reach(StateMRAREPSent, func() {})
		old := r.c
		r.noError(old.Ready(r.now))
		r.reach(StateREQSent, func() {})
		m := r.rep()
		rep := parsed(t, m).(wire.CMREP)
		want := ""
		if stale {
			rep.SetCommIDs(peerID+1, r.c.commID)
			want = "REJ(REP, 10, id true), DREQ"
		} else {
			rep.SetQPN(serverQPN + 1)
		}
		r.from(m)
		if got := r.outcome(StateREQSent); got != want || stale != (old.State() == StateDREQSent) {
			t.Errorf("stale %v: %q, want %q; the old connection is in state %v", stale, got, want, old.State())
		}
		consistent(t, r.m)
	}
}

// TestMethod: a message whose method is not Send is dropped.
func TestMethod(t *testing.T) {
	r := newPeerRig(t)
	m := r.req()
	m[3] = byte(wire.MADGet)
	r.from(m)
	if r.m.Counters().Ignored != 1 || len(r.taken) != 0 {
		t.Errorf("counters %+v", r.m.Counters())
	}
}

// TestDREQOfOtherQP: a DREQ that names another queue pair ends nothing.
func TestDREQOfOtherQP(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateEstablished, func() {})
	m := r.dreq()
	parsed(t, m).(wire.CMDREQ).SetRemoteQPN(serverQPN + 1)
	r.from(m)
	if got := r.outcome(StateEstablished); got != "" || r.m.Counters().Unexpected != 1 {
		t.Errorf("%q", got)
	}
}

// TestDREQInTimewait: the DREP has the transaction identifier of the DREQ that it
// answers, which may be another one than that of the first.
func TestDREQInTimewait(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateTimewait, func() {})
	m := r.dreq()
	setTID(m, 0x4711)
	r.from(m)
	if tid := r.take(wire.AttrDREP).TID(); tid != 0x4711 {
		t.Errorf("transaction identifier %#x", tid)
	}
}

// TestShortTimeoutREJ: a REJ after a timeout needs a whole GUID.
func TestShortTimeoutREJ(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateMRAREQSent, func() {})
	m := r.takeBack()
	rej := parsed(t, m).(wire.CMREJ)
	rej.SetInfo(rej.Info()[:7])
	r.from(m)
	if got := r.outcome(StateMRAREQSent); got != "" {
		t.Errorf("%q", got)
	}
}

// TestPassivePath: answers leave by the GID that the request came to.
func TestPassivePath(t *testing.T) {
	r := newPeerRig(t)
	from := rxe.AHAttr{DGID: r.other.gid, SGIDIndex: 3, HopLimit: 63, TrafficClass: 4, PortNum: 1}
	m := r.req()
	req := wire.CMREQ{MAD: m}
	path := req.PrimaryPath()
	path.LocalACKTimeout = 0
	req.SetPrimaryPath(&path)
	r.m.Receive(r.now, from, m)
	c := r.taken[0]
	want := rxe.AHAttr{DGID: r.other.gid, SGIDIndex: 3, HopLimit: 64, TrafficClass: 8, FlowLabel: 9, PortNum: 1}
	if c.Path() != want {
		t.Errorf("path %+v", c.Path())
	}
	// Linux makes 1 of the timeout 0, which would be for ever.
	if a, _, err := c.QPAttr(rxe.QPRTS); a.Timeout != 1 || err != nil {
		t.Errorf("timeout %d, %v", a.Timeout, err)
	}
	r.m.Receive(r.now, from, r.sidrREQ())
	if c := r.taken[1]; c.Path() != from {
		t.Errorf("path %+v", c.Path())
	}
}

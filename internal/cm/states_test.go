package cm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// allStates are all states, in order.
func allStates() (all []State) {
	for s := StateIdle; s <= StateDestroyed; s++ {
		all = append(all, s)
	}
	return all
}

// outcome says what a message or a call did: what was sent, what the handler heard and,
// if it changed, the state.
func (r *peerRig) outcome(before State) string {
	var parts []string
	for _, msg := range r.messages() {
		s := msg.CMAttribute().String()
		if rej, ok := msg.(wire.CMREJ); ok {
			s += fmt.Sprintf("(%v, %d, id %v)", rej.MessageRejected(), uint16(rej.Reason()), rej.LocalCommID() != 0)
		}
		if mra, ok := msg.(wire.CMMRA); ok {
			s += fmt.Sprintf("(%v)", mra.MessageMRAed())
		}
		if rep, ok := msg.(wire.CMSIDRREP); ok {
			s += fmt.Sprintf("(%d)", uint8(rep.Status()))
		}
		parts = append(parts, s)
	}
	for i := range r.events {
		s := r.events[i].Kind.String()
		if r.events[i].Status != 0 {
			s += fmt.Sprintf("(%d)", r.events[i].Status)
		}
		parts = append(parts, "event "+s)
	}
	if now := r.c.State(); now != before {
		parts = append(parts, "-> "+now.String())
	}
	return strings.Join(parts, ", ")
}

// matrix runs an action in every state, and compares its outcome with want. A state
// that want does not have must not react at all.
func matrix(t *testing.T, want map[State]string, action func(r *peerRig)) {
	t.Helper()
	for _, s := range allStates() {
		r := newPeerRig(t)
		r.reach(s, func() {
			action(r)
			if got := r.outcome(s); got != want[s] {
				t.Errorf("in state %q:\n\tgot  %q\n\twant %q", s, got, want[s])
			}
		})
	}
}

// TestMessages: every message of the peer in every state.
func TestMessages(t *testing.T) {
	const (
		rejected       = "event rejected, -> idle"
		rejectedToWait = "event rejected, -> timewait"
		disconnect     = "event disconnect, -> DREQ received"
	)
	for _, c := range []struct {
		name string
		mad  func(r *peerRig) *wire.MAD
		want map[State]string
	}{
		{"REP", (*peerRig).rep, map[State]string{
			StateREQSent:     "event reply, -> MRA of REP sent",
			StateMRAREQRcvd:  "event reply, -> MRA of REP sent",
			StateMRAREPSent:  "MRA(REP)",
			StateEstablished: "RTU",
		}},
		{"RTU", (*peerRig).rtu, map[State]string{
			StateREPSent:    "event ready, -> established",
			StateMRAREPRcvd: "event ready, -> established",
		}},
		{"MRA of a REQ", func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectREQ) }, map[State]string{
			StateREQSent: "-> MRA of REQ received",
		}},
		{"MRA of a REP", func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectREP) }, map[State]string{
			StateREPSent: "-> MRA of REP received",
		}},
		{"MRA of a LAP", func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectOther) }, nil},
		{"REJ of a REQ", func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectREQ, wire.RejectConsumer) }, map[State]string{
			StateREQSent: rejected, StateMRAREQRcvd: rejected,
		}},
		{"REJ of a REQ as stale", func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectREQ, wire.RejectStale) }, map[State]string{
			StateREQSent: rejectedToWait, StateMRAREQRcvd: rejectedToWait,
		}},
		{"REJ of a REP", func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectREP, wire.RejectConsumer) }, map[State]string{
			StateREQRcvd: rejected, StateMRAREQSent: rejected, StateREPSent: rejected, StateMRAREPRcvd: rejected,
			StateREPRcvd: rejectedToWait, StateMRAREPSent: rejectedToWait, StateEstablished: rejectedToWait, StateDREQSent: rejectedToWait,
		}},
		{"REJ of a REP as stale", func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectREP, wire.RejectStale) }, map[State]string{
			StateREQRcvd: rejectedToWait, StateMRAREQSent: rejectedToWait, StateREPSent: rejectedToWait, StateMRAREPRcvd: rejectedToWait,
			StateREPRcvd: rejectedToWait, StateMRAREPSent: rejectedToWait, StateEstablished: rejectedToWait, StateDREQSent: rejectedToWait,
		}},
		{"REJ after a timeout", (*peerRig).takeBack, map[State]string{
			StateREQRcvd: rejected, StateMRAREQSent: rejected, StateREPSent: rejected, StateMRAREPRcvd: rejected,
			StateREPRcvd: rejectedToWait, StateMRAREPSent: rejectedToWait, StateEstablished: rejectedToWait, StateDREQSent: rejectedToWait,
		}},
		{"DREQ", (*peerRig).dreq, map[State]string{
			StateREPSent: disconnect, StateMRAREPRcvd: disconnect, StateEstablished: disconnect, StateDREQSent: disconnect,
			StateTimewait: "DREP", StateIdle: "DREP", StateDestroyed: "DREP",
			// The peer's ID is not known, so that the DREQ is for no connection.
			StateREQSent: "DREP", StateMRAREQRcvd: "DREP", StateSIDRREQSent: "DREP",
		}},
		{"DREP", (*peerRig).drep, map[State]string{
			StateDREQSent: "event disconnected, -> timewait", StateDREQRcvd: "event disconnected, -> timewait",
		}},
		{"SIDR_REP", (*peerRig).sidrREP, map[State]string{StateSIDRREQSent: "event lookup reply, -> idle"}},
		{"LAP", (*peerRig).lap, nil},
		{"APR", (*peerRig).apr, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			matrix(t, c.want, func(r *peerRig) { r.from(c.mad(r)) })
		})
	}
}

// TestREQInEveryState: the same REQ again, and another one for the same queue pair. In
// timewait and later, both are new. The states of the active side have a REP's queue
// pair and ID.
func TestREQInEveryState(t *testing.T) {
	outcome := func(r *peerRig) (string, int) {
		taken := len(r.taken)
		return r.outcome(r.c.State()), taken
	}
	for _, s := range allStates() {
		if s == StateSIDRREQRcvd || s == StateSIDRREQSent {
			continue
		}
		qpn, id := clientQPN, uint32(peerID)
		known := false
		switch s {
		case StateREPRcvd, StateMRAREPSent:
			qpn, known = serverQPN, true
		case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateEstablished, StateDREQSent, StateDREQRcvd:
			known = true
		default:
		}
		r := newPeerRig(t)
		r.reach(s, func() {
			taken := len(r.taken)
			m := r.req()
			wire.CMREQ{MAD: m}.SetQPN(qpn)
			r.from(m)
			want := ""
			if s == StateMRAREQSent {
				want = "MRA(REQ)"
			}
			if got, now := outcome(r); got != want || (now == taken) != known {
				t.Errorf("duplicate in state %v: %q, want %q; %d requests were new", s, got, want, now-taken)
			}
			if known != (r.m.Counters().RxDuplicates.Of(wire.AttrREQ) == 1) {
				t.Errorf("duplicate in state %v: counters %+v", s, r.m.Counters())
			}
		})
		r = newPeerRig(t)
		r.reach(s, func() {
			taken := len(r.taken)
			m := r.req()
			wire.CMREQ{MAD: m}.SetQPN(qpn)
			wire.CMREQ{MAD: m}.SetLocalCommID(id + 1)
			r.from(m)
			want := ""
			if known {
				want = "REJ(REQ, 10, id false)"
			}
			if s == StateEstablished {
				want += ", DREQ"
			}
			if got, now := outcome(r); got != want || (now == taken) != known {
				t.Errorf("stale in state %v: %q, want %q; %d requests were new", s, got, want, now-taken)
			}
			if stale := r.m.Counters().Stale == 1; stale != known {
				t.Errorf("stale in state %v: counters %+v", s, r.m.Counters())
			}
		})
	}
}

// TestDestroy: what Destroy sends in every state, and that nothing is left.
func TestDestroy(t *testing.T) {
	want := map[State]string{
		StateREQSent:     "REJ(other, 4, id true)",
		StateMRAREQRcvd:  "REJ(other, 4, id true)",
		StateREQRcvd:     "REJ(REQ, 28, id false)",
		StateMRAREQSent:  "REJ(REQ, 28, id true)",
		StateREPSent:     "REJ(other, 28, id true)",
		StateMRAREPRcvd:  "REJ(other, 28, id true)",
		StateREPRcvd:     "REJ(REP, 28, id true)",
		StateMRAREPSent:  "REJ(REP, 28, id true)",
		StateEstablished: "DREQ",
		StateDREQRcvd:    "DREP",
		StateSIDRREQRcvd: "SIDR_REP(2)",
	}
	arrow := "-> " + StateDestroyed.String()
	for s, sent := range want {
		want[s] = sent + ", " + arrow
	}
	for _, s := range []State{StateIdle, StateDREQSent, StateTimewait, StateSIDRREQSent} {
		want[s] = arrow
	}
	matrix(t, want, func(r *peerRig) { r.c.Destroy(r.now) })
	for _, s := range allStates() {
		r := newPeerRig(t)
		r.reach(s, func() { r.c.Destroy(r.now) })
		r.gone()
		r.advance(1 << 40)
		r.noEvent()
		r.c.Destroy(r.now) // once more is nothing
	}
}

// TestCalls: every call of the user in every state. What does not fit returns ErrState.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(r *peerRig) error
		want map[State]string
	}{
		{"Accept", func(r *peerRig) error { return r.c.Accept(r.now, acceptParams()) }, map[State]string{
			StateREQRcvd: "REP, -> REP sent", StateMRAREQSent: "REP, -> REP sent", StateSIDRREQRcvd: "SIDR_REP(0), -> idle",
		}},
		{"Ready", func(r *peerRig) error { return r.c.Ready(r.now) }, map[State]string{
			StateREPRcvd: "RTU, -> established", StateMRAREPSent: "RTU, -> established",
		}},
		{"Reject", func(r *peerRig) error { return r.c.Reject(r.now, wire.RejectConsumer, nil, nil) }, map[State]string{
			StateREQSent:     "REJ(other, 28, id true), -> idle",
			StateMRAREQRcvd:  "REJ(other, 28, id true), -> idle",
			StateREQRcvd:     "REJ(REQ, 28, id false), -> idle",
			StateMRAREQSent:  "REJ(REQ, 28, id true), -> idle",
			StateREPRcvd:     "REJ(REP, 28, id true), -> idle",
			StateMRAREPSent:  "REJ(REP, 28, id true), -> idle",
			StateREPSent:     "REJ(other, 28, id true), -> timewait",
			StateMRAREPRcvd:  "REJ(other, 28, id true), -> timewait",
			StateSIDRREQRcvd: "SIDR_REP(2), -> idle",
		}},
		{"Disconnect", func(r *peerRig) error { return r.c.Disconnect(r.now) }, map[State]string{
			StateEstablished: "DREQ, -> DREQ sent", StateDREQRcvd: "DREP, -> timewait",
		}},
		{"Established", func(r *peerRig) error { return r.c.Established(r.now) }, map[State]string{
			StateREPSent: "event ready, -> established", StateMRAREPRcvd: "event ready, -> established",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			matrix(t, c.want, func(r *peerRig) {
				before := r.c.State()
				var refusal error
				switch {
				case c.want[before] != "":
				case c.name == "Established" && before == StateEstablished:
					refusal = ErrConnected
				default:
					refusal = ErrState
				}
				if err := c.call(r); err != refusal {
					t.Errorf("in state %v: %v, want %v", before, err, refusal)
				}
			})
		})
	}
}

// TestTimers: when the timer of each state is due for the last time, and what then
// happens.
func TestTimers(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		state State
		each  int // ms between sends
		sends int
		want  string
	}{
		{StateREQSent, 4608, 15, "event unreachable(-110), -> idle"},
		{StateMRAREQRcvd, 65536 + 512, 15, "event unreachable(-110), -> idle"},
		{StateREPSent, 4096, 15, "event unreachable(-110), -> idle"},
		{StateMRAREPRcvd, 65536 + 512, 15, "event unreachable(-110), -> idle"},
		{StateDREQSent, 4096, 15, "event disconnected(-110), -> timewait"},
		{StateTimewait, 512, 0, "event timewait exit, -> idle"},
		{StateSIDRREQSent, 4096, 15, "event lookup unreachable(-110), -> idle"},
	} {
		r := newPeerRig(t)
		r.reach(c.state, func() {})
		start := r.now
		for i := range c.sends {
			at, ok := r.m.Deadline()
			if want := start + rxe.Time(c.each*ms*(i+1)); !ok || at != want {
				t.Fatalf("%v: timer %d is due at %d, want %d", c.state, i, at, want)
			}
			r.now = at - 1
			r.m.Expire(r.now)
			r.quiet()
			r.now = at
			r.m.Expire(r.now)
			if len(r.sent) != 1 || r.sent[0].mad != r.c.resend.mad || r.sent[0].to != r.c.path {
				t.Fatalf("%v: sent %v", c.state, r.messages())
			}
			r.sent = nil
			r.state(r.c, c.state)
		}
		r.now, _ = r.m.Deadline()
		if want := start + rxe.Time(c.each*ms*(c.sends+1)); r.now != want {
			t.Fatalf("%v: the last timer is due at %d, want %d", c.state, r.now, want)
		}
		r.m.Expire(r.now)
		if got := r.outcome(c.state); got != c.want {
			t.Errorf("%v: %q, want %q", c.state, got, c.want)
		}
		counters := r.m.Counters()
		retries := uint64(0)
		for _, n := range counters.TxRetries {
			retries += n
		}
		if retries != uint64(c.sends) {
			t.Errorf("%v: %d retries counted", c.state, retries)
		}
	}
	for _, s := range []State{StateMRAREQSent, StateMRAREPSent, StateEstablished, StateDREQRcvd, StateIdle, StateSIDRREQRcvd, StateDestroyed} {
		r := newPeerRig(t)
		r.reach(s, func() {})
		if at, ok := r.m.Deadline(); ok {
			t.Errorf("in state %v a timer is due at %d", s, at)
		}
	}
}

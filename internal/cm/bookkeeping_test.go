package cm

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestHalfOpen: a passive connection is half-open until it is established or has failed.
func TestHalfOpen(t *testing.T) {
	halfOpen := map[State]bool{
		StateREQRcvd: true, StateMRAREQSent: true, StateREPSent: true, StateMRAREPRcvd: true, StateSIDRREQRcvd: true,
	}
	for s := range StateDestroyed + 1 {
		r := newPeerRig(t)
		r.reach(s, func() {
			want := 0
			if halfOpen[s] {
				want = 1
			}
			if got := r.m.Usage().HalfOpen; got != want {
				t.Errorf("%v: %d connections are half-open, want %d", s, got, want)
			}
		})
	}
}

// TestMRA: the user of a request or a reply gets as much time as Linux asks for.
func TestMRA(t *testing.T) {
	for s, again := range map[State]func(*peerRig) *wire.MAD{
		StateMRAREQSent: (*peerRig).req, StateMRAREPSent: (*peerRig).rep,
	} {
		r := newPeerRig(t)
		r.reach(s, func() {
			r.from(again(r))
			mra := wire.CMMRA{}
			for _, m := range r.messages() {
				mra = m.(wire.CMMRA)
			}
			if mra.MAD == nil || mra.ServiceTimeout() != 24 {
				t.Errorf("%v: sent %v", s, r.messages())
			}
		})
	}
}

// TestUnexpected: messages for no connection, and for one that is over, are counted.
func TestUnexpected(t *testing.T) {
	for name, mad := range map[string]func(*peerRig) *wire.MAD{
		"MRA": func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectREP) },
		"REJ": func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectOther, wire.RejectConsumer) },
	} {
		for _, s := range []State{StateIdle, StateTimewait, StateDestroyed} {
			r := newPeerRig(t)
			r.reach(s, func() {
				before := r.m.Counters().Unexpected
				r.from(mad(r))
				if n := r.m.Counters().Unexpected - before; n != 1 {
					t.Errorf("%s, %v: counted %d", name, s, n)
				}
				r.noEvent()
			})
		}
	}
}

// TestLookupUnanswered: a lookup that nobody has answered is over.
func TestLookupUnanswered(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateSIDRREQSent, func() {
		r.advance(2 * time.Minute)
		r.event(EventLookupUnreachable)
		r.state(r.c, StateIdle)
	})
}

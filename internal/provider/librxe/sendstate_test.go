package librxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/statetable"
	"github.com/gorxe/gorxe/rxe"
)

var sendStates = map[string]sendState{
	"open": sendOpen, "noCredit": sendNoCredit, "full": sendFull, "resuming": sendResuming, "refused": sendRefused,
}

// sendEvents make each event happen to a ring: a batch of three of four work requests is concluded,
// or the method is called.
var sendEvents = map[string]func(r *sendRing){
	"took":        func(r *sendRing) { _, _ = r.conclude(ofThree(r), 3, nil) },
	"wantsCredit": func(r *sendRing) { _, _ = r.conclude(ofThree(r), 0, rxe.ErrNoCredit) },
	"noRoom":      func(r *sendRing) { _, _ = r.conclude(ofThree(r), 1, rxe.ErrFull) },
	"refusal":     func(r *sendRing) { _, _ = r.conclude(ofThree(r), 0, rxe.ErrInvalid) },
	"completion":  func(r *sendRing) { r.complete(1) },
	// as if another thread were at work
	"resume": func(r *sendRing) { r.doorbells.Store(1); r.resume() },
	"reset":  func(r *sendRing) { r.reset() },
}

// ofThree is the batch of a doorbell that has fetched three of four work requests.
func ofThree(r *sendRing) *sendBatch {
	r.setProducer(4)
	r.fetched, r.cons = 3, 0
	b := &sendBatch{epoch: r.epoch, end: 4}
	b.wrs = b.all[:3]
	return b
}

// TestSendTable walks the table in sendState's comment: each event happens to a queue in each
// state.
func TestSendTable(t *testing.T) {
	table := statetable.Read(t, "sendstate.go", "sendState")
	if len(table) != len(sendStates) || len(sendTable) != len(sendStates) {
		t.Fatalf("%d states in the comment, %d in the code, and %d in the test", len(table), len(sendTable), len(sendStates))
	}
	a := must.Get[*arena](t)(newArena(quota.New(quota.Cost{}), provider.NewOffsets()))
	defer a.close(false)
	qp := newStation(t, rxedev.New(t), rxe.QPRC).qp // for its clock
	for state, row := range table {
		if len(row) != len(sendEvents) {
			t.Errorf("%d events in the comment, want %d", len(row), len(sendEvents))
		}
		for event, next := range row {
			r := must.Get[*sendRing](t)(newSendRing(a, rxe.QPCap{MaxSendWR: 8, MaxSendSGE: 1}))
			from, known := sendStates[state]
			to, also := sendStates[next]
			happen := sendEvents[event]
			if !known || !also || happen == nil {
				t.Fatalf("%s, %s, %s: no such state or event", state, event, next)
			}
			r.state, r.qp = from, qp
			happen(r)
			if r.state != to {
				t.Errorf("%s, %s: state %d, want %s", state, event, r.state, next)
			}
		}
	}
}

// TestSendStateDecides: what a state is for.
func TestSendStateDecides(t *testing.T) {
	a := must.Get[*arena](t)(newArena(quota.New(quota.Cost{}), provider.NewOffsets()))
	defer a.close(false)
	for _, tc := range []struct {
		state   sendState
		waits   bool // a doorbell, or take, must look at the queue
		discard bool // a failed post leaves the queue
	}{
		{sendOpen, true, true},
		{sendNoCredit, true, true},
		{sendFull, false, false},
		{sendResuming, true, false},
		{sendRefused, true, true},
	} {
		r := must.Get[*sendRing](t)(newSendRing(a, rxe.QPCap{MaxSendWR: 8, MaxSendSGE: 1}))
		r.setProducer(2)
		r.state = tc.state
		if got := r.waits(); got != tc.waits {
			t.Errorf("state %d: waits %t", tc.state, got)
		}
		r.discard()
		if got := r.producer() == 0; got != tc.discard {
			t.Errorf("state %d: discarded %t", tc.state, got)
		}
	}
}

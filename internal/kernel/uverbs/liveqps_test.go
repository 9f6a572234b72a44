package uverbs

import (
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// TestLiveQPs: doorbells find each queue pair that exists, and TakeDoorbells looks at no other
// objects, however many there are.
func TestLiveQPs(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	var list []*endpoint
	for range 9 {
		e := newEndpoint(t, u, rxe.QPRC)
		e.connect(e.qp, rxe.QPRC, e.qpn)
		list = append(list, e)
	}
	for range 100 {
		u.reset()
		u.createAH(list[0].pd)
	}
	u.reset()
	if n := len(*u.f.live.slots.Load()); n > 2*len(list) {
		t.Errorf("%d slots for %d queue pairs", n, len(list))
	}
	for _, i := range []int{2, 5, 8} {
		u.call(destroyVerb(uapi.CmdDestroyQP, list[i].qp))
		list[i] = newEndpoint(t, u, rxe.QPRC)
		list[i].connect(list[i].qp, rxe.QPRC, list[i].qpn)
	}
	u.call(destroyVerb(uapi.CmdDestroyQP, list[0].qp))
	for i, e := range list[1:] {
		e.write(uint64(i), 8)
	}
	for u.f.TakeDoorbells(false).More {
	}
	for i, e := range list[1:] {
		if n := e.completed(); n != 1 {
			t.Errorf("queue pair %d has %d completions, want 1", i+1, n)
		}
	}
}

// BenchmarkTakeDoorbells measures what a trapped call of a program with many address handles costs
// beside the call itself.
func BenchmarkTakeDoorbells(b *testing.B) {
	list := loops(b, 1)
	for range 50_000 {
		list[0].reset()
		list[0].createAH(list[0].pd)
	}
	for b.Loop() {
		list[0].f.TakeDoorbells(false)
	}
}

package librxe

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/rxe"
)

// unbacked makes each access to the piece fail with SIGBUS, as one to a page that was punched out
// fails if the kernel has no memory for it (vm.overcommit_memory=2).
func unbacked(t *testing.T, p *piece) {
	t.Helper()
	empty, err := memfd.Create("gorxe-test")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(empty)
	_, err = unix.MmapPtr(empty, 0, unsafe.Pointer(&p.mem[0]), uintptr(len(p.mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		t.Fatal(err)
	}
}

// A queue without memory is lost, and nothing else is.
func TestQueueWithoutMemory(t *testing.T) {
	b := quota.New(quota.Cost{})
	a, err := newArena(b)
	if err != nil {
		t.Fatal(err)
	}
	healthy, err := newCQRing(a, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []struct {
		name string
		use  func(cq *cqRing, recv *recvRing, send *sendRing)
	}{
		{"push", func(cq *cqRing, _ *recvRing, _ *sendRing) {
			if cq.Push(&rxe.WC{}) {
				t.Error("a completion was put in")
			}
		}},
		{"waiting", func(cq *cqRing, _ *recvRing, _ *sendRing) { cq.Waiting() }},
		{"repair", func(cq *cqRing, _ *recvRing, _ *sendRing) { cq.repair() }},
		{"label", func(cq *cqRing, _ *recvRing, _ *sendRing) { cq.label(label{}) }},
		{"move to", func(cq *cqRing, _ *recvRing, _ *sendRing) { _ = cq.move(healthy) }},
		{"move from", func(cq *cqRing, _ *recvRing, _ *sendRing) {
			to, err := newCQRing(a, 8)
			if err != nil {
				t.Fatal(err)
			}
			_ = to.move(cq)
			if to.piece.lost || !to.Push(&rxe.WC{}) {
				t.Error("the new queue is lost too")
			}
			to.free()
		}},
		{"pop", func(_ *cqRing, recv *recvRing, _ *sendRing) {
			if ok, _ := recv.Pop(&rxe.RecvWQE{}); ok {
				t.Error("a work request was taken out")
			}
		}},
		{"len", func(_ *cqRing, recv *recvRing, _ *sendRing) { recv.Len() }},
		{"reset", func(_ *cqRing, recv *recvRing, _ *sendRing) { recv.reset() }},
		{"waits", func(_ *cqRing, _ *recvRing, send *sendRing) { send.waits() }},
		{"fetch", func(_ *cqRing, _ *recvRing, send *sendRing) {
			send.fetch(new(sendBatch), 8, 1<<20)
		}},
		{"done", func(_ *cqRing, _ *recvRing, send *sendRing) { send.done(1) }},
		{"discard", func(_ *cqRing, _ *recvRing, send *sendRing) { send.discard() }},
		{"reset sends", func(_ *cqRing, _ *recvRing, send *sendRing) { send.reset() }},
	} {
		cq, err := newCQRing(a, 8)
		if err != nil {
			t.Fatal(err)
		}
		recv, err := newRecvRing(a, 8, 1)
		if err != nil {
			t.Fatal(err)
		}
		send, err := newSendRing(a, rxe.QPCap{MaxSendWR: 8, MaxSendSGE: 1})
		if err != nil {
			t.Fatal(err)
		}
		send.qp = new(rxe.QP)
		pieces := []*piece{cq.piece, recv.piece, send.piece}
		for _, p := range pieces {
			unbacked(t, p)
		}
		use.use(cq, recv, send)
		lost := 0
		for _, p := range pieces {
			if p.lost {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("%s: %d queues are lost, want 1", use.name, lost)
		}
		use.use(cq, recv, send) // of a lost queue
		for _, p := range pieces {
			p.free()
		}
	}
	if !healthy.Push(&rxe.WC{ID: 7}) || healthy.Waiting() != 1 {
		t.Error("another queue is lost")
	}
	healthy.free()
	a.close(false)
	quotatest.WantGiven(t, b)
}

// A panic for another reason than a fault in the piece goes on.
func TestOwnPanic(t *testing.T) {
	a, err := newArena(quota.New(quota.Cost{}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close(false)
	p, err := a.alloc(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the panic is hidden")
		}
		if !p.mu.TryLock() || p.lost {
			t.Error("the piece is locked or lost")
		}
		p.mu.Unlock()
	}()
	defer p.unlock(p.lock())
	var nothing []byte
	_ = nothing[len(p.mem)]
}

package librxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestDiscard checks that the work requests of a failed post leave the queue, and free their
// room. Earlier work requests stay.
func TestDiscard(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	send := func(id uint64) {
		a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRSend, Flags: rxedev.Signaled,
			SGL: []rxe.SGE{a.sge(0, 8)}}})
	}
	for id := range uint64(2) {
		b.recv.PostRecv(id, b.sge(0, 8))
	}
	for round := range 3 {
		send(100)
		send(101)
		a.sq.discard()
		if a.sq.waits() {
			t.Fatalf("round %d: something is left", round)
		}
	}
	for id := range uint64(2) {
		send(id)
		if err := a.sq.doorbell(); err != nil {
			t.Fatal(err)
		}
		send(102)
		a.sq.discard()
		a.want(id, rxe.WCSuccess)
	}
	a.sq.free()
	a.sq.discard() // the queue pair has just been destroyed
}

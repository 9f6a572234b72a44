package uverbs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// states are those that Moved was told of.
type states struct {
	of   wire.QPN
	list []string
}

func (*states) Failed(*rxe.QP, *rxe.Failure) {}

func (*states) Refused(string, unix.Errno, error) {}

func (s *states) Moved(q wire.QPN, state string) { s.of, s.list = q, append(s.list, state) }

// TestMoved: the states of a queue pair are reported from its beginning to its end, and no verb
// that failed.
func TestMoved(t *testing.T) {
	d, _ := newDevice(t)
	p := newProgram(t, d)
	s := new(states)
	p.f.SetReports(s)
	u := &user{p.begin(), forms[0]}
	pd := u.allocPD()
	cq, _ := u.createCQ(10, -1, 0)
	qp, _ := u.createQP(rxe.QPRC, pd, cq.CQHandle)
	u.connect(qp.QPHandle, rxe.QPRC, qp.QPN)
	if err := u.try(modifyVerb(uapi.ModifyQPReq{QPHandle: qp.QPHandle, QPState: uint8(rxe.QPInit), AttrMask: uint32(rxe.QPAttrState)})); err == nil {
		t.Error("a step from RTS to INIT succeeded")
	}
	u.call(modifyVerb(uapi.ModifyQPReq{QPHandle: qp.QPHandle, QPState: uint8(rxe.QPErr), AttrMask: uint32(rxe.QPAttrState)}))
	u.call(destroyVerb(uapi.CmdDestroyQP, qp.QPHandle))
	if want := []string{"RESET", "INIT", "RTR", "RTS", "ERR", Destroyed}; !slices.Equal(s.list, want) || uint32(s.of) != qp.QPN {
		t.Errorf("the states are %q of %#x, want %q of %#x", s.list, s.of, want, qp.QPN)
	}
}

package uverbs

import (
	"math/bits"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// TestModifyMask adds each bit of attr_mask to what each transition requires, for each type of
// queue pair. It is taken if the row of the table of transitions has it (IBA 11.2.5.2,
// ib_modify_qp_is_ok), whatever its value.
func TestModifyMask(t *testing.T) {
	for _, typ := range []rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD} {
		eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
			pd := u.allocPD()
			cq, _ := u.createCQ(4, -1, 0)
			for _, step := range rxe.Transitions(typ) {
				if step.From == rxe.QPSQE {
					continue // no request leads there
				}
				for bit := range bits.Len32(standardAttrs) {
					u.reset()
					u.tryMaskBit(typ, step, 1<<bit, pd, cq.CQHandle)
				}
			}
		})
	}
}

func (u *user) tryMaskBit(typ rxe.QPType, step rxe.Transition, bit rxe.QPAttrMask, pd, cq uint32) {
	u.t.Helper()
	qp, _ := u.createQP(typ, pd, cq)
	reqs := connectReqs(qp.QPHandle, typ, 0x123)
	last := reqs[len(reqs)-1]
	for i, req := range reqs {
		if step.From != rxe.QPReset && rxe.QPState(i) < min(step.From, rxe.QPRTS) {
			u.call(modifyVerb(req))
		}
	}
	last.QPState, last.AttrMask = uint8(step.From), uint32(rxe.QPAttrState)
	if step.From > rxe.QPRTS {
		u.call(modifyVerb(last))
	}
	last.QPState, last.CurQPState = uint8(step.To), uint8(step.From)
	last.AttrMask = uint32(rxe.QPAttrState | step.Required | bit)
	var want error
	if allowed := rxe.QPAttrState | step.Required | step.Optional&^rxe.QPAttrAltPath; bit&^allowed != 0 {
		want = unix.EINVAL
	}
	if _, err := u.form.call(u.program, modifyVerb(last)); err != want {
		u.t.Errorf("%v %v to %v with %v: %v, want %v", typ, step.From, step.To, bit, err, want)
	}
	u.call(destroyVerb(uapi.CmdDestroyQP, qp.QPHandle))
}

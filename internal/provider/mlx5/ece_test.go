package mlx5

import (
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestModified: a program that has room for the answer to its options gets it, with none of them.
// One without room gets nothing.
func TestModified(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	q := p.newQP(rxe.QPRC, 7)
	u := ask(p, [20]byte{16: 2})
	must.OK(t, q.mem.Modify(u, &rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	if want := (ModifyQPResp{ResponseLength: 16}); len(u.resp) != 16 || uapi.Load[ModifyQPResp](u.resp) != want {
		t.Errorf("the answer is % x", u.resp)
	}
	u = ask(p, [20]byte{})
	u.room = 12
	must.OK(t, q.mem.Modify(u, &rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	if len(u.resp) != 0 {
		t.Errorf("without room: % x", u.resp)
	}
}

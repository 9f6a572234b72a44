package mlx5

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

var _ provider.XRC = Driver{}

// HasXRC implements provider.XRC.
func (Driver) HasXRC() bool { return true }

// target is provider.QP of an XRC target. It has no queue: its receives are those of SRQs, which
// complete with their own user index.
type target struct{ qp *rxe.QP }

// Init implements provider.QP.
func (*target) Init(*rxe.QPInitAttr) {}

// Answer implements provider.QP.
func (*target) Answer(asked, _ rxe.QPCap) rxe.QPCap { return asked }

// Created implements provider.QP. libmlx5 gives a target a register, and does not ring there.
func (q *target) Created(u provider.UData, qp *rxe.QP) error {
	q.qp = qp
	return respond(u, CreateQPResp{})
}

// Doorbell implements provider.QP.
func (*target) Doorbell() error { return unix.EOPNOTSUPP }

// Discard implements provider.QP.
func (*target) Discard() {}

// Pending implements provider.QP.
func (*target) Pending() bool { return false }

// Take implements provider.QP.
func (*target) Take(int, bool) (provider.Taken, error) { return provider.Taken{}, nil }

// Receives implements provider.QP.
func (*target) Receives() (waiting, entries int) { return 0, 0 }

// Modify implements provider.QP.
func (q *target) Modify(u provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	if err := q.qp.Modify(attr, mask); err != nil {
		return err
	}
	return modified(u)
}

// Ending implements provider.QP.
func (*target) Ending() {}

// Free implements provider.QP.
func (*target) Free() {}

// hasRecvQueue reports whether a queue pair has a receive queue of its own (qp.c: qp_has_rq).
func hasRecvQueue(req *provider.QPRequest) bool {
	return !req.SRQ && req.Type != uapi.QPTypeXRCIni
}

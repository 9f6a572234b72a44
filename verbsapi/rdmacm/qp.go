package rdmacm

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/verbsapi"
)

// CreateQP makes the ID's queue pair (rdma_create_qp). Its type follows from the port
// space. For connections it is in INIT, where receives can be posted, and the ID's calls
// and events change its state. For datagrams it is in RTS. The domain must belong to the
// ID's device.
func (id *ID) CreateQP(pd *verbsapi.PD, init verbsapi.QPInitAttr) (*verbsapi.QP, error) {
	const op = "CreateQP"
	guid, ok := id.DeviceGUID()
	switch {
	case pd == nil:
		return nil, &OpError{Op: op, Arg: "pd", Why: "is nil", Err: ErrInvalid}
	case !ok:
		return nil, &OpError{Op: op, Arg: "id", Why: "has no device before ResolveAddr or Bind", Err: ErrInvalid}
	case pd.Context().Device().GUID() != guid:
		return nil, &OpError{Op: op, Arg: "pd", Why: "is of another device than the one that the address leads to", Err: ErrInvalid}
	}
	init.Type = id.cm.QPType()
	qp, err := pd.CreateQP(init)
	if err != nil {
		return nil, err
	}
	if err := id.initialize(qp); err != nil {
		qp.Destroy(context.Background()) //nolint:errcheck // err says what is wrong
		return nil, opError(op, "id", err)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.qp = qp
	return qp, nil
}

// QP returns the queue pair that CreateQP made, or nil.
func (id *ID) QP() *verbsapi.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// initialize takes a new queue pair to INIT; for datagrams to RTS, because there is no
// peer to wait for (ucma_init_conn_qp, ucma_init_ud_qp of librdmacm).
func (id *ID) initialize(qp *verbsapi.QP) error {
	if err := id.step(qp, verbsapi.QPInit); err != nil || id.cm.QPType() != rxe.QPUD {
		return err
	}
	if err := qp.Modify(&verbsapi.QPAttr{State: verbsapi.QPRTR}, verbsapi.QPAttrState); err != nil {
		return err
	}
	return qp.Modify(&verbsapi.QPAttr{State: verbsapi.QPRTS}, verbsapi.QPAttrState|verbsapi.QPAttrSQPSN)
}

// ready takes the queue pair from INIT to RTS, when both ends are known.
func (id *ID) ready(qp *verbsapi.QP) error {
	for _, s := range []verbsapi.QPState{verbsapi.QPInit, verbsapi.QPRTR, verbsapi.QPRTS} {
		if err := id.step(qp, s); err != nil {
			return err
		}
	}
	return nil
}

func (id *ID) step(qp *verbsapi.QP, s verbsapi.QPState) error {
	attr, mask, err := id.cm.QPAttr(s)
	if err != nil {
		return err
	}
	if mask&verbsapi.QPAttrMinRNRTimer != 0 && id.minRNR != 0 {
		attr.MinRNRTimer = id.minRNR
	}
	return qp.Modify(&attr, mask)
}

// respond completes a connection at its active end: the queue pair becomes ready, and the
// peer is told. The event becomes Established, or ConnectError.
func (id *ID) respond(ev *Event) {
	qp := id.QP()
	if qp == nil {
		return
	}
	err := id.ready(qp)
	if err == nil {
		err = id.cm.EstablishActive()
	}
	if err != nil {
		id.flush()
		ev.Type, ev.Status = ConnectError, -int32(unix.EINVAL)
		return
	}
	ev.Type = Established
}

// flush takes the queue pair to ERR, so that its work requests complete.
func (id *ID) flush() {
	if qp := id.QP(); qp != nil {
		qp.Modify(&verbsapi.QPAttr{State: verbsapi.QPErr}, verbsapi.QPAttrState) //nolint:errcheck // it may be destroyed
	}
}

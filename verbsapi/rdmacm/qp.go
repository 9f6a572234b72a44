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
	switch init.Type = id.cm.QPType(); {
	case pd == nil:
		return nil, &OpError{Op: op, Arg: "pd", Why: "is nil", Err: ErrInvalid}
	case init.Type == verbsapi.QPXRCTgt:
		return nil, &OpError{Op: op, Arg: "id", Why: "is for an XRC target: call CreateTarget", Err: ErrInvalid}
	}
	return id.create("pd", pd.Context(), func() (*verbsapi.QP, error) { return pd.CreateQP(init) })
}

// CreateTarget makes the queue pair of an ID for XRC targets, in INIT (rdma_create_qp_ex with
// xrcd). The domain must belong to the ID's device.
func (id *ID) CreateTarget(x *verbsapi.XRCD) (*verbsapi.QP, error) {
	const op = "CreateTarget"
	switch {
	case x == nil:
		return nil, &OpError{Op: op, Arg: "xrcd", Why: "is nil", Err: ErrInvalid}
	case id.cm.QPType() != verbsapi.QPXRCTgt:
		return nil, &OpError{Op: op, Arg: "id", Why: "is for other queue pairs: call CreateQP", Err: ErrInvalid}
	}
	return id.create("xrcd", x.Context(), x.CreateTarget)
}

// create makes the queue pair with an object of a context.
func (id *ID) create(arg string, c *verbsapi.Context, make func() (*verbsapi.QP, error)) (*verbsapi.QP, error) {
	const op = "CreateQP"
	switch guid, ok := id.DeviceGUID(); {
	case !ok:
		return nil, &OpError{Op: op, Arg: "id", Why: "has no device before ResolveAddr or Bind", Err: ErrInvalid}
	case c.Device().GUID() != guid:
		return nil, &OpError{Op: op, Arg: arg, Why: "is of another device than the one that the address leads to", Err: ErrInvalid}
	}
	qp, err := make()
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

package rxe

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// accessQP are the rights that a QP can grant its peer. Other bits of an Access
// mean nothing for a QP and are ignored, as rdma_rxe does.
const accessQP = accessKnown

// Modify changes the attributes that mask names (ibv_modify_qp). It checks
// everything first: an error names the attribute and leaves the QP unchanged.
func (q *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	q.lock()
	run, err := q.modify(attr, mask)
	q.unlock(nil)
	if run {
		q.kick()
	}
	return err
}

// modify reports whether the requester has to run afterwards.
func (q *QP) modify(attr *QPAttr, mask QPAttrMask) (run bool, err error) {
	const op = "ModifyQP"
	if q.dead {
		return false, opErr(op, "qp", ErrClosed)
	}
	from, to := q.attr.State, q.attr.State
	if mask&QPAttrState != 0 {
		to = attr.State
	}
	if err := q.checkTransition(attr, mask, from, to); err != nil {
		return false, err
	}
	if err := q.checkAttrs(attr, mask); err != nil {
		return false, err
	}
	next := q.attr
	next.merge(attr, mask)
	var path *wire.Route
	if mask&(QPAttrAV|QPAttrDestQPN) != 0 {
		if path, err = q.dev.makeRoute(&next.AH, q.qpn, next.DestQPN); err != nil {
			return false, err
		}
	}
	q.apply(&next, mask, path)
	if mask&QPAttrState != 0 {
		q.enter(from, to)
	}
	q.publish()
	return q.attr.State == QPRTS, nil
}

// checkTransition checks the mask against the life-cycle table.
func (q *QP) checkTransition(attr *QPAttr, mask QPAttrMask, from, to QPState) error {
	const op = "ModifyQP"
	if mask&QPAttrCurState != 0 && attr.CurState != from {
		return invalid(op, "cur_qp_state", "the QP is in "+from.String())
	}
	set, ok := attrsFor(q.typ, from, to)
	if !ok {
		return invalid(op, "qp_state", "no transition from "+from.String()+" to "+to.String())
	}
	if missing := set.required &^ mask; missing != 0 {
		return invalid(op, missing.first(), "is required from "+from.String()+" to "+to.String())
	}
	if extra := mask &^ (set.required | set.optional | QPAttrState); extra != 0 {
		return invalid(op, extra.first(), "cannot be set from "+from.String()+" to "+to.String())
	}
	if q.attr.SQDraining && from == QPSQD && (to == QPRTS || to == QPSQD) {
		return invalid(op, "qp_state", "the send queue is still draining")
	}
	return nil
}

// checkAttrs checks the values of the attributes that mask names.
func (q *QP) checkAttrs(a *QPAttr, mask QPAttrMask) error {
	l := &q.dev.limits
	for _, c := range [...]struct {
		bit QPAttrMask
		ok  bool
		why string
	}{
		{QPAttrAccessFlags, a.Access&^accessQP == 0, "unknown flags"},
		{QPAttrPKeyIndex, int(a.PKeyIndex) < len(pkeyTable), "beyond the P_Key table"},
		{QPAttrPort, a.PortNum == thePort, "is not 1"},
		{QPAttrPathMTU, a.PathMTU.Valid(), "is not 256, 512, 1024, 2048 or 4096"},
		{QPAttrTimeout, a.Timeout <= maxTimeout, "exceeds 31"},
		{QPAttrRetryCnt, a.RetryCnt <= maxRetryCount, "exceeds 7"},
		{QPAttrRNRRetry, a.RNRRetry <= maxRetryCount, "exceeds 7"},
		{QPAttrRQPSN, a.RQPSN <= wire.PSNMask, "exceeds 24 bits"},
		{QPAttrSQPSN, a.SQPSN <= wire.PSNMask, "exceeds 24 bits"},
		{QPAttrMinRNRTimer, a.MinRNRTimer <= maxRNRTimer, "exceeds 31"},
		{QPAttrMaxRdAtomic, uint32(a.MaxRdAtomic) <= l.MaxQPInitRdAtom, "exceeds max_qp_init_rd_atom"},
		{QPAttrMaxDestRdAtomic, uint32(a.MaxDestRdAtomic) <= l.MaxQPRdAtom, "exceeds max_qp_rd_atom"},
		{QPAttrDestQPN, a.DestQPN <= wire.QPNMask, "exceeds 24 bits"},
		{QPAttrAV, !a.AH.DGID.IsMulticast(), "multicast destination of a connected QP"},
		{QPAttrAltPath | QPAttrPathMigState, false, "path migration is not supported"},
	} {
		if mask&c.bit != 0 && !c.ok {
			return invalid("ModifyQP", (mask & c.bit).first(), c.why)
		}
	}
	return nil
}

// merge sets the attributes that mask names, except for the state, which enter
// sets.
func (a *QPAttr) merge(from *QPAttr, mask QPAttrMask) {
	set(&a.EnSQDNotify, from.EnSQDNotify, mask&QPAttrEnSQDNotify)
	set(&a.Access, from.Access, mask&QPAttrAccessFlags)
	set(&a.PKeyIndex, from.PKeyIndex, mask&QPAttrPKeyIndex)
	set(&a.PortNum, from.PortNum, mask&QPAttrPort)
	set(&a.QKey, from.QKey, mask&QPAttrQKey)
	set(&a.AH, from.AH, mask&QPAttrAV)
	set(&a.PathMTU, from.PathMTU, mask&QPAttrPathMTU)
	set(&a.Timeout, from.Timeout, mask&QPAttrTimeout)
	set(&a.RetryCnt, from.RetryCnt, mask&QPAttrRetryCnt)
	set(&a.RNRRetry, from.RNRRetry, mask&QPAttrRNRRetry)
	set(&a.RQPSN, from.RQPSN, mask&QPAttrRQPSN)
	set(&a.SQPSN, from.SQPSN, mask&QPAttrSQPSN)
	set(&a.MaxRdAtomic, from.MaxRdAtomic, mask&QPAttrMaxRdAtomic)
	set(&a.MaxDestRdAtomic, from.MaxDestRdAtomic, mask&QPAttrMaxDestRdAtomic)
	set(&a.MinRNRTimer, from.MinRNRTimer, mask&QPAttrMinRNRTimer)
	set(&a.DestQPN, from.DestQPN, mask&QPAttrDestQPN)
}

func set[T any](to *T, v T, named QPAttrMask) {
	if named != 0 {
		*to = v
	}
}

// apply makes next the QP's attributes, and updates what requester and responder
// derive from them.
func (q *QP) apply(next *QPAttr, mask QPAttrMask, path *wire.Route) {
	q.attr = *next
	if path != nil {
		q.route, q.peerGIDs, q.notify.route = path, nil, nil
		q.setPeer(path.Dst)
	}
	if mask&QPAttrPKeyIndex != 0 {
		q.pkey = pkeyTable[q.attr.PKeyIndex]
	}
	if mask&QPAttrRQPSN != 0 {
		q.resp.setPSN(q, q.attr.RQPSN)
	}
	if mask&QPAttrMaxDestRdAtomic != 0 {
		q.resp.resize(q, int(q.attr.MaxDestRdAtomic))
	}
	if mask&QPAttrSQPSN != 0 {
		q.setSendPSN(q.attr.SQPSN)
	}
}

// enter does what a transition does besides setting attributes.
func (q *QP) enter(from, to QPState) {
	switch {
	case to == QPReset:
		q.reset()
	case to == QPErr:
		if from != QPErr {
			q.fail()
		}
	case to == QPSQD && from == QPRTS:
		q.attr.State = to
		q.beginDrain()
	case to == QPRTS && from != QPRTS:
		q.attr.State = to
		q.startRequester()
	default:
		q.attr.State = to
	}
}

// reset forgets all work without completing it, and all attributes except the sizes
// (IBA 10.3.1.1).
func (q *QP) reset() {
	q.resp.held.releaseLast(q)
	if q.chaos != nil {
		q.chaos.settle(q)
	}
	q.attr = QPAttr{State: QPReset, Cap: q.attr.Cap}
	q.route, q.peerGIDs, q.pkey = nil, nil, 0
	q.notify, q.rate = notifier{}, reaction{}
	q.setPeer(netip.Addr{})
	q.resetSend()
	q.resp.reset(q)
	q.clearDeadlines()
	if q.rring != nil {
		q.rring.clear()
	}
}

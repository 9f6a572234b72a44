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
	if err := q.dev.cfg.Quirks.checkReset(op, mask, from, to); err != nil {
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
		if err := q.setPeer(op, path.Dst); err != nil {
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
		return invalid(op, "cur_qp_state", "is "+attr.CurState.String()+", and the queue pair is in "+from.String(), "ask query_qp for its state")
	}
	set, ok := attrsFor(q.typ, from, to)
	if !ok {
		return invalid(op, "qp_state", "no transition from "+from.String()+" to "+to.String(), "go to "+nextStates(q.typ, from))
	}
	if missing := set.required &^ mask; missing != 0 {
		return invalid(op, missing.first(), "is required from "+from.String()+" to "+to.String(), "add "+missing.String())
	}
	if extra := mask &^ (set.required | set.optional | QPAttrState); extra != 0 {
		return invalid(op, extra.first(), "cannot be set from "+from.String()+" to "+to.String(), "leave out "+extra.String())
	}
	if q.attr.SQDraining && from == QPSQD && (to == QPRTS || to == QPSQD) {
		return invalid(op, "qp_state", "the send queue is still draining", "wait for IBV_EVENT_SQ_DRAINED")
	}
	return nil
}

// attrCheck is the check of one attribute's value. most is the greatest value, if that is what is
// checked.
type attrCheck struct {
	bit         QPAttrMask
	given, most uint64
	ok          bool
	why, fix    string
}

// attrChecks are the checks of the values in a. Those with a limit have no fix.
func attrChecks(a *QPAttr, l *DeviceAttr) []attrCheck {
	atMost := func(bit QPAttrMask, given, most uint64, why string) attrCheck {
		return attrCheck{bit: bit, given: given, most: most, ok: given <= most, why: why}
	}
	return []attrCheck{
		{bit: QPAttrAccessFlags, ok: a.Access&^accessQP == 0, why: "unknown flags", fix: "use bits of enum ibv_access_flags"},
		{bit: QPAttrPKeyIndex, ok: int(a.PKeyIndex) < len(pkeyTable), why: "is beyond the P_Key table", fix: "use index 0, the only one"},
		{bit: QPAttrPort, ok: a.PortNum == thePort, why: "is not 1", fix: "use port 1, the only one"},
		{bit: QPAttrPathMTU, ok: a.PathMTU.Valid(), why: "is not 256, 512, 1024, 2048 or 4096", fix: "use IBV_MTU_1024 or another value of enum ibv_mtu"},
		atMost(QPAttrTimeout, uint64(a.Timeout), maxTimeout, "exceeds 31"),
		atMost(QPAttrRetryCnt, uint64(a.RetryCnt), maxRetryCount, "exceeds 7"),
		atMost(QPAttrRNRRetry, uint64(a.RNRRetry), maxRetryCount, "exceeds 7"),
		atMost(QPAttrRQPSN, uint64(a.RQPSN), wire.PSNMask, "exceeds 24 bits"),
		atMost(QPAttrSQPSN, uint64(a.SQPSN), wire.PSNMask, "exceeds 24 bits"),
		atMost(QPAttrMinRNRTimer, uint64(a.MinRNRTimer), maxRNRTimer, "exceeds 31"),
		atMost(QPAttrMaxRdAtomic, uint64(a.MaxRdAtomic), uint64(l.MaxQPInitRdAtom), "exceeds max_qp_init_rd_atom"),
		atMost(QPAttrMaxDestRdAtomic, uint64(a.MaxDestRdAtomic), uint64(l.MaxQPRdAtom), "exceeds max_qp_rd_atom"),
		atMost(QPAttrDestQPN, uint64(a.DestQPN), uint64(wire.QPNMask), "exceeds 24 bits"),
		{bit: QPAttrAV, ok: !a.AH.DGID.IsMulticast(), why: "multicast destination of a connected QP", fix: "use the peer's own GID"},
		{bit: QPAttrAltPath, why: "path migration is not supported", fix: "leave out IBV_QP_ALT_PATH"},
		{bit: QPAttrPathMigState, ok: a.PathMigState == 0, why: "is not IBV_MIG_MIGRATED, and path migration is not supported", fix: "leave out IBV_QP_PATH_MIG_STATE"},
	}
}

// checkAttrs checks the values of the attributes that mask names.
func (q *QP) checkAttrs(a *QPAttr, mask QPAttrMask) error {
	err := q.sub.check(func(l *DeviceAttr) error {
		checks := attrChecks(a, l)
		for i := range checks {
			if c := &checks[i]; mask&c.bit != 0 && !c.ok {
				return c.refusal()
			}
		}
		return nil
	})
	if err == nil && mask&rdAtomicAttrs != 0 {
		q.sub.passed(LimitRdAtomic)
	}
	return err
}

// rdAtomicAttrs are the attributes that LimitRdAtomic bounds.
const rdAtomicAttrs = QPAttrMaxRdAtomic | QPAttrMaxDestRdAtomic

func (c *attrCheck) refusal() error {
	switch {
	case c.bit&rdAtomicAttrs != 0:
		return beyond("ModifyQP", c.bit.first(), c.given, c.why, LimitRdAtomic, c.most)
	case c.fix == "":
		return tooBig("ModifyQP", c.bit.first(), c.given, c.why, c.most)
	}
	return invalid("ModifyQP", c.bit.first(), c.why, c.fix)
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
		q.flushLate()
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
	q.unwatchReceives()
	q.resp.held.releaseLast(q)
	if q.chaos != nil {
		q.chaos.settle(q)
	}
	q.attr = QPAttr{State: QPReset, Cap: q.attr.Cap}
	q.route, q.peerGIDs, q.pkey = nil, nil, 0
	q.notify, q.rate = notifier{}, reaction{}
	q.setPeer("", netip.Addr{}) //nolint:errcheck // no peer needs no room
	q.resetSend()
	q.resp.reset(q)
	q.clearDeadlines()
	if q.rring != nil {
		q.rring.clear()
	}
}

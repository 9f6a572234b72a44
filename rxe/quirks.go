package rxe

// Quirks are what a device does otherwise than most. What it sends is the same.
type Quirks struct {
	NoUC      bool // UC queue pairs are refused
	ResetOnce bool // a queue pair in RESET refuses RESET
	// GIDsMove: when the port comes back, its GIDs have other indexes, except the first one. The
	// caller of SetGIDs does that.
	GIDsMove bool
}

func (q Quirks) checkType(op string, t QPType) error {
	if q.NoUC && t == QPUC {
		return &OpError{Op: op, Arg: "qp_type", Why: "is UC, and this adapter has none (no-uc)", Fix: "use RC or UD", Err: ErrNotSupported}
	}
	return nil
}

func (q Quirks) checkReset(op string, mask QPAttrMask, from, to QPState) error {
	if q.ResetOnce && mask&QPAttrState != 0 && from == QPReset && to == QPReset {
		return invalid(op, "qp_state", "is RESET already, which this adapter refuses (reset-einval)", "leave a new queue pair in RESET")
	}
	return nil
}

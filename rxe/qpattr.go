package rxe

// The life cycle of a queue pair as data: which attributes each transition requires
// and which it allows (IBA 11.2.4.2, Modify Queue Pair). The kernel's
// ib_modify_qp_is_ok decides the same. QPAttrState is always allowed.

// attrSet holds one transition's attributes for one transport service.
type attrSet struct {
	required, optional QPAttrMask
}

// transition is one allowed step.
type transition struct {
	from, to QPState
}

// step holds one transition's attributes for the three services.
type step struct {
	ud, uc, rc attrSet
}

const (
	attrsInitUD = QPAttrPKeyIndex | QPAttrPort | QPAttrQKey
	attrsInit   = QPAttrPKeyIndex | QPAttrPort | QPAttrAccessFlags

	attrsRTRUC = QPAttrAV | QPAttrPathMTU | QPAttrDestQPN | QPAttrRQPSN
	attrsRTRRC = attrsRTRUC | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer
	optRTR     = QPAttrAltPath | QPAttrAccessFlags | QPAttrPKeyIndex

	attrsRTSRC = QPAttrSQPSN | QPAttrTimeout | QPAttrRetryCnt | QPAttrRNRRetry | QPAttrMaxRdAtomic
	optRTSUD   = QPAttrCurState | QPAttrQKey
	optRTSUC   = QPAttrCurState | QPAttrAltPath | QPAttrAccessFlags | QPAttrPathMigState
	optRTSRC   = optRTSUC | QPAttrMinRNRTimer

	optSQDUC = QPAttrAV | QPAttrAltPath | QPAttrAccessFlags | QPAttrPKeyIndex | QPAttrPathMigState
	optSQDRC = optSQDUC | QPAttrPort | QPAttrTimeout | QPAttrRetryCnt | QPAttrRNRRetry |
		QPAttrMaxRdAtomic | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer
)

var lifeCycle = map[transition]step{
	{QPReset, QPReset}: {},
	{QPReset, QPInit}: {
		ud: attrSet{required: attrsInitUD},
		uc: attrSet{required: attrsInit},
		rc: attrSet{required: attrsInit},
	},
	{QPInit, QPReset}: {},
	{QPInit, QPErr}:   {},
	{QPInit, QPInit}: {
		ud: attrSet{optional: attrsInitUD},
		uc: attrSet{optional: attrsInit},
		rc: attrSet{optional: attrsInit},
	},
	{QPInit, QPRTR}: {
		ud: attrSet{optional: QPAttrPKeyIndex | QPAttrQKey},
		uc: attrSet{required: attrsRTRUC, optional: optRTR},
		rc: attrSet{required: attrsRTRRC, optional: optRTR},
	},
	{QPRTR, QPReset}: {},
	{QPRTR, QPErr}:   {},
	{QPRTR, QPRTS}: {
		ud: attrSet{required: QPAttrSQPSN, optional: optRTSUD},
		uc: attrSet{required: QPAttrSQPSN, optional: optRTSUC},
		rc: attrSet{required: attrsRTSRC, optional: optRTSRC},
	},
	{QPRTS, QPReset}: {},
	{QPRTS, QPErr}:   {},
	{QPRTS, QPRTS}: {
		ud: attrSet{optional: optRTSUD},
		uc: attrSet{optional: optRTSUC},
		rc: attrSet{optional: optRTSRC},
	},
	{QPRTS, QPSQD}: {
		ud: attrSet{optional: QPAttrEnSQDNotify},
		uc: attrSet{optional: QPAttrEnSQDNotify},
		rc: attrSet{optional: QPAttrEnSQDNotify},
	},
	{QPSQD, QPReset}: {},
	{QPSQD, QPErr}:   {},
	{QPSQD, QPRTS}: {
		ud: attrSet{optional: optRTSUD},
		uc: attrSet{optional: optRTSUC},
		rc: attrSet{optional: optRTSRC},
	},
	{QPSQD, QPSQD}: {
		ud: attrSet{optional: QPAttrPKeyIndex | QPAttrQKey},
		uc: attrSet{optional: optSQDUC},
		rc: attrSet{optional: optSQDRC},
	},
	{QPSQE, QPReset}: {},
	{QPSQE, QPErr}:   {},
	{QPSQE, QPRTS}: {
		ud: attrSet{optional: optRTSUD},
		uc: attrSet{optional: QPAttrCurState | QPAttrAccessFlags},
	},
	{QPErr, QPReset}: {},
	{QPErr, QPErr}:   {},
}

// attrsFor returns what a transition requires and allows. It reports false when
// there is no such transition.
func attrsFor(typ QPType, from, to QPState) (attrSet, bool) {
	s, ok := lifeCycle[transition{from, to}]
	switch typ {
	case QPUD:
		return s.ud, ok
	case QPUC:
		return s.uc, ok
	case QPRC:
		// A reliable QP never enters SQE (IBA 10.3.1).
		return s.rc, ok && from != QPSQE
	default:
		return attrSet{}, false
	}
}

// RequiredMask returns the attributes that a transition requires, QPAttrState
// included. It returns 0 when there is no such transition. Setting exactly these
// attributes takes a QP from RESET to RTS.
func RequiredMask(typ QPType, from, to QPState) QPAttrMask {
	set, ok := attrsFor(typ, from, to)
	if !ok {
		return 0
	}
	return QPAttrState | set.required
}

// attrNames names the field of struct ibv_qp_attr behind each bit of the mask.
var attrNames = []struct {
	bit  QPAttrMask
	name string
}{
	{QPAttrState, "qp_state"},
	{QPAttrCurState, "cur_qp_state"},
	{QPAttrEnSQDNotify, "en_sqd_async_notify"},
	{QPAttrAccessFlags, "qp_access_flags"},
	{QPAttrPKeyIndex, "pkey_index"},
	{QPAttrPort, "port_num"},
	{QPAttrQKey, "qkey"},
	{QPAttrAV, "ah_attr"},
	{QPAttrPathMTU, "path_mtu"},
	{QPAttrTimeout, "timeout"},
	{QPAttrRetryCnt, "retry_cnt"},
	{QPAttrRNRRetry, "rnr_retry"},
	{QPAttrRQPSN, "rq_psn"},
	{QPAttrMaxRdAtomic, "max_rd_atomic"},
	{QPAttrAltPath, "alt_ah_attr"},
	{QPAttrMinRNRTimer, "min_rnr_timer"},
	{QPAttrSQPSN, "sq_psn"},
	{QPAttrMaxDestRdAtomic, "max_dest_rd_atomic"},
	{QPAttrPathMigState, "path_mig_state"},
	{QPAttrCap, "cap"},
	{QPAttrDestQPN, "dest_qp_num"},
	{QPAttrRateLimit, "rate_limit"},
}

// first returns the name of the mask's lowest attribute.
func (m QPAttrMask) first() string {
	for _, a := range attrNames {
		if m&a.bit != 0 {
			return a.name
		}
	}
	return "attr_mask"
}

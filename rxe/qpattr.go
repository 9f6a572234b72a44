package rxe

import (
	"fmt"
	"strings"
)

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

// stepAttrs holds one transition's attributes for the three services, and for raw packets.
type stepAttrs struct {
	ud, uc, rc, raw attrSet
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

var lifeCycle = map[transition]stepAttrs{
	{QPReset, QPReset}: {},
	{QPReset, QPInit}: {
		ud: attrSet{required: attrsInitUD},
		uc: attrSet{required: attrsInit},
		rc: attrSet{required: attrsInit},

		raw: attrSet{required: QPAttrPort},
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
	case QPRaw:
		return s.raw, ok
	case QPUC:
		return s.uc, ok
	default: // RC and XRC
	}
	f := factsOf[typ]
	if f == nil {
		return attrSet{}, false
	}
	// A reliable QP never enters SQE (IBA 10.3.1).
	return attrSet{s.rc.required &^ f.lacks, s.rc.optional &^ f.lacks}, ok && from != QPSQE
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

// attrNames names the field of struct ibv_qp_attr behind each bit of the mask, and the bit.
var attrNames = []struct {
	bit        QPAttrMask
	name, flag string
}{
	{QPAttrState, "qp_state", "IBV_QP_STATE"},
	{QPAttrCurState, "cur_qp_state", "IBV_QP_CUR_STATE"},
	{QPAttrEnSQDNotify, "en_sqd_async_notify", "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
	{QPAttrAccessFlags, "qp_access_flags", "IBV_QP_ACCESS_FLAGS"},
	{QPAttrPKeyIndex, "pkey_index", "IBV_QP_PKEY_INDEX"},
	{QPAttrPort, "port_num", "IBV_QP_PORT"},
	{QPAttrQKey, "qkey", "IBV_QP_QKEY"},
	{QPAttrAV, "ah_attr", "IBV_QP_AV"},
	{QPAttrPathMTU, "path_mtu", "IBV_QP_PATH_MTU"},
	{QPAttrTimeout, "timeout", "IBV_QP_TIMEOUT"},
	{QPAttrRetryCnt, "retry_cnt", "IBV_QP_RETRY_CNT"},
	{QPAttrRNRRetry, "rnr_retry", "IBV_QP_RNR_RETRY"},
	{QPAttrRQPSN, "rq_psn", "IBV_QP_RQ_PSN"},
	{QPAttrMaxRdAtomic, "max_rd_atomic", "IBV_QP_MAX_QP_RD_ATOMIC"},
	{QPAttrAltPath, "alt_ah_attr", "IBV_QP_ALT_PATH"},
	{QPAttrMinRNRTimer, "min_rnr_timer", "IBV_QP_MIN_RNR_TIMER"},
	{QPAttrSQPSN, "sq_psn", "IBV_QP_SQ_PSN"},
	{QPAttrMaxDestRdAtomic, "max_dest_rd_atomic", "IBV_QP_MAX_DEST_RD_ATOMIC"},
	{QPAttrPathMigState, "path_mig_state", "IBV_QP_PATH_MIG_STATE"},
	{QPAttrCap, "cap", "IBV_QP_CAP"},
	{QPAttrDestQPN, "dest_qp_num", "IBV_QP_DEST_QPN"},
	{QPAttrRateLimit, "rate_limit", "IBV_QP_RATE_LIMIT"},
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

// String returns the names of enum ibv_qp_attr_mask with bars between them.
func (m QPAttrMask) String() string {
	var names []string
	for _, a := range attrNames {
		if m&a.bit != 0 {
			names = append(names, a.flag)
			m &^= a.bit
		}
	}
	if m != 0 || len(names) == 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(m)))
	}
	return strings.Join(names, "|")
}

// nextStates returns the states that a QP can go to, with "or" between them.
func nextStates(typ QPType, from QPState) string {
	var names []string
	for to := QPReset; to <= QPErr; to++ {
		if _, ok := attrsFor(typ, from, to); ok {
			names = append(names, to.String())
		}
	}
	return strings.Join(names, " or ")
}

// Transition is one step of the life cycle of a queue pair, with the attributes that it requires
// and allows besides IBV_QP_STATE.
type Transition struct {
	From, To           QPState
	Required, Optional QPAttrMask
}

// Transitions returns the life cycle of queue pairs of a type, in the order of the states.
func Transitions(typ QPType) (list []Transition) {
	for from := QPReset; from <= QPErr; from++ {
		for to := QPReset; to <= QPErr; to++ {
			if set, ok := attrsFor(typ, from, to); ok {
				list = append(list, Transition{from, to, set.required, set.optional})
			}
		}
	}
	return list
}

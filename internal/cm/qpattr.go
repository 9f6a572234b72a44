package cm

import "github.com/gorxe/gorxe/rxe"

// QPAttr returns the attributes that take the connection's queue pair to a state: INIT,
// RTR or RTS (ib_cm_init_qp_attr). INIT is allowed from the REQ on, RTR and RTS once
// both sides' parameters are known: on the passive side from the REQ, on the active
// side from the REP. ErrState otherwise.
func (c *Conn) QPAttr(target rxe.QPState) (rxe.QPAttr, rxe.QPAttrMask, error) {
	if !c.hasQPAttr(target) {
		return rxe.QPAttr{}, 0, ErrState
	}
	qp := &c.qp
	a := rxe.QPAttr{State: target}
	mask := rxe.QPAttrState
	// An initiator executes no requests, and a target sends none.
	requester := qp.typ == rxe.QPRC || qp.typ == rxe.QPXRCIni
	responder := qp.typ == rxe.QPRC || qp.typ == rxe.QPXRCTgt
	switch target {
	case rxe.QPInit:
		mask |= rxe.QPAttrAccessFlags | rxe.QPAttrPKeyIndex | rxe.QPAttrPort
		a.PortNum = 1
		a.Access = rxe.AccessRemoteWrite
		if qp.responderResources > 0 {
			a.Access |= rxe.AccessRemoteRead | rxe.AccessRemoteAtomic | rxe.AccessFlushGlobal | rxe.AccessFlushPersist
		}
	case rxe.QPRTR:
		mask |= rxe.QPAttrAV | rxe.QPAttrPathMTU | rxe.QPAttrDestQPN | rxe.QPAttrRQPSN
		a.AH, a.PathMTU, a.DestQPN, a.RQPSN = c.path, qp.mtu, c.peer.qpn, qp.rqPSN
		if responder {
			// The timer 0 is the longest, 655 ms.
			mask |= rxe.QPAttrMaxDestRdAtomic | rxe.QPAttrMinRNRTimer
			a.MaxDestRdAtomic = qp.responderResources
		}
	default:
		mask |= rxe.QPAttrSQPSN
		a.SQPSN = qp.sqPSN
		if requester {
			mask |= rxe.QPAttrRetryCnt | rxe.QPAttrRNRRetry | rxe.QPAttrMaxRdAtomic
			a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = qp.retryCount, qp.rnrRetryCount, qp.initiatorDepth
		}
		if requester || responder {
			mask |= rxe.QPAttrTimeout
			a.Timeout = qp.ackTimeout
		}
	}
	return a, mask, nil
}

func (c *Conn) hasQPAttr(target rxe.QPState) bool {
	switch c.state {
	case StateREQSent, StateMRAREQRcvd:
		return target == rxe.QPInit
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent, StateEstablished:
		return target == rxe.QPInit || target == rxe.QPRTR || target == rxe.QPRTS
	default:
		return false
	}
}

package gsi

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// attrClassPortInfo is the attribute that all classes share (IBA 13.4.8.1).
const attrClassPortInfo = 0x0001

// acceptable reports whether Linux looks for an agent at all (mad.c: validate_mad). Subnet
// management is for queue pair 0, and messages of the connection manager are sent, not
// requested.
func acceptable(mad *wire.MAD) bool {
	switch mad.Class() {
	case wire.MADClassSubnetLID, wire.MADClassSubnetDirected:
		return false
	case wire.MADClassCM:
		return mad.Method() == wire.MADSend || mad.Attribute() == attrClassPortInfo
	default:
		return true
	}
}

// takes reports whether the agent of the datagram's class takes it. The connection manager
// registers for the method Send only (cm.c: cm_add_one). Performance management gets the
// requests (mad.c: ib_mad_recv_done, process_mad), and programs the answers to their own.
func takes(mad *wire.MAD) bool {
	switch mad.Class() {
	case wire.MADClassCM:
		return mad.Method() == wire.MADSend
	case wire.MADClassPerformance:
		return isRequest(mad)
	default:
		return true
	}
}

// isRequest reports whether a datagram asks for an answer.
func isRequest(mad *wire.MAD) bool { return mad.Method() == wire.MADGet || mad.Method() == wire.MADSet }

// answerUnsupported answers a request that no agent takes (mad.c: generate_unmatched_resp).
// Other datagrams are dropped; an answer to one might itself be answered.
func (m *Mux) answerUnsupported(to rxe.AHAttr, dest wire.QPN, mad *wire.MAD) {
	if !isRequest(mad) {
		m.counters.NoAgent.Add(1)
		return
	}
	m.counters.Unsupported.Add(1)
	m.answer(to, dest, mad, wire.MADUnsupportedAttribute)
}

// answer sends a request back as its own answer. A queue pair of this device, other than
// queue pair 1, gets none: the goroutine would wait for its program's memory.
func (m *Mux) answer(to rxe.AHAttr, dest wire.QPN, mad *wire.MAD, status uint16) {
	if _, own := m.dev.GIDIndex(to.DGID); own && dest != wire.GSIQPN {
		m.counters.NoAnswer.Add(1)
		return
	}
	mad.Answer(wire.MADGetResp, status)
	_ = m.Send(to, dest, mad) // counted; the sender asks again
}

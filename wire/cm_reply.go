package wire

import "fmt"

// The messages that set up and end a connection, after the REQ.

// Lengths of the private data.
const (
	CMMRAPrivateLen  = 222
	CMREJPrivateLen  = 148
	CMREPPrivateLen  = 196
	CMRTUPrivateLen  = 224
	CMDREQPrivateLen = 220
	CMDREPPrivateLen = 224
)

// CMREP is a reply: the passive side accepts (IBA 12.6.8).
type CMREP struct{ comms }

// Offsets of the fields of a REP.
const (
	repQKey           = 8  // 32 bits, of an RD queue pair
	repQPN            = 12 // 24 bits
	repVendorHigh     = 15 // 8 bits; the vendor ID is in three pieces
	repXRCQPN         = 16 // 24 bits
	repVendorMiddle   = 19 // 8 bits
	repStartingPSN    = 20 // 24 bits
	repVendorLow      = 23 // 8 bits
	repResponderDepth = 24 // 8 bits
	repInitiatorDepth = 25 // 8 bits
	repACKDelayByte   = 26
	repRNRRetryByte   = 27
	repCAGUID         = 28 // 64 bits
	repPrivateData    = 36
)

// Fields within a byte of a REP.
var (
	repACKDelay      = bitField{3, 5} // of byte 26
	repFailover      = bitField{1, 2}
	repFlowControl   = bitField{0, 1}
	repRNRRetryCount = bitField{5, 3} // of byte 27
	repSRQ           = bitField{4, 1}
)

// CMAttribute returns AttrREP.
func (CMREP) CMAttribute() CMAttribute { return AttrREP }

// QKey returns the queue key of an RD queue pair.
func (m CMREP) QKey() uint32     { return m.u32(repQKey) }
func (m CMREP) SetQKey(v uint32) { m.put32(repQKey, v) }

// QPN returns the sender's queue pair.
func (m CMREP) QPN() QPN     { return QPN(m.u24(repQPN)) }
func (m CMREP) SetQPN(v QPN) { m.put24(repQPN, uint32(v)) }

// XRCQPN returns the sender's XRC target. It stands where other REPs have the number of an
// end-to-end context (Linux: cm_format_rep).
func (m CMREP) XRCQPN() QPN     { return QPN(m.u24(repXRCQPN)) }
func (m CMREP) SetXRCQPN(v QPN) { m.put24(repXRCQPN, uint32(v)) }

// VendorID returns the vendor whose options the sender accepts under ECE.
func (m CMREP) VendorID() uint32 {
	return uint32(m.u8(repVendorHigh))<<16 | uint32(m.u8(repVendorMiddle))<<8 | uint32(m.u8(repVendorLow))
}

func (m CMREP) SetVendorID(v uint32) {
	m.put8(repVendorHigh, uint8(v>>16))
	m.put8(repVendorMiddle, uint8(v>>8))
	m.put8(repVendorLow, uint8(v))
}

// StartingPSN returns the PSN of the first request that the receiver of the REP must
// send.
func (m CMREP) StartingPSN() PSN     { return PSN(m.u24(repStartingPSN)) }
func (m CMREP) SetStartingPSN(v PSN) { m.put24(repStartingPSN, uint32(v)) }

// ResponderResources returns how many READs and atomics the sender answers at a time.
func (m CMREP) ResponderResources() uint8     { return m.u8(repResponderDepth) }
func (m CMREP) SetResponderResources(v uint8) { m.put8(repResponderDepth, v) }

// InitiatorDepth returns how many READs and atomics the sender will have outstanding.
func (m CMREP) InitiatorDepth() uint8     { return m.u8(repInitiatorDepth) }
func (m CMREP) SetInitiatorDepth(v uint8) { m.put8(repInitiatorDepth, v) }

// TargetACKDelay returns how long the sender's device takes to acknowledge: 4.096 µs
// times 2 to this power.
func (m CMREP) TargetACKDelay() uint8     { return m.bits(repACKDelayByte, repACKDelay) }
func (m CMREP) SetTargetACKDelay(v uint8) { m.putBits(repACKDelayByte, repACKDelay, v) }

// Failover returns 0 if the sender accepts the alternate path, and why not otherwise.
func (m CMREP) Failover() uint8     { return m.bits(repACKDelayByte, repFailover) }
func (m CMREP) SetFailover(v uint8) { m.putBits(repACKDelayByte, repFailover, v) }

// FlowControl reports whether the sender sends end-to-end credits.
func (m CMREP) FlowControl() bool     { return m.flag(repACKDelayByte, repFlowControl) }
func (m CMREP) SetFlowControl(v bool) { m.putFlag(repACKDelayByte, repFlowControl, v) }

// RNRRetryCount returns how often the receiver of the REP repeats a request after an
// RNR NAK; 7 means without limit.
func (m CMREP) RNRRetryCount() uint8     { return m.bits(repRNRRetryByte, repRNRRetryCount) }
func (m CMREP) SetRNRRetryCount(v uint8) { m.putBits(repRNRRetryByte, repRNRRetryCount, v) }

// SRQ reports whether the sender's queue pair has a shared receive queue.
func (m CMREP) SRQ() bool     { return m.flag(repRNRRetryByte, repSRQ) }
func (m CMREP) SetSRQ(v bool) { m.putFlag(repRNRRetryByte, repSRQ, v) }

// CAGUID returns the GUID of the sender's device.
func (m CMREP) CAGUID() uint64     { return m.u64(repCAGUID) }
func (m CMREP) SetCAGUID(v uint64) { m.put64(repCAGUID, v) }

// PrivateData returns the consumer's part.
func (m CMREP) PrivateData() []byte { return m.data(repPrivateData, CMREPPrivateLen) }

func (m CMREP) String() string {
	qp := fmt.Sprintf("QP 0x%06x", uint32(m.QPN()))
	if m.QPN() == 0 && m.XRCQPN() != 0 {
		qp = fmt.Sprintf("XRC QP 0x%06x", uint32(m.XRCQPN()))
	}
	return fmt.Sprintf("REP id 0x%08x for 0x%08x %s PSN 0x%06x", m.LocalCommID(), m.RemoteCommID(), qp, m.StartingPSN())
}

// CMSubject says which message an MRA or REJ is about.
type CMSubject uint8

// The messages that an MRA or REJ can be about (IBA 12.6.6, 12.6.7).
const (
	CMSubjectREQ   CMSubject = 0
	CMSubjectREP   CMSubject = 1
	CMSubjectOther CMSubject = 2 // a LAP in an MRA, no message in a REJ
)

func (s CMSubject) String() string {
	switch s {
	case CMSubjectREQ:
		return "REQ"
	case CMSubjectREP:
		return "REP"
	case CMSubjectOther:
		return "other"
	}
	return fmt.Sprintf("reserved message %d", uint8(s))
}

// CMMRA is a message receipt acknowledgement: the answer will take longer (IBA 12.6.6).
type CMMRA struct{ comms }

// Offsets of the fields of an MRA.
const (
	mraSubjectByte = 8
	mraTimeoutByte = 9
	mraPrivateData = 10
)

var (
	mraSubject = bitField{6, 2} // of byte 8
	mraTimeout = bitField{3, 5} // of byte 9
)

// CMAttribute returns AttrMRA.
func (CMMRA) CMAttribute() CMAttribute { return AttrMRA }

// MessageMRAed returns which message was received.
func (m CMMRA) MessageMRAed() CMSubject     { return CMSubject(m.bits(mraSubjectByte, mraSubject)) }
func (m CMMRA) SetMessageMRAed(v CMSubject) { m.putBits(mraSubjectByte, mraSubject, uint8(v)) }

// ServiceTimeout returns how long the answer may take: 4.096 µs times 2 to this power.
func (m CMMRA) ServiceTimeout() uint8     { return m.bits(mraTimeoutByte, mraTimeout) }
func (m CMMRA) SetServiceTimeout(v uint8) { m.putBits(mraTimeoutByte, mraTimeout, v) }

// PrivateData returns the consumer's part.
func (m CMMRA) PrivateData() []byte { return m.data(mraPrivateData, CMMRAPrivateLen) }

func (m CMMRA) String() string {
	return fmt.Sprintf("MRA id 0x%08x for 0x%08x, of a %v", m.LocalCommID(), m.RemoteCommID(), m.MessageMRAed())
}

// CMREJ is a reject: no connection, and why (IBA 12.6.7).
type CMREJ struct{ comms }

// Offsets of the fields of a REJ.
const (
	rejSubjectByte = 8
	rejInfoByte    = 9
	rejReason      = 10 // 16 bits
	rejInfo        = 12
	rejPrivateData = 84
	cmInfoLen      = 72
)

var (
	rejSubject    = bitField{6, 2} // of byte 8
	rejInfoLength = bitField{1, 7} // of byte 9
)

// CMAttribute returns AttrREJ.
func (CMREJ) CMAttribute() CMAttribute { return AttrREJ }

// MessageRejected returns which message is rejected.
func (m CMREJ) MessageRejected() CMSubject     { return CMSubject(m.bits(rejSubjectByte, rejSubject)) }
func (m CMREJ) SetMessageRejected(v CMSubject) { m.putBits(rejSubjectByte, rejSubject, uint8(v)) }

// Reason returns why.
func (m CMREJ) Reason() CMReason     { return CMReason(m.u16(rejReason)) }
func (m CMREJ) SetReason(v CMReason) { m.put16(rejReason, uint16(v)) }

// Info returns the additional reject information: what the sender would accept.
func (m CMREJ) Info() []byte {
	return m.data(rejInfo, min(int(m.bits(rejInfoByte, rejInfoLength)), cmInfoLen))
}

// SetInfo sets the additional reject information, of which it keeps 72 bytes at most.
func (m CMREJ) SetInfo(info []byte) { m.putBits(rejInfoByte, rejInfoLength, m.putInfo(rejInfo, info)) }

// PrivateData returns the consumer's part.
func (m CMREJ) PrivateData() []byte { return m.data(rejPrivateData, CMREJPrivateLen) }

func (m CMREJ) String() string {
	return fmt.Sprintf("REJ id 0x%08x for 0x%08x, of a %v: %v", m.LocalCommID(), m.RemoteCommID(), m.MessageRejected(), m.Reason())
}

// putInfo writes additional information, zero behind its end, and returns its length.
func (m *MAD) putInfo(off int, info []byte) uint8 {
	room := m.data(off, cmInfoLen)
	n := copy(room, info)
	clear(room[n:])
	return uint8(n)
}

// CMRTU is ready to use: the active side has the reply (IBA 12.6.9).
type CMRTU struct{ comms }

const rtuPrivateData = 8

// CMAttribute returns AttrRTU.
func (CMRTU) CMAttribute() CMAttribute { return AttrRTU }

// PrivateData returns the consumer's part.
func (m CMRTU) PrivateData() []byte { return m.data(rtuPrivateData, CMRTUPrivateLen) }

func (m CMRTU) String() string {
	return fmt.Sprintf("RTU id 0x%08x for 0x%08x", m.LocalCommID(), m.RemoteCommID())
}

// CMDREQ is a disconnection request (IBA 12.6.10).
type CMDREQ struct{ comms }

const (
	dreqRemoteQPN   = 8 // 24 bits
	dreqPrivateData = 12
)

// CMAttribute returns AttrDREQ.
func (CMDREQ) CMAttribute() CMAttribute { return AttrDREQ }

// RemoteQPN returns the receiver's queue pair.
func (m CMDREQ) RemoteQPN() QPN     { return QPN(m.u24(dreqRemoteQPN)) }
func (m CMDREQ) SetRemoteQPN(v QPN) { m.put24(dreqRemoteQPN, uint32(v)) }

// PrivateData returns the consumer's part.
func (m CMDREQ) PrivateData() []byte { return m.data(dreqPrivateData, CMDREQPrivateLen) }

func (m CMDREQ) String() string {
	return fmt.Sprintf("DREQ id 0x%08x for 0x%08x QP 0x%06x", m.LocalCommID(), m.RemoteCommID(), m.RemoteQPN())
}

// CMDREP is a disconnection reply (IBA 12.6.11).
type CMDREP struct{ comms }

const drepPrivateData = 8

// CMAttribute returns AttrDREP.
func (CMDREP) CMAttribute() CMAttribute { return AttrDREP }

// PrivateData returns the consumer's part.
func (m CMDREP) PrivateData() []byte { return m.data(drepPrivateData, CMDREPPrivateLen) }

func (m CMDREP) String() string {
	return fmt.Sprintf("DREP id 0x%08x for 0x%08x", m.LocalCommID(), m.RemoteCommID())
}

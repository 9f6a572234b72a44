package wire

import "fmt"

// The messages that resolve a service to a UD queue pair.

// Lengths of the private data. That of a SIDR_REQ begins with an IPCMHeader under the
// RDMA IP CM service.
const (
	CMSIDRREQPrivateLen = 216
	CMSIDRREPPrivateLen = 136
)

// CMSIDRREQ is a service ID resolution request (IBA 12.11.1).
type CMSIDRREQ struct{ *MAD }

// Offsets of the fields of a SIDR_REQ.
const (
	sidrRequestID = 0 // 32 bits, also in a SIDR_REP

	sidrReqPKey        = 4 // 16 bits
	sidrReqServiceID   = 8 // 64 bits
	sidrReqPrivateData = 16
)

// CMAttribute returns AttrSIDRREQ.
func (CMSIDRREQ) CMAttribute() CMAttribute { return AttrSIDRREQ }

// RequestID returns the sender's identifier of the request.
func (m CMSIDRREQ) RequestID() uint32     { return m.u32(sidrRequestID) }
func (m CMSIDRREQ) SetRequestID(v uint32) { m.put32(sidrRequestID, v) }

// PKey returns the partition in which the sender will talk.
func (m CMSIDRREQ) PKey() PKey     { return PKey(m.u16(sidrReqPKey)) }
func (m CMSIDRREQ) SetPKey(v PKey) { m.put16(sidrReqPKey, uint16(v)) }

// ServiceID returns the service that the sender asks for: see SplitServiceID.
func (m CMSIDRREQ) ServiceID() uint64     { return m.u64(sidrReqServiceID) }
func (m CMSIDRREQ) SetServiceID(v uint64) { m.put64(sidrReqServiceID, v) }

// PrivateData returns the consumer's part.
func (m CMSIDRREQ) PrivateData() []byte { return m.data(sidrReqPrivateData, CMSIDRREQPrivateLen) }

func (m CMSIDRREQ) String() string {
	return fmt.Sprintf("SIDR_REQ id 0x%08x service 0x%016x", m.RequestID(), m.ServiceID())
}

// CMSIDRREP is a service ID resolution reply (IBA 12.11.2).
type CMSIDRREP struct{ *MAD }

// Offsets of the fields of a SIDR_REP.
const (
	sidrRepStatus      = 4  // 8 bits
	sidrRepInfoLength  = 5  // 8 bits
	sidrRepVendorHigh  = 6  // 16 bits; the vendor ID is in two pieces
	sidrRepQPN         = 8  // 24 bits
	sidrRepVendorLow   = 11 // 8 bits
	sidrRepServiceID   = 12 // 64 bits
	sidrRepQKey        = 20 // 32 bits
	sidrRepInfo        = 24
	sidrRepPrivateData = 96
)

// CMAttribute returns AttrSIDRREP.
func (CMSIDRREP) CMAttribute() CMAttribute { return AttrSIDRREP }

// RequestID returns the identifier of the request that is answered.
func (m CMSIDRREP) RequestID() uint32     { return m.u32(sidrRequestID) }
func (m CMSIDRREP) SetRequestID(v uint32) { m.put32(sidrRequestID, v) }

// Status returns whether the service was resolved; the queue pair has a meaning only
// if it is SIDRSuccess.
func (m CMSIDRREP) Status() SIDRStatus     { return SIDRStatus(m.u8(sidrRepStatus)) }
func (m CMSIDRREP) SetStatus(v SIDRStatus) { m.put8(sidrRepStatus, uint8(v)) }

// VendorID returns the vendor whose options the sender accepts under ECE.
func (m CMSIDRREP) VendorID() uint32 {
	return uint32(m.u16(sidrRepVendorHigh))<<8 | uint32(m.u8(sidrRepVendorLow))
}

func (m CMSIDRREP) SetVendorID(v uint32) {
	m.put16(sidrRepVendorHigh, uint16(v>>8))
	m.put8(sidrRepVendorLow, uint8(v))
}

// QPN returns the queue pair of the service.
func (m CMSIDRREP) QPN() QPN     { return QPN(m.u24(sidrRepQPN)) }
func (m CMSIDRREP) SetQPN(v QPN) { m.put24(sidrRepQPN, uint32(v)) }

// ServiceID returns the service.
func (m CMSIDRREP) ServiceID() uint64     { return m.u64(sidrRepServiceID) }
func (m CMSIDRREP) SetServiceID(v uint64) { m.put64(sidrRepServiceID, v) }

// QKey returns the queue key of the queue pair.
func (m CMSIDRREP) QKey() uint32     { return m.u32(sidrRepQKey) }
func (m CMSIDRREP) SetQKey(v uint32) { m.put32(sidrRepQKey, v) }

// Info returns the additional information.
func (m CMSIDRREP) Info() []byte {
	return m.data(sidrRepInfo, min(int(m.u8(sidrRepInfoLength)), cmInfoLen))
}

// SetInfo sets the additional information, of which it keeps 72 bytes at most.
func (m CMSIDRREP) SetInfo(info []byte) { m.put8(sidrRepInfoLength, m.putInfo(sidrRepInfo, info)) }

// PrivateData returns the consumer's part.
func (m CMSIDRREP) PrivateData() []byte { return m.data(sidrRepPrivateData, CMSIDRREPPrivateLen) }

func (m CMSIDRREP) String() string {
	return fmt.Sprintf("SIDR_REP id 0x%08x QP 0x%06x: %v", m.RequestID(), m.QPN(), m.Status())
}

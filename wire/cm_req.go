package wire

import "fmt"

// CMREQ is a request for communication: the active side asks for a connection
// (IBA 12.6.5).
type CMREQ struct{ *MAD }

// CMREQPrivateLen is the length of the private data of a REQ. Under the RDMA IP CM
// service it begins with an IPCMHeader.
const CMREQPrivateLen = 92

// Offsets of the fields of a REQ.
const (
	reqVendorID          = 5  // 24 bits, of enhanced connection establishment (ECE)
	reqServiceID         = 8  // 64 bits
	reqCAGUID            = 16 // 64 bits
	reqQKey              = 28 // 32 bits, of an RD queue pair
	reqQPN               = 32 // 24 bits
	reqResponderDepth    = 35 // 8 bits
	reqInitiatorDepth    = 39 // 8 bits
	reqRemoteTimeoutByte = 43
	reqStartingPSN       = 44 // 24 bits
	reqLocalTimeoutByte  = 47
	reqPKey              = 48 // 16 bits
	reqMTUByte           = 50
	reqRetriesByte       = 51
	reqPrimaryPath       = 52
	reqAlternatePath     = 96
	reqPrivateData       = 140
)

// Fields within a byte of a REQ.
var (
	reqRemoteTimeout = bitField{3, 5} // of byte 43
	reqTransport     = bitField{1, 2}
	reqFlowControl   = bitField{0, 1}
	reqLocalTimeout  = bitField{3, 5} // of byte 47
	reqRetryCount    = bitField{0, 3}
	reqMTU           = bitField{4, 4} // of byte 50
	reqRNRRetryCount = bitField{0, 3}
	reqMaxCMRetries  = bitField{4, 4} // of byte 51
	reqSRQ           = bitField{3, 1}
	reqExtTransport  = bitField{0, 3}
)

// CMAttribute returns AttrREQ.
func (CMREQ) CMAttribute() CMAttribute { return AttrREQ }

// LocalCommID returns the sender's identifier of the connection. There is no remote
// one yet.
func (m CMREQ) LocalCommID() uint32     { return m.u32(cmLocalCommID) }
func (m CMREQ) SetLocalCommID(v uint32) { m.put32(cmLocalCommID, v) }

// VendorID returns the vendor whose options the sender offers under ECE.
func (m CMREQ) VendorID() uint32     { return m.u24(reqVendorID) }
func (m CMREQ) SetVendorID(v uint32) { m.put24(reqVendorID, v) }

// ServiceID returns the service that the sender asks for: see SplitServiceID.
func (m CMREQ) ServiceID() uint64     { return m.u64(reqServiceID) }
func (m CMREQ) SetServiceID(v uint64) { m.put64(reqServiceID, v) }

// CAGUID returns the GUID of the sender's device.
func (m CMREQ) CAGUID() uint64     { return m.u64(reqCAGUID) }
func (m CMREQ) SetCAGUID(v uint64) { m.put64(reqCAGUID, v) }

// QKey returns the queue key of an RD queue pair.
func (m CMREQ) QKey() uint32     { return m.u32(reqQKey) }
func (m CMREQ) SetQKey(v uint32) { m.put32(reqQKey, v) }

// QPN returns the sender's queue pair.
func (m CMREQ) QPN() QPN     { return QPN(m.u24(reqQPN)) }
func (m CMREQ) SetQPN(v QPN) { m.put24(reqQPN, uint32(v)) }

// ResponderResources returns how many READs and atomics the sender answers at a time.
func (m CMREQ) ResponderResources() uint8     { return m.u8(reqResponderDepth) }
func (m CMREQ) SetResponderResources(v uint8) { m.put8(reqResponderDepth, v) }

// InitiatorDepth returns how many READs and atomics the sender wants to have
// outstanding.
func (m CMREQ) InitiatorDepth() uint8     { return m.u8(reqInitiatorDepth) }
func (m CMREQ) SetInitiatorDepth(v uint8) { m.put8(reqInitiatorDepth, v) }

// RemoteCMTimeout returns within what time the receiver must answer: 4.096 µs times
// 2 to this power.
func (m CMREQ) RemoteCMTimeout() uint8     { return m.bits(reqRemoteTimeoutByte, reqRemoteTimeout) }
func (m CMREQ) SetRemoteCMTimeout(v uint8) { m.putBits(reqRemoteTimeoutByte, reqRemoteTimeout, v) }

// TransportType returns the transport: 0 for RC, 1 for UC, 2 for RD, and 3 if
// ExtendedTransportType says it.
func (m CMREQ) TransportType() uint8     { return m.bits(reqRemoteTimeoutByte, reqTransport) }
func (m CMREQ) SetTransportType(v uint8) { m.putBits(reqRemoteTimeoutByte, reqTransport, v) }

// FlowControl reports whether the sender sends end-to-end credits.
func (m CMREQ) FlowControl() bool     { return m.flag(reqRemoteTimeoutByte, reqFlowControl) }
func (m CMREQ) SetFlowControl(v bool) { m.putFlag(reqRemoteTimeoutByte, reqFlowControl, v) }

// StartingPSN returns the PSN of the first request that the receiver of the REQ must
// send.
func (m CMREQ) StartingPSN() PSN     { return PSN(m.u24(reqStartingPSN)) }
func (m CMREQ) SetStartingPSN(v PSN) { m.put24(reqStartingPSN, uint32(v)) }

// LocalCMTimeout returns within what time the sender will answer, as RemoteCMTimeout.
func (m CMREQ) LocalCMTimeout() uint8     { return m.bits(reqLocalTimeoutByte, reqLocalTimeout) }
func (m CMREQ) SetLocalCMTimeout(v uint8) { m.putBits(reqLocalTimeoutByte, reqLocalTimeout, v) }

// RetryCount returns how often a requester repeats a request before it gives up.
func (m CMREQ) RetryCount() uint8     { return m.bits(reqLocalTimeoutByte, reqRetryCount) }
func (m CMREQ) SetRetryCount(v uint8) { m.putBits(reqLocalTimeoutByte, reqRetryCount, v) }

// PKey returns the partition of the connection.
func (m CMREQ) PKey() PKey     { return PKey(m.u16(reqPKey)) }
func (m CMREQ) SetPKey(v PKey) { m.put16(reqPKey, uint16(v)) }

// PathMTU returns the code of the path MTU: 1 for 256 bytes to 5 for 4096.
func (m CMREQ) PathMTU() uint8     { return m.bits(reqMTUByte, reqMTU) }
func (m CMREQ) SetPathMTU(v uint8) { m.putBits(reqMTUByte, reqMTU, v) }

// RNRRetryCount returns how often the receiver of the REQ repeats a request after an
// RNR NAK; 7 means without limit.
func (m CMREQ) RNRRetryCount() uint8     { return m.bits(reqMTUByte, reqRNRRetryCount) }
func (m CMREQ) SetRNRRetryCount(v uint8) { m.putBits(reqMTUByte, reqRNRRetryCount, v) }

// MaxCMRetries returns how often a connection manager repeats a message.
func (m CMREQ) MaxCMRetries() uint8     { return m.bits(reqRetriesByte, reqMaxCMRetries) }
func (m CMREQ) SetMaxCMRetries(v uint8) { m.putBits(reqRetriesByte, reqMaxCMRetries, v) }

// SRQ reports whether the sender's queue pair has a shared receive queue.
func (m CMREQ) SRQ() bool     { return m.flag(reqRetriesByte, reqSRQ) }
func (m CMREQ) SetSRQ(v bool) { m.putFlag(reqRetriesByte, reqSRQ, v) }

// ExtendedTransportType returns 1 for XRC; it has a meaning if TransportType is 3.
func (m CMREQ) ExtendedTransportType() uint8     { return m.bits(reqRetriesByte, reqExtTransport) }
func (m CMREQ) SetExtendedTransportType(v uint8) { m.putBits(reqRetriesByte, reqExtTransport, v) }

// XRC reports whether the sender's queue pair is an XRC initiator.
func (m CMREQ) XRC() bool { return m.TransportType() == 3 && m.ExtendedTransportType() == 1 }

// PrimaryPath returns the path of the connection.
func (m CMREQ) PrimaryPath() CMPath        { return m.path(reqPrimaryPath, &reqPathLayout) }
func (m CMREQ) SetPrimaryPath(p *CMPath)   { m.putPath(reqPrimaryPath, &reqPathLayout, p) }
func (m CMREQ) AlternatePath() CMPath      { return m.path(reqAlternatePath, &reqPathLayout) }
func (m CMREQ) SetAlternatePath(p *CMPath) { m.putPath(reqAlternatePath, &reqPathLayout, p) }

// PrivateData returns the consumer's part.
func (m CMREQ) PrivateData() []byte { return m.data(reqPrivateData, CMREQPrivateLen) }

func (m CMREQ) String() string {
	return fmt.Sprintf("REQ id 0x%08x service 0x%016x QP 0x%06x PSN 0x%06x", m.LocalCommID(), m.ServiceID(), m.QPN(), m.StartingPSN())
}

// CMPath is a path in a REQ or LAP, as the sender of the message sees it. An
// alternate path whose LocalLID is 0 does not exist.
type CMPath struct {
	LocalLID, RemoteLID uint16 // 0xffff for RoCE
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	TrafficClass        uint8
	HopLimit            uint8
	Rate                uint8 // 6 bits
	ServiceLevel        uint8 // 4 bits
	SubnetLocal         bool
	LocalACKTimeout     uint8 // 5 bits: 4.096 µs times 2 to this power
}

// Offsets of the fields of a path; those that differ between REQ and LAP are in a
// pathLayout.
const (
	pathLocalLID    = 0  // 16 bits
	pathRemoteLID   = 2  // 16 bits
	pathLocalGID    = 4  // 128 bits
	pathRemoteGID   = 20 // 128 bits
	pathFlowLabel   = 36 // 20 bits
	pathSLByte      = 42
	pathTimeoutByte = 43
)

var (
	pathRate        = bitField{0, 6}
	pathSL          = bitField{4, 4}
	pathSubnetLocal = bitField{3, 1}
	pathACKTimeout  = bitField{3, 5}
)

type pathLayout struct{ rate, trafficClass, hopLimit int }

var (
	reqPathLayout = pathLayout{rate: 39, trafficClass: 40, hopLimit: 41}
	lapPathLayout = pathLayout{trafficClass: 39, hopLimit: 40, rate: 41}
)

func (m *MAD) path(at int, l *pathLayout) CMPath {
	return CMPath{
		LocalLID:        m.u16(at + pathLocalLID),
		RemoteLID:       m.u16(at + pathRemoteLID),
		LocalGID:        GID(m.data(at+pathLocalGID, 16)),
		RemoteGID:       GID(m.data(at+pathRemoteGID, 16)),
		FlowLabel:       m.u32(at+pathFlowLabel) >> 12,
		TrafficClass:    m.u8(at + l.trafficClass),
		HopLimit:        m.u8(at + l.hopLimit),
		Rate:            m.bits(at+l.rate, pathRate),
		ServiceLevel:    m.bits(at+pathSLByte, pathSL),
		SubnetLocal:     m.flag(at+pathSLByte, pathSubnetLocal),
		LocalACKTimeout: m.bits(at+pathTimeoutByte, pathACKTimeout),
	}
}

func (m *MAD) putPath(at int, l *pathLayout, p *CMPath) {
	m.put16(at+pathLocalLID, p.LocalLID)
	m.put16(at+pathRemoteLID, p.RemoteLID)
	copy(m.data(at+pathLocalGID, 16), p.LocalGID[:])
	copy(m.data(at+pathRemoteGID, 16), p.RemoteGID[:])
	// The flow label shares its last byte with four reserved bits.
	m.put16(at+pathFlowLabel, uint16(p.FlowLabel>>4))
	m.putBits(at+pathFlowLabel+2, bitField{4, 4}, uint8(p.FlowLabel))
	m.put8(at+l.trafficClass, p.TrafficClass)
	m.put8(at+l.hopLimit, p.HopLimit)
	m.putBits(at+l.rate, pathRate, p.Rate)
	m.putBits(at+pathSLByte, pathSL, p.ServiceLevel)
	m.putFlag(at+pathSLByte, pathSubnetLocal, p.SubnetLocal)
	m.putBits(at+pathTimeoutByte, pathACKTimeout, p.LocalACKTimeout)
}

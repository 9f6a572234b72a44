package verbsapi

import (
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Scalars of the engine, whose meaning is the same.
type (
	GID  = wire.GID  // union ibv_gid
	QPN  = wire.QPN  // 24 bits
	PSN  = wire.PSN  // 24 bits
	LKey = wire.LKey // names a region in local work requests
	RKey = wire.RKey // names a region or window in a peer's requests
	PKey = wire.PKey // partition key

	QPAttrMask = rxe.QPAttrMask // enum ibv_qp_attr_mask
	DeviceCap  = rxe.DeviceCap  // enum ibv_device_cap_flags
	Access     = rxe.Access     // enum ibv_access_flags
	MTU        = rxe.MTU        // bytes
	QPType     = rxe.QPType     // enum ibv_qp_type
	QPState    = rxe.QPState    // enum ibv_qp_state
	WROpcode   = rxe.WROpcode   // enum ibv_wr_opcode
	SendFlags  = rxe.SendFlags  // enum ibv_send_flags
	WCOpcode   = rxe.WCOpcode   // enum ibv_wc_opcode
	WCFlags    = rxe.WCFlags    // enum ibv_wc_flags
	WCStatus   = rxe.WCStatus   // enum ibv_wc_status
	EventType  = rxe.EventType  // enum ibv_event_type
	PortState  = rxe.PortState  // enum ibv_port_state
	MWType     = rxe.MWType     // enum ibv_mw_type
)

// enum ibv_device_cap_flags, as far as the device has them. A device has one of the
// two types of memory window: CapMemWindowType2B, unless Config.Limits says
// otherwise.
const (
	CapBadPKeyCntr      = rxe.CapBadPKeyCntr
	CapBadQKeyCntr      = rxe.CapBadQKeyCntr
	CapUDAVPortEnforce  = rxe.CapUDAVPortEnforce
	CapPortActiveEvent  = rxe.CapPortActiveEvent
	CapSysImageGUID     = rxe.CapSysImageGUID
	CapRCRNRNAKGen      = rxe.CapRCRNRNAKGen
	CapSRQResize        = rxe.CapSRQResize
	CapMemWindow        = rxe.CapMemWindow
	CapXRC              = rxe.CapXRC
	CapMemMgtExtensions = rxe.CapMemMgtExtensions
	CapMemWindowType2A  = rxe.CapMemWindowType2A
	CapMemWindowType2B  = rxe.CapMemWindowType2B
	CapFlushGlobal      = rxe.CapFlushGlobal
	CapFlushPersistent  = rxe.CapFlushPersistent
	CapAtomicWrite      = rxe.CapAtomicWrite
)

// DefaultLimits returns the capabilities and limits of a device that was opened
// without Config.Limits, as a base for others.
func DefaultLimits() DeviceAttr {
	a := rxe.DefaultLimits()
	a.Cap |= CapXRC
	return a
}

// DefaultECN returns how a device answers congestion unless Config.ECN says otherwise.
func DefaultECN() ECN { return rxe.DefaultECN() }

// enum ibv_access_flags.
const (
	AccessLocalWrite   = rxe.AccessLocalWrite
	AccessRemoteWrite  = rxe.AccessRemoteWrite
	AccessRemoteRead   = rxe.AccessRemoteRead
	AccessRemoteAtomic = rxe.AccessRemoteAtomic
	AccessMWBind       = rxe.AccessMWBind
	AccessZeroBased    = rxe.AccessZeroBased
	AccessOnDemand     = rxe.AccessOnDemand
	AccessHugeTLB      = rxe.AccessHugeTLB
	AccessFlushGlobal  = rxe.AccessFlushGlobal
	AccessFlushPersist = rxe.AccessFlushPersist
	AccessRelaxed      = rxe.AccessRelaxed
)

// enum ibv_qp_type, as far as this device has them.
const (
	QPRC = rxe.QPRC
	QPUC = rxe.QPUC
	QPUD = rxe.QPUD

	QPRaw = rxe.QPRaw // whole Ethernet frames: QP.CreateFlow

	QPXRCIni = rxe.QPXRCIni // sends to SRQs of XRC
	QPXRCTgt = rxe.QPXRCTgt // receives for them: XRCD.CreateTarget
)

// enum ibv_qp_state.
const (
	QPReset = rxe.QPReset
	QPInit  = rxe.QPInit
	QPRTR   = rxe.QPRTR
	QPRTS   = rxe.QPRTS
	QPSQD   = rxe.QPSQD
	QPSQE   = rxe.QPSQE
	QPErr   = rxe.QPErr
)

// enum ibv_qp_attr_mask.
const (
	QPAttrState           = rxe.QPAttrState
	QPAttrCurState        = rxe.QPAttrCurState
	QPAttrEnSQDNotify     = rxe.QPAttrEnSQDNotify
	QPAttrAccessFlags     = rxe.QPAttrAccessFlags
	QPAttrPKeyIndex       = rxe.QPAttrPKeyIndex
	QPAttrPort            = rxe.QPAttrPort
	QPAttrQKey            = rxe.QPAttrQKey
	QPAttrAV              = rxe.QPAttrAV
	QPAttrPathMTU         = rxe.QPAttrPathMTU
	QPAttrTimeout         = rxe.QPAttrTimeout
	QPAttrRetryCnt        = rxe.QPAttrRetryCnt
	QPAttrRNRRetry        = rxe.QPAttrRNRRetry
	QPAttrRQPSN           = rxe.QPAttrRQPSN
	QPAttrMaxRdAtomic     = rxe.QPAttrMaxRdAtomic
	QPAttrAltPath         = rxe.QPAttrAltPath
	QPAttrMinRNRTimer     = rxe.QPAttrMinRNRTimer
	QPAttrSQPSN           = rxe.QPAttrSQPSN
	QPAttrMaxDestRdAtomic = rxe.QPAttrMaxDestRdAtomic
	QPAttrPathMigState    = rxe.QPAttrPathMigState
	QPAttrCap             = rxe.QPAttrCap
	QPAttrDestQPN         = rxe.QPAttrDestQPN
	QPAttrRateLimit       = rxe.QPAttrRateLimit
)

// enum ibv_wr_opcode.
const (
	WRWrite       = rxe.WRWrite
	WRWriteImm    = rxe.WRWriteImm
	WRSend        = rxe.WRSend
	WRSendImm     = rxe.WRSendImm
	WRRead        = rxe.WRRead
	WRCompareSwap = rxe.WRCompareSwap
	WRFetchAdd    = rxe.WRFetchAdd
	WRLocalInv    = rxe.WRLocalInv
	WRBindMW      = rxe.WRBindMW
	WRSendInv     = rxe.WRSendInv
	WRFlush       = rxe.WRFlush
	WRAtomicWrite = rxe.WRAtomicWrite
)

// enum ibv_send_flags.
const (
	SendFence     = rxe.SendFence
	SendSignaled  = rxe.SendSignaled
	SendSolicited = rxe.SendSolicited
	SendInline    = rxe.SendInline
)

// enum ibv_wc_opcode.
const (
	WCSend        = rxe.WCSend
	WCWrite       = rxe.WCWrite
	WCRead        = rxe.WCRead
	WCCompareSwap = rxe.WCCompareSwap
	WCFetchAdd    = rxe.WCFetchAdd
	WCBindMW      = rxe.WCBindMW
	WCLocalInv    = rxe.WCLocalInv
	WCFlush       = rxe.WCFlush
	WCAtomicWrite = rxe.WCAtomicWrite
	WCRecv        = rxe.WCRecv
	WCRecvImm     = rxe.WCRecvImm
)

// enum ibv_wc_flags.
const (
	WCGRH      = rxe.WCGRH
	WCWithImm  = rxe.WCWithImm
	WCIPCsumOK = rxe.WCIPCsumOK
	WCWithInv  = rxe.WCWithInv
)

// WC.SL of a UD receive says over which network header the message came. Adapters
// of the ConnectX family report the same.
const (
	SLRoCEv2IPv6 = rxe.SLRoCEv2IPv6
	SLRoCEv2IPv4 = rxe.SLRoCEv2IPv4
)

// enum ibv_wc_status.
const (
	WCSuccess       = rxe.WCSuccess
	WCLocLenErr     = rxe.WCLocLenErr
	WCLocQPOpErr    = rxe.WCLocQPOpErr
	WCLocEECOpErr   = rxe.WCLocEECOpErr
	WCLocProtErr    = rxe.WCLocProtErr
	WCFlushErr      = rxe.WCFlushErr
	WCMWBindErr     = rxe.WCMWBindErr
	WCBadRespErr    = rxe.WCBadRespErr
	WCLocAccessErr  = rxe.WCLocAccessErr
	WCRemInvReqErr  = rxe.WCRemInvReqErr
	WCRemAccessErr  = rxe.WCRemAccessErr
	WCRemOpErr      = rxe.WCRemOpErr
	WCRetryExcErr   = rxe.WCRetryExcErr
	WCRNRRetryErr   = rxe.WCRNRRetryErr
	WCLocRDDViolErr = rxe.WCLocRDDViolErr
	WCRemInvRDReq   = rxe.WCRemInvRDReq
	WCRemAbortErr   = rxe.WCRemAbortErr
	WCInvEECNErr    = rxe.WCInvEECNErr
	WCInvEECStErr   = rxe.WCInvEECStErr
	WCFatalErr      = rxe.WCFatalErr
	WCRespTimeout   = rxe.WCRespTimeout
	WCGeneralErr    = rxe.WCGeneralErr
)

// enum ibv_event_type. Events that this device never raises (path migration, subnet
// manager) exist for EventTypeStr.
const (
	EventCQErr            = rxe.EventCQErr
	EventQPFatal          = rxe.EventQPFatal
	EventQPReqErr         = rxe.EventQPReqErr
	EventQPAccessErr      = rxe.EventQPAccessErr
	EventCommEst          = rxe.EventCommEst
	EventSQDrained        = rxe.EventSQDrained
	EventPathMig          = rxe.EventPathMig
	EventPathMigErr       = rxe.EventPathMigErr
	EventDeviceFatal      = rxe.EventDeviceFatal
	EventPortActive       = rxe.EventPortActive
	EventPortErr          = rxe.EventPortErr
	EventLIDChange        = rxe.EventLIDChange
	EventPKeyChange       = rxe.EventPKeyChange
	EventSMChange         = rxe.EventSMChange
	EventSRQErr           = rxe.EventSRQErr
	EventSRQLimitReached  = rxe.EventSRQLimitReached
	EventQPLastWQEReached = rxe.EventQPLastWQEReached
	EventClientReregister = rxe.EventClientReregister
	EventGIDChange        = rxe.EventGIDChange
	EventWQFatal          = segment.EventWQFatal

	EventDeviceSpeedChange = rxe.EventDeviceSpeedChange
)

// enum ibv_port_state.
const (
	PortNop         = rxe.PortNop
	PortDown        = rxe.PortDown
	PortInit        = rxe.PortInit
	PortArmed       = rxe.PortArmed
	PortActive      = rxe.PortActive
	PortActiveDefer = rxe.PortActiveDefer
)

// NodeType is enum ibv_node_type.
type NodeType = rxe.NodeType

// NodeCA is the type of every device here: a channel adapter.
const NodeCA = rxe.NodeCA

// TransportType is enum ibv_transport_type.
type TransportType int8

// TransportIB is the InfiniBand transport, which RoCEv2 carries.
const TransportIB TransportType = 0

// NodeTypeStr describes a node type, in libibverbs' words as all of these
// (ibv_node_type_str).
func NodeTypeStr(t NodeType) string { return t.String() }

// PortStateStr describes a port state (ibv_port_state_str).
func PortStateStr(s PortState) string { return s.String() }

// EventTypeStr describes an asynchronous event (ibv_event_type_str).
func EventTypeStr(t EventType) string { return t.String() }

// WCStatusStr describes a completion status (ibv_wc_status_str).
func WCStatusStr(s WCStatus) string { return s.String() }

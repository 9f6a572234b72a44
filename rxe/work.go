package rxe

import "github.com/gorxe/gorxe/wire"

// SGE is a piece of registered memory (struct ibv_sge).
type SGE struct {
	Addr   uint64 // as the region names it (its iova)
	Length uint32 // bytes
	LKey   wire.LKey
}

// WROpcode says what a send work request does. The values are those of enum
// ibv_wr_opcode.
type WROpcode uint8

const (
	WRWrite       WROpcode = 0  // IBV_WR_RDMA_WRITE
	WRWriteImm    WROpcode = 1  // IBV_WR_RDMA_WRITE_WITH_IMM
	WRSend        WROpcode = 2  // IBV_WR_SEND
	WRSendImm     WROpcode = 3  // IBV_WR_SEND_WITH_IMM
	WRRead        WROpcode = 4  // IBV_WR_RDMA_READ
	WRCompareSwap WROpcode = 5  // IBV_WR_ATOMIC_CMP_AND_SWP
	WRFetchAdd    WROpcode = 6  // IBV_WR_ATOMIC_FETCH_AND_ADD
	WRLocalInv    WROpcode = 7  // IBV_WR_LOCAL_INV
	WRBindMW      WROpcode = 8  // IBV_WR_BIND_MW
	WRSendInv     WROpcode = 9  // IBV_WR_SEND_WITH_INV
	WRNop         WROpcode = 11 // none of enum ibv_wr_opcode: a request that only completes
	WRFlush       WROpcode = 14 // IBV_WR_FLUSH
	WRAtomicWrite WROpcode = 15 // IBV_WR_ATOMIC_WRITE
)

// SendFlags holds bits of enum ibv_send_flags.
type SendFlags uint8

const (
	SendFence     SendFlags = 1 << 0
	SendSignaled  SendFlags = 1 << 1
	SendSolicited SendFlags = 1 << 2
	SendInline    SendFlags = 1 << 3
)

// SendWR is a send work request (struct ibv_send_wr). PostSend copies it and keeps
// no reference.
type SendWR struct {
	ID     uint64
	Op     WROpcode
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // the data itself, with SendInline; SGL is then ignored
	Header []byte // QPRaw: the beginning of the frame, before SGL or Inline

	Imm     uint32    // immediate data, host order
	InvRKey wire.RKey // SEND with invalidate, LOCAL INV

	RemoteAddr  uint64    // WRITE, READ, atomics, ATOMIC WRITE, FLUSH; QPRaw: FrameSend.Word
	RKey        wire.RKey // the same operations
	CompareAdd  uint64    // compare value, or what is added
	Swap        uint64
	AtomicWrite uint64 // ATOMIC WRITE without SGL or inline data: the 8 bytes, host order
	FlushType   uint8  // FLUSH: 1 global visibility, 2 persistence
	FlushLevel  uint8  // FLUSH: 0 range, 1 whole region
	FlushLength uint32 // FLUSH of a range, bytes

	AH         *AH // UD
	RemoteQPN  wire.QPN
	RemoteQKey uint32

	XRCSRQN uint32 // XRC: the number of the SRQ that takes the request (SRQ.Num)

	Bind *MWBind // BIND MW

	// Status, if not WCSuccess, says that the owner of the queue has found the
	// request malformed. PostSend does not look at the request then; it completes
	// in order with this status.
	Status WCStatus
}

// MWBind is what BIND MW binds (struct ibv_mw_bind_info).
type MWBind struct {
	MW     *MW
	RKey   wire.RKey // the window's new rkey (type 2); 0 for a type 1 bind
	MR     *MR
	Addr   uint64
	Length uint64
	Access Access
}

// RecvWR is a receive work request (struct ibv_recv_wr).
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// WCOpcode says what completed. The values are those of enum ibv_wc_opcode.
type WCOpcode uint8

const (
	WCSend        WCOpcode = 0
	WCWrite       WCOpcode = 1
	WCRead        WCOpcode = 2
	WCCompareSwap WCOpcode = 3
	WCFetchAdd    WCOpcode = 4
	WCBindMW      WCOpcode = 5
	WCLocalInv    WCOpcode = 6
	WCFlush       WCOpcode = 8
	WCAtomicWrite WCOpcode = 9
	WCRecv        WCOpcode = 128
	WCRecvImm     WCOpcode = 129 // IBV_WC_RECV_RDMA_WITH_IMM
)

// WCFlags holds bits of enum ibv_wc_flags.
type WCFlags uint8

const (
	WCGRH      WCFlags = 1 << 0
	WCWithImm  WCFlags = 1 << 1
	WCIPCsumOK WCFlags = 1 << 2 // QPRaw: the checksums of IP and of TCP or UDP are right
	WCWithInv  WCFlags = 1 << 3
)

// WC is a work completion (struct ibv_wc). After an error only ID, Status, QPN and
// VendorErr have a meaning. For the receives of a QPRaw see WC.Frame.
type WC struct {
	ID        uint64
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	VendorErr uint32
	ByteLen   uint32
	Imm       uint32 // host order
	InvRKey   wire.RKey
	QPN       wire.QPN
	SrcQP     wire.QPN // UD
	SRQN      uint32   // receives of XRC: SRQ.Num
	PKeyIndex uint16
	SL        uint8 // receives of UD: the packet's type; else 0
	// Solicited says that a program wants an event for it that asked for solicited ones. It is set
	// for a BlockingCQRing, which may notify the program itself.
	Solicited bool
}

// What WC.SL says of a datagram. IBA A17.4.5.1 wants the completion of a UD receive
// to tell whether the frame was IPv4, IPv6 or RoCEv1, and leaves open where.
// ConnectX adapters report it as the service level, which RoCEv2 packets do not
// have. Bits 2 to 0 are the network header (0 RoCEv1, 1 IPv6, 2 IPv4). Bit 3 says
// that there was a UDP header. rdma_rxe reports 0. UCX before 1.19 knows the
// ConnectX form only (uct_ud_iface_check_grh). With 0 it looks for an IPv6 header,
// finds no address of its own in it, and drops the datagram.
const (
	SLRoCEv2IPv6 = 1<<3 | 1
	SLRoCEv2IPv4 = 1<<3 | 2
)

// WCStatus is enum ibv_wc_status.
type WCStatus uint8

const (
	WCSuccess       WCStatus = 0
	WCLocLenErr     WCStatus = 1
	WCLocQPOpErr    WCStatus = 2
	WCLocEECOpErr   WCStatus = 3
	WCLocProtErr    WCStatus = 4
	WCFlushErr      WCStatus = 5
	WCMWBindErr     WCStatus = 6
	WCBadRespErr    WCStatus = 7
	WCLocAccessErr  WCStatus = 8
	WCRemInvReqErr  WCStatus = 9
	WCRemAccessErr  WCStatus = 10
	WCRemOpErr      WCStatus = 11
	WCRetryExcErr   WCStatus = 12
	WCRNRRetryErr   WCStatus = 13
	WCLocRDDViolErr WCStatus = 14
	WCRemInvRDReq   WCStatus = 15
	WCRemAbortErr   WCStatus = 16
	WCInvEECNErr    WCStatus = 17
	WCInvEECStErr   WCStatus = 18
	WCFatalErr      WCStatus = 19
	WCRespTimeout   WCStatus = 20
	WCGeneralErr    WCStatus = 21

	wcStatuses = 22
)

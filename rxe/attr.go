package rxe

import (
	"math/bits"

	"github.com/gorxe/gorxe/wire"
)

// Access holds the rights of a memory region, a memory window or a queue pair. The
// bits are those of enum ibv_access_flags. Remote read has no local counterpart,
// because registered memory can always be read locally.
type Access uint32

const (
	AccessLocalWrite   Access = 1 << 0
	AccessRemoteWrite  Access = 1 << 1
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
	AccessMWBind       Access = 1 << 4
	AccessZeroBased    Access = 1 << 5
	AccessOnDemand     Access = 1 << 6
	AccessHugeTLB      Access = 1 << 7
	AccessFlushGlobal  Access = 1 << 8
	AccessFlushPersist Access = 1 << 9
	AccessRelaxed      Access = 1 << 20 // IBV_ACCESS_RELAXED_ORDERING
)

// QPType is enum ibv_qp_type.
type QPType uint8

const (
	QPRC QPType = 2
	QPUC QPType = 3
	QPUD QPType = 4
	// Whole Ethernet frames (IBV_QPT_RAW_PACKET, raw.go).
	QPRaw QPType = 8
	// An XRC queue pair has one half only: the requester or the responder (IBA A14).
	QPXRCIni QPType = 9
	QPXRCTgt QPType = 10
)

// QPState is enum ibv_qp_state.
type QPState uint8

const (
	QPReset QPState = 0
	QPInit  QPState = 1
	QPRTR   QPState = 2
	QPRTS   QPState = 3
	QPSQD   QPState = 4
	QPSQE   QPState = 5
	QPErr   QPState = 6
)

// MTU is a path MTU in bytes of payload: 256, 512, 1024, 2048 or 4096.
type MTU uint16

// MTUOf returns the MTU with a number of enum ibv_mtu, 1 to 5; 0 for other numbers. The path
// MTU of a REQ has the same numbers.
func MTUOf(enum uint8) MTU {
	if enum < 1 || enum > 5 {
		return 0
	}
	return 128 << enum
}

// Enum returns the number of an MTU in enum ibv_mtu; 0 if there is no such MTU.
func (m MTU) Enum() uint8 {
	if !m.Valid() {
		return 0
	}
	return uint8(bits.Len16(uint16(m)) - 8)
}

// AHAttr describes a destination (struct ibv_ah_attr; the GRH is always there).
type AHAttr struct {
	DGID         wire.GID
	SGIDIndex    uint8
	FlowLabel    uint32 // 20 bits
	HopLimit     uint8  // 0: the default of 64
	TrafficClass uint8
	PortNum      uint8 // 1
	SL           uint8
	StaticRate   uint8
}

// QPCap are a queue pair's sizes (struct ibv_qp_cap).
type QPCap struct {
	MaxSendWR, MaxRecvWR   uint32
	MaxSendSGE, MaxRecvSGE uint32
	MaxInlineData          uint32 // bytes
}

// QPInitAttr is what CreateQP takes (struct ibv_qp_init_attr).
type QPInitAttr struct {
	Type           QPType
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // nil: a receive queue of its own
	Cap            QPCap
	SignalAll      bool // sq_sig_all
	// BlockSelfMulticast: a datagram queue pair does not receive what it sends to a group
	// (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB).
	BlockSelfMulticast bool
	// RecvRing replaces the receive queue when its WQEs live elsewhere, as in a
	// queue shared with another process. Nil means the QP's own ring, which
	// PostRecv fills.
	RecvRing RecvRing
	// OnSendDone, if set, is called when the n oldest work requests have left the
	// send queue, before their completion is pushed. They have completed or, on
	// RESET, were forgotten. It is called with the QP locked and must not call back
	// into the device.
	OnSendDone func(n uint32)
	// Faults, if not nil, decides which work requests fail or complete late on purpose.
	Faults WorkFaults
	// Chaos, if not nil, has the QP do late what the specification lets it.
	Chaos *Chaos
	// Reports, if not nil, receives the reasons why work of this QP failed.
	Reports Reports
	// Observer, if not nil, sees what the QP does with memory.
	Observer Observer
	// Frames says where a QPRaw sends its frames, and in which form it receives them. It is nil for
	// other types.
	Frames *FrameInit
	// User is the owner of the queue pair; any comparable value. Users share the room of
	// Config.Filter.
	User any
	// Owner is what QP.Owner returns. The engine does not look at it.
	Owner any
}

// QPAttrMask says which attributes Modify sets. The bits are those of enum
// ibv_qp_attr_mask.
type QPAttrMask uint32

const (
	QPAttrState           QPAttrMask = 1 << 0
	QPAttrCurState        QPAttrMask = 1 << 1
	QPAttrEnSQDNotify     QPAttrMask = 1 << 2
	QPAttrAccessFlags     QPAttrMask = 1 << 3
	QPAttrPKeyIndex       QPAttrMask = 1 << 4
	QPAttrPort            QPAttrMask = 1 << 5
	QPAttrQKey            QPAttrMask = 1 << 6
	QPAttrAV              QPAttrMask = 1 << 7
	QPAttrPathMTU         QPAttrMask = 1 << 8
	QPAttrTimeout         QPAttrMask = 1 << 9
	QPAttrRetryCnt        QPAttrMask = 1 << 10
	QPAttrRNRRetry        QPAttrMask = 1 << 11
	QPAttrRQPSN           QPAttrMask = 1 << 12
	QPAttrMaxRdAtomic     QPAttrMask = 1 << 13 // IBV_QP_MAX_QP_RD_ATOMIC
	QPAttrAltPath         QPAttrMask = 1 << 14
	QPAttrMinRNRTimer     QPAttrMask = 1 << 15
	QPAttrSQPSN           QPAttrMask = 1 << 16
	QPAttrMaxDestRdAtomic QPAttrMask = 1 << 17
	QPAttrPathMigState    QPAttrMask = 1 << 18
	QPAttrCap             QPAttrMask = 1 << 19
	QPAttrDestQPN         QPAttrMask = 1 << 20
	QPAttrRateLimit       QPAttrMask = 1 << 25
)

// QPAttr is what Modify sets and Query returns (struct ibv_qp_attr).
type QPAttr struct {
	State, CurState QPState
	PathMTU         MTU
	QKey            uint32
	RQPSN, SQPSN    wire.PSN
	DestQPN         wire.QPN
	Access          Access
	PKeyIndex       uint16
	EnSQDNotify     bool // en_sqd_async_notify
	SQDraining      bool
	MaxRdAtomic     uint8 // READs and atomics outstanding as requester
	MaxDestRdAtomic uint8 // and as responder
	MinRNRTimer     uint8 // code 0 to 31
	PortNum         uint8
	Timeout         uint8 // 4.096 µs << Timeout; 0: never
	RetryCnt        uint8 // 0 to 7; 7 means seven
	RNRRetry        uint8 // 0 to 7; 7 means without limit
	PathMigState    uint8 // enum ibv_mig_state; only 0, MIGRATED, as there is no path migration
	Cap             QPCap
	AH              AHAttr
}

// RecvWQE is the engine's own copy of a receive work request, so that a queue
// shared with another process cannot change under it.
type RecvWQE struct {
	ID  uint64
	SGL []SGE // storage is kept between uses
}

// RecvRing is a source of receive work requests. Pop moves the next one into w and reuses w.SGL's
// storage; ok is false when there is none. bad is true for a malformed WQE, to which the responder
// answers with a remote operational error. Pop is called with the QP locked, and that of an SRQ
// with the SRQ locked. The latter does not block (see FetchingRing); the former may, as Memory may.
// A ring may also have a method Len() int, which returns the number of waiting work requests, and
// which any thread may call. Peers on the same device have credits then (QP.PostSendCredited).
type RecvRing interface {
	Pop(w *RecvWQE) (ok, bad bool)
}

// PartRing is a RecvRing of a QPRaw whose requests have room for several frames: a frame takes a
// part of one. Pop takes what is left of a request, or the next one.
type PartRing interface {
	RecvRing
	// PopPart moves a part for a frame of n bytes into w.
	PopPart(n int, w *RecvWQE) Part
}

// Part says what PopPart has found.
type Part uint8

const (
	PartNone Part = iota // no request waits
	PartTaken
	// PartRest: what is left of a request is too short for the frame. It is in w, completes without
	// a frame, and the next call begins with the next request.
	PartRest
	PartTooLong // no request has room for the frame; nothing was taken
	PartBad     // the request in w is malformed
)

// CQRing replaces a completion queue's storage when it lives elsewhere, as in a
// queue shared with another process. Push reports false when it is full. Waiting returns
// how many completions have not been taken out. Neither blocks (see BlockingCQRing).
type CQRing interface {
	Push(wc *WC) bool
	Waiting() int
}

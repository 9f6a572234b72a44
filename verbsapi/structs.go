package verbsapi

import "github.com/gorxe/gorxe/rxe"

// The structs of the engine, whose meaning is the same. `go doc` shows no fields of an alias, so
// each comment has them. TestAliasComments keeps the comments as the structs are (-update).

// SGE is a piece of registered memory (struct ibv_sge).
//
//	Addr    uint64  // as the region names it (its iova)
//	Length  uint32  // bytes
//	LKey    LKey
type SGE = rxe.SGE

// RecvWR is a receive work request (struct ibv_recv_wr).
//
//	ID      uint64
//	SGL     []SGE
type RecvWR = rxe.RecvWR

// WC is a work completion (struct ibv_wc). After an error only ID, Status, QPN and VendorErr have a
// meaning.
//
//	ID        uint64
//	Status    WCStatus
//	Opcode    WCOpcode
//	Flags     WCFlags
//	VendorErr uint32
//	ByteLen   uint32
//	Imm       uint32  // host order
//	InvRKey   RKey
//	QPN       QPN
//	SrcQP     QPN // UD
//	SRQN      uint32   // receives of XRC: SRQ.Num
//	PKeyIndex uint16
//	SL        uint8   // receives of UD: the packet's type; else 0
//	// Solicited says that a program wants an event for it that asked for solicited ones. It is set
//	// for a BlockingCQRing, which may notify the program itself.
//	Solicited bool
type WC = rxe.WC

// AHAttr describes a destination (struct ibv_ah_attr). The GRH is always there.
//
//	DGID         GID
//	SGIDIndex    uint8
//	FlowLabel    uint32  // 20 bits
//	HopLimit     uint8   // 0: the default of 64
//	TrafficClass uint8
//	PortNum      uint8   // 1
//	SL           uint8
//	StaticRate   uint8
type AHAttr = rxe.AHAttr

// QPCap has a queue pair's sizes (struct ibv_qp_cap).
//
//	MaxSendWR, MaxRecvWR   uint32
//	MaxSendSGE, MaxRecvSGE uint32
//	MaxInlineData          uint32  // bytes
type QPCap = rxe.QPCap

// QPAttr is what QP.Modify sets and QP.Query returns (struct ibv_qp_attr).
//
//	State, CurState QPState
//	PathMTU         MTU
//	QKey            uint32
//	RQPSN, SQPSN    PSN
//	DestQPN         QPN
//	Access          Access
//	PKeyIndex       uint16
//	EnSQDNotify     bool    // en_sqd_async_notify
//	SQDraining      bool
//	MaxRdAtomic     uint8   // READs and atomics outstanding as requester
//	MaxDestRdAtomic uint8   // and as responder
//	MinRNRTimer     uint8   // code 0 to 31
//	PortNum         uint8
//	Timeout         uint8   // 4.096 µs << Timeout; 0: never
//	RetryCnt        uint8   // 0 to 7; 7 means seven
//	RNRRetry        uint8   // 0 to 7; 7 means without limit
//	PathMigState    uint8   // enum ibv_mig_state; only 0, MIGRATED, as there is no path migration
//	Cap             QPCap
//	AH              AHAttr
type QPAttr = rxe.QPAttr

// SRQAttr has the sizes of a shared receive queue (struct ibv_srq_attr).
//
//	MaxWR, MaxSGE uint32
//	Limit         uint32  // 0: no event is requested
type SRQAttr = rxe.SRQAttr

// PortAttr is what Context.QueryPort returns (struct ibv_port_attr). MTUs are in bytes.
//
//	State        PortState
//	MaxMTU       MTU
//	ActiveMTU    MTU
//	GIDTblLen    int
//	PKeyTblLen   uint16
//	PortCapFlags uint32
//	MaxMsgSize   uint32  // bytes
//	BadPKeyCntr  uint32
//	QKeyViolCntr uint32
//	MaxVLNum     uint8
//	ActiveWidth  uint8   // enum ib_port_width
//	ActiveSpeed  uint8   // enum ib_port_speed, as far as 8 bits go
//	PhysState    uint8
//	LinkLayer    uint8   // 2: Ethernet
//	// ActiveSpeedEx is enum ib_port_speed, with the values that ActiveSpeed has no
//	// room for (XDR). Mbps is the rate that it makes with ActiveWidth.
//	ActiveSpeedEx uint32
//	Mbps          int
type PortAttr = rxe.PortAttr

// DeviceAttr has a device's capabilities and limits (struct ibv_device_attr and
// ibv_device_attr_ex).
//
//	FWVer                  string
//	NodeGUID, SysImageGUID uint64  // host order
//	VendorID               uint32
//	VendorPartID           uint32
//	HWVer                  uint32
//	Cap                    DeviceCap
//	PageSizeCap            uint64
//	AtomicCap              uint8   // enum ibv_atomic_cap; 1: atomic among this device's QPs
//	LocalCAAckDelay        uint8
//	PhysPortCnt            uint8
//	MaxPKeys               uint16
//	MaxMRSize              uint64  // bytes
//
//	MaxQP, MaxCQ, MaxMR, MaxPD uint32
//	MaxMW, MaxAH, MaxSRQ       uint32
//
//	MaxQPWR, MaxCQE, MaxSRQWR     uint32  // entries of one queue
//	MaxSGE, MaxSGERd, MaxSRQSGE   uint32
//	MaxInlineData                 uint32  // bytes
//	MaxQPRdAtom, MaxQPInitRdAtom  uint32  // READs and atomics per QP, as responder and requester
//	MaxResRdAtom                  uint32  // and of the device, as responder
//	MaxMcastGrp, MaxMcastQPAttach uint32
//	MaxTotalMcastQPAttach         uint32
//	MaxMsgSize                    uint32  // bytes
//
//	// NullLKey names memory of any domain that reads as zeros and forgets what is written, for
//	// lists of work requests (ibv_alloc_null_mr); 0: there is none. Its index is 0, which no region
//	// has.
//	NullLKey LKey
type DeviceAttr = rxe.DeviceAttr

// ECN is how a device answers congestion (IBA A17.9.3, and DCQCN).
//
//	// Off: packets are not ECN-capable, marks are not answered, and CNPs are ignored.
//	Off     bool    `json:"off,omitempty"`
//	// Of the notification point: a queue pair sends one CNP in this time at most.
//	CNPInterval int     `json:"min_time_between_cnps"` // µs
//	CNPDSCP     int     `json:"cnp_dscp"`
//	// Of the reaction point.
//	AlphaTimer int     `json:"dce_tcp_rtt"`    // µs without a CNP until alpha falls
//	AlphaKeep  int     `json:"dce_tcp_g"`      // alpha falls to so many 1024ths of itself
//	RateTimer  int     `json:"rpg_time_reset"` // µs between increases
//	RateBytes  int     `json:"rpg_byte_reset"` // bytes between increases
//	Threshold  int     `json:"rpg_threshold"`  // increases of fast recovery
//	RateAI     int     `json:"rpg_ai_rate"`    // Mb/s, of an additive increase
//	RateHAI    int     `json:"rpg_hai_rate"`   // Mb/s, of a hyper increase
//	MinRate    int     `json:"rpg_min_rate"`   // Mb/s
type ECN = rxe.ECN

// OpError says which call refused which argument, and why. Err is one of the sentinels, or wraps
// one.
//
//	Op      string  // the verb: "CreateQP"
//	Arg     string  // the argument or attribute: "cap.max_send_wr", or empty
//	Why     string  // what is wrong with it, or empty
//	Err     error
//
//	Given   string  // the value that was refused, or empty
//	Fix     string  // what to do, or empty: "use at most 31"
//
//	Limit   Limit   // that was exceeded; 0: none
//	Lowered bool    // Limit is that of a Subdevice, and the device itself would have allowed it
type OpError = rxe.OpError

package mlx5

// The structs that libmlx5 adds to the ABI (mlx5-abi.h). A field's name is the C field's in Go
// spelling; where that cannot be derived, the tag c says it.

// struct mlx5_ib_alloc_ucontext_req_v2
type AllocContextReq struct {
	TotalBFRegs, LowLatencyBFRegs uint32
	Flags, CompMask               uint32
	MaxCQEVersion, Reserved0      uint8
	Reserved1                     uint16
	Reserved2                     uint32
	LibCaps                       uint64
}

// struct mlx5_ib_alloc_ucontext_resp
type AllocContextResp struct {
	QPTabSize, BFRegSize, TotBFRegs, CacheLineSize     uint32
	MaxSQDescSz, MaxRQDescSz                           uint16
	MaxSendWQEBB, MaxRecvWR, MaxSRQRecvWR              uint32
	NumPorts, FlowActionFlags                          uint16
	CompMask, ResponseLength                           uint32
	CQEVersion, CmdsSuppUHW, EthMinInline, ClockInfo   uint8
	HCACoreClockOffset                                 uint64
	LogUARSize, NumUARsPerPage, NumDynBFRegs, DumpFill uint32
}

// struct mlx5_ib_tso_caps
type TSOCaps struct {
	MaxTSO        uint32 `c:"max_tso"`
	SupportedQPTs uint32 `c:"supported_qpts"`
}

// struct mlx5_ib_query_device_resp. What this device has none of is bytes.
type QueryDeviceResp struct {
	CompMask, ResponseLength uint32
	TSOCaps                  TSOCaps     `c:"tso_caps"`
	RSSCaps                  RSSCaps     `c:"rss_caps"`
	CQECompCaps              CQECompCaps `c:"cqe_comp_caps"`
	PacketPacingCaps         [16]byte
	MultiPacketWQEs          uint32 `c:"mlx5_ib_support_multi_pkt_send_wqes"`
	Flags                    uint32
	SWParsingCaps            [8]byte        `c:"sw_parsing_caps"`
	StridingRQCaps           StridingRQCaps `c:"striding_rq_caps"`
	Rest                     [8]byte        `c:"tunnel_offloads_caps"`
}

// struct mlx5_ib_cqe_comp_caps
type CQECompCaps struct {
	MaxNum          uint32 `c:"max_num"`
	SupportedFormat uint32 `c:"supported_format"`
}

// struct mlx5_ib_striding_rq_caps
type StridingRQCaps struct {
	MinStrideLogBytes uint32 `c:"min_single_stride_log_num_of_bytes"`
	MaxStrideLogBytes uint32 `c:"max_single_stride_log_num_of_bytes"`
	MinWQELogStrides  uint32 `c:"min_single_wqe_log_num_of_strides"`
	MaxWQELogStrides  uint32 `c:"max_single_wqe_log_num_of_strides"`
	SupportedQPTs     uint32 `c:"supported_qpts"`
	Reserved          uint32
}

// struct mlx5_ib_clock_info
type ClockInfo struct {
	Sign, Resv         uint32
	Nsec, Cycles, Frac uint64
	Mult, Shift        uint32
	Mask, Overflow     uint64
}

// struct mlx5_ib_uapi_query_port
type QueryPortResp struct {
	Flags                                     uint64
	VPort, VPortVHCAID, ESwOwnerVHCAID, Rsvd0 uint16
	ICMRx, ICMTx                              uint64
	RegC0                                     [2]uint32
}

// struct mlx5_ib_alloc_pd_resp
type AllocPDResp struct{ PDN uint32 }

// struct mlx5_ib_create_ah_resp
type CreateAHResp struct {
	ResponseLength uint32
	DMAC           [6]byte
	Reserved       [6]byte
}

// struct mlx5_ib_create_cq
type CreateCQReq struct {
	BufAddr, DBAddr              uint64
	CQESize                      uint32
	CQECompEn, CQECompResFormat  uint8
	Flags, UARPageIndex, Padding uint16
	Reserved1                    uint32
}

// struct mlx5_ib_create_cq_resp
type CreateCQResp struct{ CQN, Reserved uint32 }

// struct mlx5_ib_resize_cq
type ResizeCQReq struct {
	BufAddr            uint64
	CQESize, Reserved0 uint16
	Reserved1          uint32
}

// struct mlx5_ib_create_srq
type CreateSRQReq struct {
	BufAddr, DBAddr  uint64
	Flags, Reserved0 uint32
	UIdx, Reserved1  uint32
}

// struct mlx5_ib_create_srq_resp
type CreateSRQResp struct{ SRQN, Reserved uint32 }

// struct mlx5_ib_create_qp
type CreateQPReq struct {
	BufAddr, DBAddr                     uint64
	SQWQECount, RQWQECount, RQWQEShift  uint32
	Flags, UIdx, BFRegIndex             uint32
	SQBufAddr                           uint64
	ECEOptions                          uint32
	LogConcurrentStreams, LogErrStreams uint8
	Reserved                            uint16
}

// struct mlx5_ib_create_qp_resp
type CreateQPResp struct {
	BFRegIndex, ECEOptions, CompMask uint32
	TIRN, TISN, RQN, SQN, Reserved1  uint32
	TIRICMAddr                       uint64
}

// struct mlx5_ib_modify_qp_resp
type ModifyQPResp struct{ ResponseLength, DCTN, ECEOptions, Reserved uint32 }

// struct mlx5_ib_rss_caps
type RSSCaps struct {
	RxHashFieldsMask uint64
	RxHashFunction   uint8
	Reserved         [7]uint8
}

// struct mlx5_ib_create_flow, which FlowCountersData may follow
type CreateFlowReq struct {
	NCountersData uint32 `c:"ncounters_data"`
	Reserved      uint32
}

// struct mlx5_ib_flow_counters_data
type FlowCountersData struct {
	CountersData uint64
	NCounters    uint32 `c:"ncounters"`
	Reserved     uint32
}

// struct mlx5_ib_flow_counters_desc
type FlowCountersDesc struct{ Description, Index uint32 }

// struct mlx5_ib_create_wq
type CreateWQReq struct {
	BufAddr, DBAddr      uint64
	RQWQECount           uint32
	RQWQEShift           uint32
	UserIndex            uint32
	Flags, CompMask      uint32
	SingleStrideLogBytes uint32 `c:"single_stride_log_num_of_bytes"`
	SingleWQELogStrides  uint32 `c:"single_wqe_log_num_of_strides"`
	TwoByteShiftEn       uint32
}

const wqStriding = 1 << 0 // MLX5_IB_CREATE_WQ_STRIDING_RQ of CompMask

// struct mlx5_ib_create_wq_resp; that of an indirection table is the same
type CreateWQResp struct{ ResponseLength, Reserved uint32 }

// struct mlx5_ib_modify_wq
type ModifyWQReq struct{ CompMask, Reserved uint32 }

// struct mlx5_ib_create_qp_rss
type CreateRSSReq struct {
	RxHashFieldsMask uint64
	RxHashFunction   uint8
	RxKeyLen         uint8
	Reserved         [6]uint8
	RxHashKey        [128]uint8
	CompMask, Flags  uint32
}

// Flags of these structs.
const (
	contextDevX = 1 << 0 // MLX5_IB_ALLOC_UCTX_DEVX

	libDynamicUAR    = 1 << 1  // MLX5_LIB_CAP_DYN_UAR
	uhwQueryDevice   = 1 << 0  // MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE
	uhwCreateAH      = 1 << 1  // MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
	inlineModeNone   = 1       // MLX5_USER_INLINE_MODE_NONE
	coreClockOffset  = 1 << 0  // MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET
	dumpFillKey      = 1 << 1  // MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY
	hasECE           = 1 << 2  // MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE
	clockInfoV1      = 0       // MLX5_IB_CLOCK_INFO_V1
	cqFlagPad        = 1 << 0  // MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD
	compressHash     = 1 << 0  // MLX5_IB_CQE_RES_FORMAT_HASH
	compressCsum     = 1 << 1  // MLX5_IB_CQE_RES_FORMAT_CSUM
	compressStridx   = 1 << 2  // MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX
	cqFlagUARPage    = 1 << 1  // MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
	qpFlagSignature  = 1 << 0  // MLX5_QP_FLAG_SIGNATURE
	qpFlagScatterCQE = 1 << 1  // MLX5_QP_FLAG_SCATTER_CQE: a permission, which nobody has to use
	qpFlagBFReg      = 1 << 3  // MLX5_QP_FLAG_BFREG_INDEX
	qpFlagAllowSCQE  = 1 << 8  // MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	qpFlagUARPage    = 1 << 10 // MLX5_QP_FLAG_UAR_PAGE_INDEX

	counterBytes = 1 // IBV_COUNTER_BYTES

	hashToeplitz    = 1 << 0  // MLX5_RX_HASH_FUNC_TOEPLITZ
	hashInner       = 1 << 31 // MLX5_RX_HASH_INNER
	rssSelfLoopback = 3 << 6  // MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC and _MC

	mmapRegular   = 0 // enum mlx5_ib_mmap_cmd
	mmapNC        = 3 // MLX5_IB_MMAP_NC_PAGE
	mmapCoreClock = 5 // MLX5_IB_MMAP_CORE_CLOCK
	mmapClockInfo = 7 // MLX5_IB_MMAP_CLOCK_INFO
	mmapDevMem    = 8 // MLX5_IB_MMAP_DEVICE_MEM
	mmapShift     = 8 // of the command in an offset, in pages

	uarTypeBF = 0 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
	uarTypeNC = 1 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC

	rawCVLANStripping = 1 << 0 // IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING
	rawScatterFCS     = 1 << 1 // IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS
	rawIPCsum         = 1 << 2 // IB_UVERBS_RAW_PACKET_CAP_IP_CSUM

	queryPadded = 1 << 1 // MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD
)

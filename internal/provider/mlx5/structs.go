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

// struct mlx5_ib_query_device_resp. What this device has none of is bytes.
type QueryDeviceResp struct {
	CompMask, ResponseLength uint32
	TSOCaps                  [8]byte  `c:"tso_caps"`
	RSSCaps                  [16]byte `c:"rss_caps"`
	CQECompCaps              [8]byte  `c:"cqe_comp_caps"`
	PacketPacingCaps         [16]byte
	MultiPacketWQEs          uint32 `c:"mlx5_ib_support_multi_pkt_send_wqes"`
	Flags                    uint32
	Rest                     [40]byte `c:"sw_parsing_caps"`
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
	cqFlagUARPage    = 1 << 1  // MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
	qpFlagSignature  = 1 << 0  // MLX5_QP_FLAG_SIGNATURE
	qpFlagScatterCQE = 1 << 1  // MLX5_QP_FLAG_SCATTER_CQE: a permission, which nobody has to use
	qpFlagBFReg      = 1 << 3  // MLX5_QP_FLAG_BFREG_INDEX
	qpFlagAllowSCQE  = 1 << 8  // MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	qpFlagUARPage    = 1 << 10 // MLX5_QP_FLAG_UAR_PAGE_INDEX

	mmapRegular   = 0 // enum mlx5_ib_mmap_cmd
	mmapNC        = 3 // MLX5_IB_MMAP_NC_PAGE
	mmapCoreClock = 5 // MLX5_IB_MMAP_CORE_CLOCK
	mmapClockInfo = 7 // MLX5_IB_MMAP_CLOCK_INFO
	mmapDevMem    = 8 // MLX5_IB_MMAP_DEVICE_MEM
	mmapShift     = 8 // of the command in an offset, in pages

	uarTypeBF = 0 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
	uarTypeNC = 1 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC

	queryPadded = 1 << 1 // MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD
)

package mlx5

// The pages of registers (mlx5dv.h; mlx5.h: MLX5_BF_OFFSET). A register has two halves, which
// programs use in turn. UCX does so with any size.
const (
	logPageSize      = 12
	registersAt      = 0x800
	registerSize     = 0x200
	registersPerPage = 2
	armAt            = 0x20      // MLX5_CQ_DOORBELL
	indexesPerPage   = 4         // by which libmlx5 numbers registers: NUM_BFREGS_PER_UAR
	invalidRegister  = 1<<31 - 1 // MLX5_IB_INVALID_BFREG
)

// The pages of the clock.
const (
	coreClockAt = 0 // the time in its page: hca_core_clock_offset
	clockNsec   = 8 // in struct mlx5_ib_clock_info
)

// The methods of mlx5_ib and their attributes (mlx5_user_ioctl_cmds.h).
const (
	driverOwn = 1 << 12 // UVERBS_ID_NS_SHIFT: numbers from here on are a driver's

	objUAR            = driverOwn + 8 // MLX5_IB_OBJECT_UAR
	methodUARAlloc    = driverOwn     // MLX5_IB_METHOD_UAR_OBJ_ALLOC
	methodUARFree     = driverOwn + 1
	attrUARHandle     = driverOwn // MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE
	attrUARType       = driverOwn + 1
	attrUAROffset     = driverOwn + 2
	attrUARLength     = driverOwn + 3
	attrUARPage       = driverOwn + 4
	attrUARFree       = driverOwn // MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE
	methodDMMapOp     = driverOwn // MLX5_IB_METHOD_DM_MAP_OP_ADDR
	methodDMQuery     = driverOwn + 1
	attrDMOffset      = driverOwn // MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET
	attrDMPage        = driverOwn + 1
	attrDMType        = driverOwn + 2
	attrDMHandle      = driverOwn // of the other methods
	attrDMOp          = driverOwn + 1
	attrDMOpOffset    = driverOwn + 2
	attrDMOpPage      = driverOwn + 3
	attrDMQueryOffset = driverOwn + 1
	attrDMQueryPage   = driverOwn + 2
	attrDMQueryLength = driverOwn + 3
	methodPort        = driverOwn // MLX5_IB_METHOD_QUERY_PORT
	attrPortNum       = driverOwn
	attrPort          = driverOwn + 1
	attrContext       = driverOwn // MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX
	methodPDQuery     = driverOwn // MLX5_IB_METHOD_PD_QUERY
	attrPDHandle      = driverOwn
	attrPDN           = driverOwn + 1

	objMatcher          = driverOwn + 3 // MLX5_IB_OBJECT_FLOW_MATCHER
	methodMatcherCreate = driverOwn     // MLX5_IB_METHOD_FLOW_MATCHER_CREATE
	methodMatcherFree   = driverOwn + 1
	attrMatcherHandle   = driverOwn // of both methods
	attrMatcherMask     = driverOwn + 1
	attrMatcherType     = driverOwn + 2 // an enum, whose value for NORMAL is the priority
	attrMatcherCriteria = driverOwn + 3
	attrMatcherFlags    = driverOwn + 4
	attrMatcherTable    = driverOwn + 5
	methodFlowCreate    = driverOwn // MLX5_IB_METHOD_CREATE_FLOW
	methodFlowFree      = driverOwn + 1
	attrFlowHandle      = driverOwn // of both methods
	attrFlowValue       = driverOwn + 1
	attrFlowQP          = driverOwn + 2
	attrFlowMatcher     = driverOwn + 4
	attrFlowTag         = driverOwn + 6
	attrFlowFlags       = driverOwn + 9
)

// The values of these attributes (mlx5_user_ioctl_verbs.h).
const (
	tableNICRx   = 0      // MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX
	flowMiss     = 1 << 0 // MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS
	flowDrop     = 1 << 1 // MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP
	mostFlowTag  = 1 << 24
	mostFTE      = 640 // sizeof(struct mlx5_ib_match_params)
	mostCriteria = 7   // bits of match_criteria_enable
)

// Parts of struct mlx5_ifc_fte_match_param_bits: the outer headers, and of the miscellaneous
// parameters the flow label. All numbers have their most significant byte first.
const (
	fteSection   = 64 // each bit of match_criteria_enable stands for so many bytes
	fteSrc       = 0  // Ethernet addresses
	fteEtherType = 6
	fteDst       = 8
	fteVLAN      = 14
	fteProto     = 16
	fteTOS       = 17
	fteBits      = 18
	fteTCPFlags  = 19
	fteTCPSrc    = 20
	fteTCPDst    = 22
	fteTTL       = 27
	fteUDPSrc    = 28
	fteUDPDst    = 30
	fteSrcIP     = 32 // an IPv4 address is in the last 4 bytes
	fteDstIP     = 48
	fteFlow      = fteSection + 28
	fteSize      = 2 * fteSection

	fteCVLAN        = 1 << 7 // of fteBits
	fteSVLAN        = 1 << 6
	fteFragment     = 1 << 5
	fteVersion      = 15 << fteVersionShift
	fteVersionShift = 1
)

// Doorbell records: two words, the most significant byte first. Of those of a queue pair and of a
// shared receive queue 16 bits count.
const (
	recordSize = 8

	qpRecordReceive = 0 // MLX5_RCV_DBR
	qpRecordSend    = 4 // MLX5_SND_DBR

	cqRecordConsumer = 0 // MLX5_CQ_SET_CI, of which 24 bits count
	cqRecordArm      = 4 // MLX5_CQ_ARM_DB
	consumerMask     = 1<<24 - 1
	armSolicited     = 1 << 24 // MLX5_CQ_DB_REQ_NOT_SOL
	armSequence      = 3 << 28
	// notArmed is in a record whose program has asked for no event. libmlx5 sets neither bit.
	notArmed = 3 << 30
)

// A request of a shared receive queue begins with the index of the next one: the queue is a list
// (struct mlx5_wqe_srq_next_seg).
const (
	nextIndex    = 2
	nextSize     = 16
	leastSRQSize = 32
)

// How much of a private request an old libmlx5 sends: up to these fields.
const (
	contextLeast = 8
	cqToCompEn   = 22
	resizeToSize = 10
	srqToFlags   = 20
	qpToRegister = 40
	wqToStride   = 40

	qpToSendQueue = 48
)

const (
	futexWait = 0 | 1<<7 // FUTEX_WAIT_PRIVATE
	futexWake = 1 | 1<<7 // FUTEX_WAKE_PRIVATE
)

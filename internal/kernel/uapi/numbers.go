package uapi

// The numbers of the ABI. Their names follow the names in C.

// The ioctl (rdma_user_ioctl_cmds.h).
const (
	RDMAVerbsIoctl = 0xc0181b01 // RDMA_VERBS_IOCTL

	// enum rdma_driver_id
	DriverMLX5 = 1  // RDMA_DRIVER_MLX5
	DriverRXE  = 14 // RDMA_DRIVER_RXE

	AttrFMandatory   = 1 << 0 // UVERBS_ATTR_F_MANDATORY
	AttrFValidOutput = 1 << 1 // UVERBS_ATTR_F_VALID_OUTPUT

	IoctlHdrSize  = 24
	IoctlAttrSize = 16
	IoctlMaxSize  = 4096 // uverbs_ioctl.c: one page
)

// ObjectType is enum uverbs_default_objects.
type ObjectType uint16

const (
	ObjDevice ObjectType = iota
	ObjPD
	ObjCompChannel
	ObjCQ
	ObjQP
	ObjSRQ
	ObjAH
	ObjMR
	ObjMW
	ObjFlow
	ObjXRCD
	ObjRWQIndTbl
	ObjWQ
	ObjFlowAction
	ObjDM
	ObjCounters
	ObjAsyncEvent
	ObjDMAH // not in the headers of Linux 6.1, as those that follow
	ObjDMABuf
	ObjCompCntr
)

// Methods of each object.
const (
	MethodInvokeWrite   = 0 // of ObjDevice
	MethodInfoHandles   = 1
	MethodQueryPort     = 2
	MethodGetContext    = 3
	MethodQueryContext  = 4
	MethodQueryGIDTable = 5
	MethodQueryGIDEntry = 6

	MethodQueryPortSpeed = 7 // since Linux 7.0

	MethodCQCreate  = 0
	MethodCQDestroy = 1

	MethodQPCreate  = 0
	MethodQPDestroy = 1

	MethodSRQCreate  = 0
	MethodSRQDestroy = 1

	MethodDMAlloc = 0
	MethodDMFree  = 1

	MethodDMMRReg     = 0 // of ObjMR
	MethodMRDestroy   = 1
	MethodAdviseMR    = 2
	MethodQueryMR     = 3
	MethodRegDMABufMR = 4

	MethodWQCreate  = 0
	MethodWQDestroy = 1

	MethodCountersCreate  = 0
	MethodCountersDestroy = 1
	MethodCountersRead    = 2

	MethodFlowDestroy      = 0
	MethodRWQIndTblDestroy = 0

	MethodPDDestroy   = 0
	MethodXRCDDestroy = 0
	MethodMWDestroy   = 0
	MethodAHDestroy   = 0

	MethodAsyncEventAlloc = 0
)

// Attributes of each method. An attribute that destroys is always 0.
const (
	AttrUHWIn  = 0x1000 // the provider's part, of any method that has one
	AttrUHWOut = 0x1001

	AttrCoreIn   = 0 // INVOKE_WRITE
	AttrCoreOut  = 1
	AttrWriteCmd = 2

	AttrQueryPortNum  = 0
	AttrQueryPortResp = 1

	AttrQueryPortSpeedNum  = 0
	AttrQueryPortSpeedResp = 1

	AttrContextNumCompVectors = 0 // GET_CONTEXT and QUERY_CONTEXT
	AttrContextCoreSupport    = 1

	AttrInfoObjectID     = 0
	AttrInfoTotalHandles = 1
	AttrInfoHandlesList  = 2

	AttrGIDTableEntrySize  = 0
	AttrGIDTableFlags      = 1
	AttrGIDTableEntries    = 2
	AttrGIDTableNumEntries = 3

	AttrGIDEntryPort  = 0
	AttrGIDEntryIndex = 1
	AttrGIDEntryFlags = 2
	AttrGIDEntryResp  = 3

	AttrCreateCQHandle      = 0
	AttrCreateCQCQE         = 1
	AttrCreateCQUserHandle  = 2
	AttrCreateCQCompChannel = 3
	AttrCreateCQCompVector  = 4
	AttrCreateCQFlags       = 5
	AttrCreateCQRespCQE     = 6
	AttrCreateCQEventFD     = 7

	AttrDestroyHandle = 0 // of every destroying method
	AttrDestroyResp   = 1 // CQ, QP, SRQ

	AttrAllocDMHandle    = 0
	AttrAllocDMLength    = 1
	AttrAllocDMAlignment = 2

	AttrRegDMHandle = 0 // DM_MR_REG
	AttrRegDMOffset = 1
	AttrRegDMLength = 2
	AttrRegDMPD     = 3
	AttrRegDMAccess = 4
	AttrRegDMMemory = 5
	AttrRegDMLKey   = 6
	AttrRegDMRKey   = 7

	AttrCreateQPHandle     = 0
	AttrCreateQPXRCD       = 1
	AttrCreateQPPD         = 2
	AttrCreateQPSRQ        = 3
	AttrCreateQPSendCQ     = 4
	AttrCreateQPRecvCQ     = 5
	AttrCreateQPIndTable   = 6
	AttrCreateQPUserHandle = 7
	AttrCreateQPCap        = 8
	AttrCreateQPType       = 9
	AttrCreateQPFlags      = 10
	AttrCreateQPSourceQPN  = 11
	AttrCreateQPEventFD    = 12
	AttrCreateQPRespCap    = 13
	AttrCreateQPRespQPNum  = 14

	AttrCreateSRQHandle     = 0
	AttrCreateSRQPD         = 1
	AttrCreateSRQXRCD       = 2
	AttrCreateSRQCQ         = 3
	AttrCreateSRQUserHandle = 4
	AttrCreateSRQMaxWR      = 5
	AttrCreateSRQMaxSGE     = 6
	AttrCreateSRQLimit      = 7
	AttrCreateSRQMaxNumTags = 8
	AttrCreateSRQType       = 9
	AttrCreateSRQEventFD    = 10
	AttrCreateSRQRespMaxWR  = 11
	AttrCreateSRQRespMaxSGE = 12
	AttrCreateSRQRespSRQNum = 13

	AttrCreateWQHandle     = 0
	AttrCreateWQPD         = 1
	AttrCreateWQCQ         = 2
	AttrCreateWQUserHandle = 3
	AttrCreateWQType       = 4
	AttrCreateWQEventFD    = 5
	AttrCreateWQMaxWR      = 6
	AttrCreateWQMaxSGE     = 7
	AttrCreateWQFlags      = 8
	AttrCreateWQRespMaxWR  = 9
	AttrCreateWQRespMaxSGE = 10
	AttrCreateWQRespWQNum  = 11

	AttrReadCountersHandle = 0
	AttrReadCountersBuff   = 1
	AttrReadCountersFlags  = 2

	AttrAdvisePD     = 0
	AttrAdviseAdvice = 1
	AttrAdviseFlags  = 2
	AttrAdviseSGList = 3

	AttrQueryMRHandle = 0
	AttrQueryMRLKey   = 1
	AttrQueryMRRKey   = 2
	AttrQueryMRLength = 3
	AttrQueryMRIOVA   = 4

	AttrRegDMABufHandle = 0
	AttrRegDMABufPD     = 1
	AttrRegDMABufOffset = 2
	AttrRegDMABufLength = 3
	AttrRegDMABufIOVA   = 4
	AttrRegDMABufFD     = 5
	AttrRegDMABufAccess = 6
	AttrRegDMABufLKey   = 7
	AttrRegDMABufRKey   = 8

	AttrAsyncEventFD = 0
)

// The write() commands, enum ib_uverbs_write_cmds (ib_user_verbs.h).
const (
	CmdGetContext        = 0
	CmdQueryDevice       = 1
	CmdQueryPort         = 2
	CmdAllocPD           = 3
	CmdDeallocPD         = 4
	CmdCreateAH          = 5
	CmdModifyAH          = 6
	CmdQueryAH           = 7
	CmdDestroyAH         = 8
	CmdRegMR             = 9
	CmdRegSMR            = 10
	CmdReregMR           = 11
	CmdQueryMR           = 12
	CmdDeregMR           = 13
	CmdAllocMW           = 14
	CmdBindMW            = 15
	CmdDeallocMW         = 16
	CmdCreateCompChannel = 17
	CmdCreateCQ          = 18
	CmdResizeCQ          = 19
	CmdDestroyCQ         = 20
	CmdPollCQ            = 21
	CmdPeekCQ            = 22
	CmdReqNotifyCQ       = 23
	CmdCreateQP          = 24
	CmdQueryQP           = 25
	CmdModifyQP          = 26
	CmdDestroyQP         = 27
	CmdPostSend          = 28
	CmdPostRecv          = 29
	CmdAttachMcast       = 30
	CmdDetachMcast       = 31
	CmdCreateSRQ         = 32
	CmdModifySRQ         = 33
	CmdQuerySRQ          = 34
	CmdDestroySRQ        = 35
	CmdPostSRQRecv       = 36
	CmdOpenXRCD          = 37
	CmdCloseXRCD         = 38
	CmdCreateXSRQ        = 39
	CmdOpenQP            = 40

	CmdExCreateFlow       = 50 // extended ones only, from here on
	CmdExDestroyFlow      = 51
	CmdExCreateWQ         = 52
	CmdExModifyWQ         = 53
	CmdExDestroyWQ        = 54
	CmdExCreateRWQIndTbl  = 55
	CmdExDestroyRWQIndTbl = 56
	CmdExModifyCQ         = 57

	CmdMask      = 0xff
	CmdExtended  = 0x80000000
	CmdHdrSize   = 8
	CmdExHdrSize = 16 // after the header, in extended commands
)

// Values inside requests and responses.
const (
	QPTypeRC        = 2 // enum ib_uverbs_qp_type
	QPTypeUC        = 3
	QPTypeUD        = 4
	QPTypeRawPacket = 8
	QPTypeXRCIni    = 9
	QPTypeXRCTgt    = 10
	QPTypeDriver    = 0xff

	QPCreateBlockMulticastLoopback = 1 << 1 // enum ib_uverbs_qp_create_flags
	QPCreateScatterFCS             = 1 << 8
	QPCreateCVLANStripping         = 1 << 9
	QPCreatePCIWriteEndPadding     = 1 << 11
	QPCreateSQSigAll               = 1 << 12

	CreateQPMaskIndTable = 1 << 0 // IB_UVERBS_CREATE_QP_MASK_IND_TABLE

	CQFlagTimestamp     = 1 << 0 // enum ib_uverbs_ex_create_cq_flags
	CQFlagIgnoreOverrun = 1 << 1

	SRQTypeBasic = 0 // enum ib_uverbs_srq_type
	SRQTypeXRC   = 1
	SRQTypeTM    = 2

	WQTypeRQ = 0 // enum ib_uverbs_wq_type

	WQFlagCVLANStripping = 1 << 0 // enum ib_uverbs_wq_flags
	WQFlagScatterFCS     = 1 << 1

	WQAttrState    = 1 << 0 // enum ib_wq_attr_mask
	WQAttrCurState = 1 << 1
	WQAttrFlags    = 1 << 2

	WQReset = 0 // enum ib_wq_state
	WQReady = 1
	WQError = 2

	MaxLogIndTblSize = 13 // IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE

	FlowNormal     = 0 // enum ib_flow_attr_type
	FlowAllDefault = 1
	FlowMCDefault  = 2
	FlowSniffer    = 3

	FlowDontTrap = 1 << 1 // enum ib_flow_flags
	FlowEgress   = 1 << 2

	FlowSpecEth         = 0x20 // enum ib_flow_spec_type
	FlowSpecIPv4        = 0x30
	FlowSpecIPv6        = 0x31
	FlowSpecTCP         = 0x40
	FlowSpecUDP         = 0x41
	FlowSpecActionTag   = 0x1000
	FlowSpecActionDrop  = 0x1001
	FlowSpecActionCount = 0x1003
	MaxFlowSpecs        = 10 // IB_FLOW_SPEC_SUPPORT_LAYERS

	ReadCountersCached = 1 << 0 // IB_UVERBS_READ_COUNTERS_PREFER_CACHED

	CoreSupportOptionalMRAccess = 1 << 0 // enum ib_uverbs_core_support

	AdvisePrefetch        = 0 // enum ib_uverbs_advise_mr_advice
	AdvisePrefetchWrite   = 1
	AdvisePrefetchNoFault = 2
	AdviseFlagFlush       = 1 << 0

	AccessOptional = 0x3ff << 20 // IB_UVERBS_ACCESS_OPTIONAL_RANGE

	GIDTypeRoCEv2 = 2 // IB_UVERBS_GID_TYPE_ROCE_V2

	PortGRHRequired = 1 << 0 // IB_UVERBS_QPF_GRH_REQUIRED

	// enum ibv_odp_general_caps and ibv_odp_transport_cap_bits (libibverbs;
	// in the uapi headers of newer kernels only).
	ODPSupport         = 1 << 0
	ODPSupportImplicit = 1 << 1
	ODPSend            = 1 << 0
	ODPRecv            = 1 << 1
	ODPWrite           = 1 << 2
	ODPRead            = 1 << 3
	ODPAtomic          = 1 << 4
	ODPSRQRecv         = 1 << 5
	ODPFlush           = 1 << 6
	ODPAtomicWrite     = 1 << 7
)

package uverbs

// The numbers of the ABI (include/uapi/rdma), as far as this package speaks of
// them. Names follow the C ones; abi_test.go compiles a C program that checks
// each value against the headers.

// The ioctl (rdma_user_ioctl_cmds.h).
const (
	rdmaVerbsIoctl = 0xc0181b01 // RDMA_VERBS_IOCTL

	driverRXE = 14 // RDMA_DRIVER_RXE, in every request's header

	attrFMandatory   = 1 << 0 // UVERBS_ATTR_F_MANDATORY
	attrFValidOutput = 1 << 1 // UVERBS_ATTR_F_VALID_OUTPUT

	ioctlHdrSize  = 24
	ioctlAttrSize = 16
	ioctlMaxSize  = 4096 // uverbs_ioctl.c: one page
)

// objectType is enum uverbs_default_objects.
type objectType uint16

const (
	objDevice objectType = iota
	objPD
	objCompChannel
	objCQ
	objQP
	objSRQ
	objAH
	objMR
	objMW
	objFlow
	objXRCD
	objRWQIndTbl
	objWQ
	objFlowAction
	objDM
	objCounters
	objAsyncEvent
	objDMAH // not in the headers of Linux 6.1, as those that follow
	objDMABuf
	objCompCntr
)

// Methods of each object.
const (
	methodInvokeWrite   = 0 // of objDevice
	methodInfoHandles   = 1
	methodQueryPort     = 2
	methodGetContext    = 3
	methodQueryContext  = 4
	methodQueryGIDTable = 5
	methodQueryGIDEntry = 6

	methodCQCreate  = 0
	methodCQDestroy = 1

	methodQPCreate  = 0
	methodQPDestroy = 1

	methodSRQCreate  = 0
	methodSRQDestroy = 1

	methodDMMRReg     = 0 // of objMR
	methodMRDestroy   = 1
	methodAdviseMR    = 2
	methodQueryMR     = 3
	methodRegDMABufMR = 4

	methodPDDestroy = 0
	methodMWDestroy = 0
	methodAHDestroy = 0

	methodAsyncEventAlloc = 0
)

// Attributes of each method. An attribute that destroys is always 0.
const (
	attrUHWIn  = 0x1000 // the provider's part, of any method that has one
	attrUHWOut = 0x1001

	attrCoreIn   = 0 // INVOKE_WRITE
	attrCoreOut  = 1
	attrWriteCmd = 2

	attrQueryPortNum  = 0
	attrQueryPortResp = 1

	attrContextNumCompVectors = 0 // GET_CONTEXT and QUERY_CONTEXT
	attrContextCoreSupport    = 1

	attrInfoObjectID     = 0
	attrInfoTotalHandles = 1
	attrInfoHandlesList  = 2

	attrGIDTableEntrySize  = 0
	attrGIDTableFlags      = 1
	attrGIDTableEntries    = 2
	attrGIDTableNumEntries = 3

	attrGIDEntryPort  = 0
	attrGIDEntryIndex = 1
	attrGIDEntryFlags = 2
	attrGIDEntryResp  = 3

	attrCreateCQHandle      = 0
	attrCreateCQCQE         = 1
	attrCreateCQUserHandle  = 2
	attrCreateCQCompChannel = 3
	attrCreateCQCompVector  = 4
	attrCreateCQFlags       = 5
	attrCreateCQRespCQE     = 6
	attrCreateCQEventFD     = 7

	attrDestroyHandle = 0 // of every destroying method
	attrDestroyResp   = 1 // CQ, QP, SRQ

	attrCreateQPHandle     = 0
	attrCreateQPXRCD       = 1
	attrCreateQPPD         = 2
	attrCreateQPSRQ        = 3
	attrCreateQPSendCQ     = 4
	attrCreateQPRecvCQ     = 5
	attrCreateQPIndTable   = 6
	attrCreateQPUserHandle = 7
	attrCreateQPCap        = 8
	attrCreateQPType       = 9
	attrCreateQPFlags      = 10
	attrCreateQPSourceQPN  = 11
	attrCreateQPEventFD    = 12
	attrCreateQPRespCap    = 13
	attrCreateQPRespQPNum  = 14

	attrCreateSRQHandle     = 0
	attrCreateSRQPD         = 1
	attrCreateSRQXRCD       = 2
	attrCreateSRQCQ         = 3
	attrCreateSRQUserHandle = 4
	attrCreateSRQMaxWR      = 5
	attrCreateSRQMaxSGE     = 6
	attrCreateSRQLimit      = 7
	attrCreateSRQMaxNumTags = 8
	attrCreateSRQType       = 9
	attrCreateSRQEventFD    = 10
	attrCreateSRQRespMaxWR  = 11
	attrCreateSRQRespMaxSGE = 12
	attrCreateSRQRespSRQNum = 13

	attrAdvisePD     = 0
	attrAdviseAdvice = 1
	attrAdviseFlags  = 2
	attrAdviseSGList = 3

	attrQueryMRHandle = 0
	attrQueryMRLKey   = 1
	attrQueryMRRKey   = 2
	attrQueryMRLength = 3
	attrQueryMRIOVA   = 4

	attrRegDMABufHandle = 0
	attrRegDMABufPD     = 1
	attrRegDMABufOffset = 2
	attrRegDMABufLength = 3
	attrRegDMABufIOVA   = 4
	attrRegDMABufFD     = 5
	attrRegDMABufAccess = 6
	attrRegDMABufLKey   = 7
	attrRegDMABufRKey   = 8

	attrAsyncEventFD = 0
)

// The write() commands, enum ib_uverbs_write_cmds (ib_user_verbs.h).
const (
	cmdGetContext        = 0
	cmdQueryDevice       = 1
	cmdQueryPort         = 2
	cmdAllocPD           = 3
	cmdDeallocPD         = 4
	cmdCreateAH          = 5
	cmdModifyAH          = 6
	cmdQueryAH           = 7
	cmdDestroyAH         = 8
	cmdRegMR             = 9
	cmdRegSMR            = 10
	cmdReregMR           = 11
	cmdQueryMR           = 12
	cmdDeregMR           = 13
	cmdAllocMW           = 14
	cmdBindMW            = 15
	cmdDeallocMW         = 16
	cmdCreateCompChannel = 17
	cmdCreateCQ          = 18
	cmdResizeCQ          = 19
	cmdDestroyCQ         = 20
	cmdPollCQ            = 21
	cmdPeekCQ            = 22
	cmdReqNotifyCQ       = 23
	cmdCreateQP          = 24
	cmdQueryQP           = 25
	cmdModifyQP          = 26
	cmdDestroyQP         = 27
	cmdPostSend          = 28
	cmdPostRecv          = 29
	cmdAttachMcast       = 30
	cmdDetachMcast       = 31
	cmdCreateSRQ         = 32
	cmdModifySRQ         = 33
	cmdQuerySRQ          = 34
	cmdDestroySRQ        = 35
	cmdPostSRQRecv       = 36
	cmdOpenXRCD          = 37
	cmdCloseXRCD         = 38
	cmdCreateXSRQ        = 39
	cmdOpenQP            = 40

	cmdMask      = 0xff
	cmdExtended  = 0x80000000
	cmdHdrSize   = 8
	cmdExHdrSize = 16 // after the header, in extended commands
)

// Values inside requests and responses.
const (
	qptRC        = 2 // enum ib_uverbs_qp_type
	qptUC        = 3
	qptUD        = 4
	qptRawPacket = 8
	qptXRCIni    = 9
	qptXRCTgt    = 10
	qptDriver    = 0xff

	qpCreateBlockMulticastLoopback = 1 << 1 // enum ib_uverbs_qp_create_flags
	qpCreateScatterFCS             = 1 << 8
	qpCreateCVLANStripping         = 1 << 9
	qpCreatePCIWriteEndPadding     = 1 << 11
	qpCreateSQSigAll               = 1 << 12

	createQPMaskIndTable = 1 << 0 // IB_UVERBS_CREATE_QP_MASK_IND_TABLE

	cqFlagTimestamp     = 1 << 0 // enum ib_uverbs_ex_create_cq_flags
	cqFlagIgnoreOverrun = 1 << 1

	srqtBasic = 0 // enum ib_uverbs_srq_type
	srqtXRC   = 1
	srqtTM    = 2

	coreSupportOptionalMRAccess = 1 << 0 // enum ib_uverbs_core_support

	advisePrefetch        = 0 // enum ib_uverbs_advise_mr_advice
	advisePrefetchWrite   = 1
	advisePrefetchNoFault = 2
	adviseFlagFlush       = 1 << 0

	accessOptional = 0x3ff << 20 // IB_UVERBS_ACCESS_OPTIONAL_RANGE

	gidTypeRoCEv2 = 2 // IB_UVERBS_GID_TYPE_ROCE_V2

	// enum ibv_odp_general_caps and ibv_odp_transport_cap_bits (libibverbs;
	// in the uapi headers of newer kernels only).
	odpSupport         = 1 << 0
	odpSupportImplicit = 1 << 1
	odpSend            = 1 << 0
	odpRecv            = 1 << 1
	odpWrite           = 1 << 2
	odpRead            = 1 << 3
	odpAtomic          = 1 << 4
	odpSRQRecv         = 1 << 5
	odpFlush           = 1 << 6
	odpAtomicWrite     = 1 << 7
)

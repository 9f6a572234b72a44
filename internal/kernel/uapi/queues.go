package uapi

// The structs of the ABI that are about CQs, SRQs and QPs.

// struct ib_uverbs_create_cq
type CreateCQReq struct {
	Response    uint64
	UserHandle  uint64
	CQE         uint32
	CompVector  uint32
	CompChannel int32
	Reserved    uint32
}

// struct ib_uverbs_create_cq_resp
type CreateCQResp struct {
	CQHandle uint32
	CQE      uint32
}

// struct ib_uverbs_ex_create_cq
type ExCreateCQReq struct {
	UserHandle  uint64
	CQE         uint32
	CompVector  uint32
	CompChannel int32
	CompMask    uint32
	Flags       uint32
	Reserved    uint32
}

// struct ib_uverbs_ex_create_cq_resp
type ExCreateCQResp struct {
	Base           CreateCQResp
	CompMask       uint32
	ResponseLength uint32
}

// struct ib_uverbs_resize_cq
type ResizeCQReq struct {
	Response uint64
	CQHandle uint32
	CQE      uint32
}

// struct ib_uverbs_resize_cq_resp
type ResizeCQResp struct {
	CQE      uint32
	Reserved uint32
}

// struct ib_uverbs_req_notify_cq
type ReqNotifyCQReq struct {
	CQHandle      uint32
	SolicitedOnly uint32
}

// struct ib_uverbs_destroy_cq; destroy_qp and destroy_srq are the same
type DestroyReq struct {
	Response uint64
	Handle   uint32 `c:"cq_handle"`
	Reserved uint32
}

// struct ib_uverbs_destroy_cq_resp
type DestroyCQResp struct {
	CompEventsReported  uint32
	AsyncEventsReported uint32
}

// struct ib_uverbs_destroy_qp_resp; destroy_srq_resp is the same
type DestroyResp struct {
	EventsReported uint32
}

// struct ib_uverbs_create_srq
type CreateSRQReq struct {
	Response   uint64
	UserHandle uint64
	PDHandle   uint32
	MaxWR      uint32
	MaxSGE     uint32
	SRQLimit   uint32
}

// struct ib_uverbs_create_xsrq
type CreateXSRQReq struct {
	Response   uint64
	UserHandle uint64
	SRQType    uint32
	PDHandle   uint32
	MaxWR      uint32
	MaxSGE     uint32
	SRQLimit   uint32
	MaxNumTags uint32
	XRCDHandle uint32
	CQHandle   uint32
}

// struct ib_uverbs_open_xrcd
type OpenXRCDReq struct {
	Response uint64
	FD       uint32
	OFlags   uint32 `c:"oflags"`
}

// struct ib_uverbs_open_xrcd_resp
type OpenXRCDResp struct {
	XRCDHandle uint32
}

// struct ib_uverbs_open_qp; its response is that of create_qp
type OpenQPReq struct {
	Response   uint64
	UserHandle uint64
	PDHandle   uint32 // of the XRC domain
	QPN        uint32
	QPType     uint8
	Reserved   [7]uint8
}

// struct ib_uverbs_create_srq_resp
type CreateSRQResp struct {
	SRQHandle uint32
	MaxWR     uint32
	MaxSGE    uint32
	SRQN      uint32
}

// struct ib_uverbs_modify_srq
type ModifySRQReq struct {
	SRQHandle uint32
	AttrMask  uint32
	MaxWR     uint32
	SRQLimit  uint32
}

// struct ib_uverbs_query_srq
type QuerySRQReq struct {
	Response  uint64
	SRQHandle uint32
	Reserved  uint32
}

// struct ib_uverbs_query_srq_resp
type QuerySRQResp struct {
	MaxWR    uint32
	MaxSGE   uint32
	SRQLimit uint32
	Reserved uint32
}

// struct ib_uverbs_create_qp
type CreateQPReq struct {
	Response      uint64
	UserHandle    uint64
	PDHandle      uint32
	SendCQHandle  uint32
	RecvCQHandle  uint32
	SRQHandle     uint32
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
	SQSigAll      uint8
	QPType        uint8
	IsSRQ         uint8
	Reserved      uint8
}

// struct ib_uverbs_create_qp_resp
type CreateQPResp struct {
	QPHandle      uint32
	QPN           uint32
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
	Reserved      uint32
}

// struct ib_uverbs_ex_create_qp
type ExCreateQPReq struct {
	UserHandle      uint64
	PDHandle        uint32
	SendCQHandle    uint32
	RecvCQHandle    uint32
	SRQHandle       uint32
	MaxSendWR       uint32
	MaxRecvWR       uint32
	MaxSendSGE      uint32
	MaxRecvSGE      uint32
	MaxInlineData   uint32
	SQSigAll        uint8
	QPType          uint8
	IsSRQ           uint8
	Reserved        uint8
	CompMask        uint32
	CreateFlags     uint32
	RWQIndTblHandle uint32
	SourceQPN       uint32
}

// struct ib_uverbs_ex_create_qp_resp
type ExCreateQPResp struct {
	Base           CreateQPResp
	CompMask       uint32
	ResponseLength uint32
}

// struct ib_uverbs_qp_cap
type QPCap struct {
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
}

// struct ib_uverbs_qp_dest
type QPDest struct {
	DGID         [16]byte
	FlowLabel    uint32
	DLID         uint16
	Reserved     uint16
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
}

// struct ib_uverbs_query_qp
type QueryQPReq struct {
	Response uint64
	QPHandle uint32
	AttrMask uint32
}

// struct ib_uverbs_query_qp_resp
//
// Fields: those of the kernel's struct.
type QueryQPResp struct {
	Dest            QPDest
	AltDest         QPDest
	MaxSendWR       uint32
	MaxRecvWR       uint32
	MaxSendSGE      uint32
	MaxRecvSGE      uint32
	MaxInlineData   uint32
	QKey            uint32 `c:"qkey"`
	RQPSN           uint32 `c:"rq_psn"`
	SQPSN           uint32 `c:"sq_psn"`
	DestQPNum       uint32
	QPAccessFlags   uint32
	PKeyIndex       uint16 `c:"pkey_index"`
	AltPKeyIndex    uint16 `c:"alt_pkey_index"`
	QPState         uint8
	CurQPState      uint8
	PathMTU         uint8
	PathMigState    uint8
	SQDraining      uint8
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     uint8
	PortNum         uint8
	Timeout         uint8
	RetryCnt        uint8
	RNRRetry        uint8
	AltPortNum      uint8
	AltTimeout      uint8
	SQSigAll        uint8
	Reserved        [5]byte
}

// struct ib_uverbs_modify_qp
//
// Fields: those of the kernel's struct.
type ModifyQPReq struct {
	Dest             QPDest
	AltDest          QPDest
	QPHandle         uint32
	AttrMask         uint32
	QKey             uint32 `c:"qkey"`
	RQPSN            uint32 `c:"rq_psn"`
	SQPSN            uint32 `c:"sq_psn"`
	DestQPNum        uint32
	QPAccessFlags    uint32
	PKeyIndex        uint16 `c:"pkey_index"`
	AltPKeyIndex     uint16 `c:"alt_pkey_index"`
	QPState          uint8
	CurQPState       uint8
	PathMTU          uint8
	PathMigState     uint8
	EnSQDAsyncNotify uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRNRTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [2]byte
}

// struct ib_uverbs_ex_modify_qp
type ExModifyQPReq struct {
	Base      ModifyQPReq
	RateLimit uint32
	Reserved  uint32
}

// struct ib_uverbs_ex_modify_qp_resp
type ExModifyQPResp struct {
	CompMask       uint32
	ResponseLength uint32
}

// struct ib_uverbs_post_send
type PostSendReq struct {
	Response uint64
	QPHandle uint32
	WRCount  uint32
	SGECount uint32
	WQESize  uint32
}

// struct ib_uverbs_post_send_resp
type PostSendResp struct {
	BadWR uint32
}

// SendWRSize is sizeof(struct ib_uverbs_send_wr).
const SendWRSize = 56

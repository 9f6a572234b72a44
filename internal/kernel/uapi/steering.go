package uapi

// The structs of the ABI that are about work queues, RSS and flow rules.

// struct ib_uverbs_ex_create_wq
type CreateWQReq struct {
	CompMask    uint32
	WQType      uint32 `c:"wq_type"`
	UserHandle  uint64
	PDHandle    uint32
	CQHandle    uint32
	MaxWR       uint32
	MaxSGE      uint32
	CreateFlags uint32
	Reserved    uint32
}

// struct ib_uverbs_ex_create_wq_resp
type CreateWQResp struct {
	CompMask       uint32
	ResponseLength uint32
	WQHandle       uint32 `c:"wq_handle"`
	MaxWR          uint32
	MaxSGE         uint32
	WQN            uint32 `c:"wqn"`
}

// struct ib_uverbs_ex_destroy_wq; destroy_rwq_ind_table and destroy_flow are the same
type ExHandleReq struct {
	CompMask uint32
	Handle   uint32 `c:"wq_handle"`
}

// struct ib_uverbs_ex_destroy_wq_resp
type DestroyWQResp struct {
	CompMask       uint32
	ResponseLength uint32
	EventsReported uint32
	Reserved       uint32
}

// struct ib_uverbs_ex_modify_wq
type ModifyWQReq struct {
	AttrMask    uint32
	WQHandle    uint32 `c:"wq_handle"`
	WQState     uint32 `c:"wq_state"`
	CurrWQState uint32 `c:"curr_wq_state"`
	Flags       uint32
	FlagsMask   uint32
}

// struct ib_uverbs_ex_create_rwq_ind_table, which the handles follow
type CreateRWQIndTblReq struct {
	CompMask      uint32
	LogIndTblSize uint32
}

// struct ib_uverbs_ex_create_rwq_ind_table_resp
type CreateRWQIndTblResp struct {
	CompMask       uint32
	ResponseLength uint32
	IndTblHandle   uint32
	IndTblNum      uint32
}

// struct ib_uverbs_flow_attr
type FlowAttr struct {
	Type       uint32
	Size       uint16
	Priority   uint16
	NumOfSpecs uint8
	Reserved   [2]uint8
	Port       uint8
	Flags      uint32
}

// struct ib_uverbs_create_flow, which the specs follow
type CreateFlowReq struct {
	CompMask uint32
	QPHandle uint32
	FlowAttr FlowAttr
}

// struct ib_uverbs_create_flow_resp
type CreateFlowResp struct {
	CompMask   uint32
	FlowHandle uint32
}

// struct ib_uverbs_flow_spec_hdr, which a value and a mask follow
type FlowSpecHdr struct {
	Type     uint32
	Size     uint16
	Reserved uint16
}

// struct ib_uverbs_flow_spec_action_tag; that of a counters object is the same
type FlowSpecTag struct {
	Hdr       FlowSpecHdr
	TagID     uint32
	Reserved1 uint32
}

// struct ib_uverbs_rss_caps
type RSSCaps struct {
	SupportedQPTypes         uint32 `c:"supported_qpts"`
	MaxRWQIndirectionTables  uint32 `c:"max_rwq_indirection_tables"`
	MaxRWQIndirectionTblSize uint32 `c:"max_rwq_indirection_table_size"`
	Reserved                 uint32
}

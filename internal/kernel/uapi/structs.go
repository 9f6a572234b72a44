package uapi

// The structs of the ABI. The name of a field is the C field's in Go spelling; where
// that cannot be derived, the tag c gives the C name. Each type's comment names the C
// type.

// struct ib_uverbs_ioctl_hdr
type IoctlHdr struct {
	Length    uint16
	ObjectID  uint16
	MethodID  uint16
	NumAttrs  uint16
	Reserved1 uint64
	DriverID  uint32
	Reserved2 uint32
}

// struct ib_uverbs_attr
type IoctlAttr struct {
	AttrID   uint16
	Len      uint16
	Flags    uint16
	Reserved uint16 `c:"attr_data"`
	Data     uint64
}

// struct ib_uverbs_cmd_hdr
type CmdHdr struct {
	Command  uint32
	InWords  uint16
	OutWords uint16
}

// struct ib_uverbs_ex_cmd_hdr
type CmdExHdr struct {
	Response         uint64
	ProviderInWords  uint16
	ProviderOutWords uint16
	CmdHdrReserved   uint32
}

// struct ib_uverbs_get_context
type GetContextReq struct {
	Response uint64
}

// struct ib_uverbs_get_context_resp
type GetContextResp struct {
	AsyncFD        uint32
	NumCompVectors uint32
}

// struct ib_uverbs_query_device
type QueryDeviceReq struct {
	Response uint64
}

// struct ib_uverbs_query_device_resp
//
// Fields: those of the kernel's struct.
type QueryDeviceResp struct {
	FWVer                 uint64
	NodeGUID              [8]byte
	SysImageGUID          [8]byte
	MaxMRSize             uint64
	PageSizeCap           uint64
	VendorID              uint32
	VendorPartID          uint32
	HWVer                 uint32
	MaxQP                 uint32
	MaxQPWR               uint32 `c:"max_qp_wr"`
	DeviceCapFlags        uint32
	MaxSGE                uint32
	MaxSGERd              uint32
	MaxCQ                 uint32
	MaxCQE                uint32
	MaxMR                 uint32
	MaxPD                 uint32
	MaxQPRdAtom           uint32
	MaxEERdAtom           uint32
	MaxResRdAtom          uint32
	MaxQPInitRdAtom       uint32
	MaxEEInitRdAtom       uint32
	AtomicCap             uint32
	MaxEE                 uint32
	MaxRDD                uint32
	MaxMW                 uint32
	MaxRawIPv6QP          uint32 `c:"max_raw_ipv6_qp"`
	MaxRawEthyQP          uint32
	MaxMcastGrp           uint32
	MaxMcastQPAttach      uint32
	MaxTotalMcastQPAttach uint32
	MaxAH                 uint32
	MaxFMR                uint32
	MaxMapPerFMR          uint32
	MaxSRQ                uint32
	MaxSRQWR              uint32 `c:"max_srq_wr"`
	MaxSRQSGE             uint32 `c:"max_srq_sge"`
	MaxPKeys              uint16 `c:"max_pkeys"`
	LocalCAAckDelay       uint8
	PhysPortCnt           uint8
	Reserved              [4]byte
}

// struct ib_uverbs_ex_query_device
type ExQueryDeviceReq struct {
	CompMask uint32
	Reserved uint32
}

// struct ib_uverbs_odp_caps
type ODPCaps struct {
	GeneralCaps uint64
	RCODPCaps   uint32 `c:"per_transport_caps.rc_odp_caps"`
	UCODPCaps   uint32 `c:"per_transport_caps.uc_odp_caps"`
	UDODPCaps   uint32 `c:"per_transport_caps.ud_odp_caps"`
	Reserved    uint32
}

// struct ib_uverbs_cq_moderation_caps
type CQModerationCaps struct {
	MaxCount  uint16 `c:"max_cq_moderation_count"`
	MaxPeriod uint16 `c:"max_cq_moderation_period"`
	Reserved  uint32
}

// struct ib_uverbs_ex_modify_cq
type ModifyCQReq struct {
	CQHandle uint32
	AttrMask uint32
	CQCount  uint16 `c:"attr.cq_count"`
	CQPeriod uint16 `c:"attr.cq_period"`
	Reserved uint32
}

// struct ib_uverbs_ex_query_device_resp
type ExQueryDeviceResp struct {
	Base             QueryDeviceResp
	CompMask         uint32
	ResponseLength   uint32
	ODPCaps          ODPCaps `c:"odp_caps"`
	TimestampMask    uint64
	HCACoreClock     uint64
	DeviceCapFlagsEx uint64
	RSSCaps          RSSCaps `c:"rss_caps"`
	MaxWQTypeRQ      uint32  `c:"max_wq_type_rq"`
	RawPacketCaps    uint32
	TMCaps           [24]byte
	CQModerationCaps CQModerationCaps `c:"cq_moderation_caps"`
	MaxDMSize        uint64
	XRCODPCaps       uint32 `c:"xrc_odp_caps"`
	Reserved         uint32
}

// struct ib_uverbs_query_port
type QueryPortReq struct {
	Response uint64
	PortNum  uint8
	Reserved [7]byte
}

// struct ib_uverbs_query_port_resp
type QueryPortResp struct {
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPKeyCntr   uint32 `c:"bad_pkey_cntr"`
	QKeyViolCntr  uint32 `c:"qkey_viol_cntr"`
	GIDTblLen     uint32
	PKeyTblLen    uint16 `c:"pkey_tbl_len"`
	LID           uint16
	SMLID         uint16 `c:"sm_lid"`
	State         uint8
	MaxMTU        uint8
	ActiveMTU     uint8
	LMC           uint8
	MaxVLNum      uint8
	SMSL          uint8 `c:"sm_sl"`
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint8
	PhysState     uint8
	LinkLayer     uint8
	Flags         uint8
	Reserved      uint8
}

// struct ib_uverbs_query_port_resp_ex
type QueryPortRespEx struct {
	LegacyResp    QueryPortResp
	PortCapFlags2 uint16  `c:"port_cap_flags2"`
	Reserved      [2]byte `c:"-"`
	ActiveSpeedEx uint32  `c:"-"` // since Linux 6.7, with less that is reserved
}

// struct ib_uverbs_gid_entry
type GIDEntry struct {
	GID           [16]byte
	GIDIndex      uint32
	PortNum       uint32
	GIDType       uint32
	NetdevIfindex uint32
}

// struct ib_uverbs_alloc_pd
type AllocPDReq struct {
	Response uint64
}

// struct ib_uverbs_alloc_pd_resp
type AllocPDResp struct {
	PDHandle uint32
}

// HandleReq is every request that is one handle: struct ib_uverbs_dealloc_pd,
// dereg_mr, dealloc_mw, destroy_ah.
type HandleReq struct {
	Handle uint32 `c:"pd_handle"`
}

// struct ib_uverbs_reg_mr
type RegMRReq struct {
	Response    uint64
	Start       uint64
	Length      uint64
	HCAVA       uint64 `c:"hca_va"`
	PDHandle    uint32
	AccessFlags uint32
}

// struct ib_uverbs_reg_mr_resp
type RegMRResp struct {
	MRHandle uint32
	LKey     uint32 `c:"lkey"`
	RKey     uint32 `c:"rkey"`
}

// struct ib_uverbs_rereg_mr
type ReregMRReq struct {
	Response    uint64
	MRHandle    uint32
	Flags       uint32
	Start       uint64
	Length      uint64
	HCAVA       uint64 `c:"hca_va"`
	PDHandle    uint32
	AccessFlags uint32
}

// struct ib_uverbs_rereg_mr_resp
type ReregMRResp struct {
	LKey uint32 `c:"lkey"`
	RKey uint32 `c:"rkey"`
}

// struct ib_uverbs_sge
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32 `c:"lkey"`
}

// struct ib_uverbs_alloc_mw
type AllocMWReq struct {
	Response uint64
	PDHandle uint32
	MWType   uint8
	Reserved [3]byte
}

// struct ib_uverbs_alloc_mw_resp
type AllocMWResp struct {
	MWHandle uint32
	RKey     uint32 `c:"rkey"`
}

// struct ib_uverbs_create_comp_channel
type CreateCompChannelReq struct {
	Response uint64
}

// struct ib_uverbs_create_comp_channel_resp
type CreateCompChannelResp struct {
	FD uint32
}

// struct ib_uverbs_create_ah
type CreateAHReq struct {
	Response   uint64
	UserHandle uint64
	PDHandle   uint32
	Reserved   uint32
	Attr       AHAttr
}

// struct ib_uverbs_ah_attr
type AHAttr struct {
	DGID         [16]byte `c:"grh.dgid"`
	FlowLabel    uint32   `c:"grh.flow_label"`
	SGIDIndex    uint8    `c:"grh.sgid_index"`
	HopLimit     uint8    `c:"grh.hop_limit"`
	TrafficClass uint8    `c:"grh.traffic_class"`
	GRHReserved  uint8    `c:"grh.reserved"`
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
	Reserved     uint8
}

// struct ib_uverbs_create_ah_resp
type CreateAHResp struct {
	AHHandle uint32
}

// struct ib_uverbs_attach_mcast; detach_mcast is the same
type McastReq struct {
	GID      [16]byte
	QPHandle uint32
	MLID     uint16
	Reserved uint16
}

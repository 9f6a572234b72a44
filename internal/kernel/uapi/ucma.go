package uapi

// The ABI of /dev/infiniband/rdma_cm: rdma/rdma_user_cm.h. A request is a UcmaHdr and a
// struct, written with write(2).

// struct rdma_ucm_cmd_hdr
type UcmaHdr struct {
	Cmd uint32
	In  uint16
	Out uint16
}

// UcmaHdrSize is the size of a UcmaHdr.
const UcmaHdrSize = 8

// UcmaABI is RDMA_USER_CM_ABI_VERSION.
const UcmaABI = 4

// Commands (RDMA_USER_CM_CMD_*).
const (
	UcmaCreateID = iota
	UcmaDestroyID
	UcmaBindIP
	UcmaResolveIP
	UcmaResolveRoute
	UcmaQueryRoute
	UcmaConnect
	UcmaListen
	UcmaAccept
	UcmaReject
	UcmaDisconnect
	UcmaInitQPAttr
	UcmaGetEvent
	UcmaGetOption
	UcmaSetOption
	UcmaNotify
	UcmaJoinIPMcast
	UcmaLeaveMcast
	UcmaMigrateID
	UcmaQuery
	UcmaBind
	UcmaResolveAddr
	UcmaJoinMcast
	UcmaResolveIBService // since Linux 6.17
	UcmaWriteCMEvent     // since Linux 6.17
	UcmaCommands
)

// Address families (linux/socket.h). AF_IB names GIDs and service IDs.
const (
	AFInet  = 2
	AFInet6 = 10
	AFIB    = 27
)

// SockaddrStorage is struct __kernel_sockaddr_storage: a family in host byte order, and what
// the family says.
type SockaddrStorage [128]byte

// SockaddrIn6 is struct sockaddr_in6, which may hold a sockaddr_in.
type SockaddrIn6 [28]byte

// Sizes of the addresses of the families.
const (
	SizeofSockaddrIn  = 16
	SizeofSockaddrIn6 = 28
	SizeofSockaddrIB  = 48
)

// struct rdma_ucm_create_id
type UcmaCreateIDReq struct {
	UID      uint64 `c:"uid"`
	Response uint64
	PS       uint16 `c:"ps"`
	QPType   uint8
	Reserved [5]byte
}

// UcmaID is struct rdma_ucm_create_id_resp.
type UcmaID struct {
	ID uint32
}

// UcmaIDReq is every request that is an id and where the answer goes: struct
// rdma_ucm_destroy_id.
type UcmaIDReq struct {
	Response uint64
	ID       uint32
	Reserved uint32
}

// UcmaReported is struct rdma_ucm_destroy_id_resp and rdma_ucm_migrate_resp.
type UcmaReported struct {
	EventsReported uint32
}

// struct rdma_ucm_bind_ip
type UcmaBindIPReq struct {
	Response uint64
	Addr     SockaddrIn6
	ID       uint32
}

// struct rdma_ucm_bind
type UcmaBindReq struct {
	ID       uint32
	AddrSize uint16
	Reserved uint16
	Addr     SockaddrStorage
}

// struct rdma_ucm_resolve_ip
type UcmaResolveIPReq struct {
	SrcAddr   SockaddrIn6
	DstAddr   SockaddrIn6
	ID        uint32
	TimeoutMs uint32
}

// struct rdma_ucm_resolve_addr
type UcmaResolveAddrReq struct {
	ID        uint32
	TimeoutMs uint32
	SrcSize   uint16
	DstSize   uint16
	Reserved  uint32
	SrcAddr   SockaddrStorage
	DstAddr   SockaddrStorage
}

// struct rdma_ucm_resolve_route
type UcmaResolveRouteReq struct {
	ID        uint32
	TimeoutMs uint32
}

// struct rdma_ucm_query
type UcmaQueryReq struct {
	Response uint64
	ID       uint32
	Option   uint32
}

// Options of UcmaQuery (RDMA_USER_CM_QUERY_*).
const (
	UcmaQueryAddr = iota
	UcmaQueryPath
	UcmaQueryGID
	UcmaQueryIBService // since Linux 6.17
)

// struct ib_user_path_rec
type UserPathRec struct {
	DGID                   [16]byte
	SGID                   [16]byte
	DLID                   [2]byte
	SLID                   [2]byte
	RawTraffic             uint32
	FlowLabel              [4]byte
	Reversible             uint32
	MTU                    uint32
	PKey                   [2]byte `c:"pkey"`
	HopLimit               uint8
	TrafficClass           uint8
	NumbPath               uint8
	SL                     uint8
	MTUSelector            uint8
	RateSelector           uint8
	Rate                   uint8
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	Preference             uint8
}

// struct rdma_ucm_query_route_resp
type UcmaQueryRouteResp struct {
	NodeGUID   [8]byte
	IBRoute    [2]UserPathRec `c:"ib_route"`
	SrcAddr    SockaddrIn6
	DstAddr    SockaddrIn6
	NumPaths   uint32
	PortNum    uint8
	Reserved   [3]byte
	IBDevIndex uint32 `c:"ibdev_index"`
	Reserved1  uint32
}

// UcmaQueryRouteMin is the size of a UcmaQueryRouteResp before Linux 5.8.
const UcmaQueryRouteMin = 200

// struct rdma_ucm_query_addr_resp
type UcmaQueryAddrResp struct {
	NodeGUID   [8]byte
	PortNum    uint8
	Reserved   uint8
	PKey       [2]byte `c:"pkey"`
	SrcSize    uint16
	DstSize    uint16
	SrcAddr    SockaddrStorage
	DstAddr    SockaddrStorage
	IBDevIndex uint32 `c:"ibdev_index"`
	Reserved1  uint32
}

// UcmaQueryAddrMin is the size of a UcmaQueryAddrResp before Linux 5.8.
const UcmaQueryAddrMin = 272

// struct rdma_ucm_query_path_resp, which paths follow
type UcmaQueryPathResp struct {
	NumPaths uint32
	Reserved uint32
}

// PathRecData is struct ib_path_rec_data. The record is as in a management datagram of
// subnet administration (IBA 15.2.5.16).
type PathRecData struct {
	Flags    uint32
	Reserved uint32
	PathRec  [64]byte
}

// PathFlags of a PathRecData mark a path for management datagrams and all traffic, in both
// directions (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL).
const PathFlags = 0x2b

// UcmaPrivateData is RDMA_MAX_PRIVATE_DATA.
const UcmaPrivateData = 256

// struct rdma_ucm_conn_param
type UcmaConnParam struct {
	QPNum              uint32
	QKey               uint32 `c:"qkey"`
	PrivateData        [UcmaPrivateData]byte
	PrivateDataLen     uint8
	SRQ                uint8
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RNRRetryCount      uint8
	Valid              uint8
}

// struct rdma_ucm_ud_param
type UcmaUDParam struct {
	QPNum          uint32
	QKey           uint32 `c:"qkey"`
	AHAttr         AHAttr
	PrivateData    [UcmaPrivateData]byte
	PrivateDataLen uint8
	Reserved       [7]byte
}

// struct rdma_ucm_ece
type UcmaECE struct {
	VendorID uint32
	AttrMod  uint32
}

// struct rdma_ucm_connect
type UcmaConnectReq struct {
	ConnParam UcmaConnParam
	ID        uint32
	Reserved  uint32
	ECE       UcmaECE
}

// UcmaConnectMin is the size of a UcmaConnectReq before Linux 5.8.
const UcmaConnectMin = 280

// struct rdma_ucm_listen
type UcmaListenReq struct {
	ID      uint32
	Backlog uint32
}

// struct rdma_ucm_accept
type UcmaAcceptReq struct {
	UID       uint64 `c:"uid"`
	ConnParam UcmaConnParam
	ID        uint32
	Reserved  uint32
	ECE       UcmaECE
}

// UcmaAcceptMin is the size of a UcmaAcceptReq before Linux 5.8.
const UcmaAcceptMin = 288

// struct rdma_ucm_reject
type UcmaRejectReq struct {
	ID             uint32
	PrivateDataLen uint8
	Reason         uint8
	Reserved       [2]byte
	PrivateData    [UcmaPrivateData]byte
}

// struct rdma_ucm_disconnect
type UcmaDisconnectReq struct {
	ID uint32
}

// struct rdma_ucm_init_qp_attr
type UcmaInitQPAttrReq struct {
	Response uint64
	ID       uint32
	QPState  uint32
}

// struct ib_uverbs_qp_attr
//
// Fields: those of the kernel's struct.
type QPAttr struct {
	QPAttrMask       uint32
	QPState          uint32
	CurQPState       uint32
	PathMTU          uint32
	PathMigState     uint32
	QKey             uint32 `c:"qkey"`
	RQPSN            uint32 `c:"rq_psn"`
	SQPSN            uint32 `c:"sq_psn"`
	DestQPNum        uint32
	QPAccessFlags    uint32
	AHAttr           AHAttr
	AltAHAttr        AHAttr
	MaxSendWR        uint32
	MaxRecvWR        uint32
	MaxSendSGE       uint32
	MaxRecvSGE       uint32
	MaxInlineData    uint32
	PKeyIndex        uint16 `c:"pkey_index"`
	AltPKeyIndex     uint16 `c:"alt_pkey_index"`
	EnSQDAsyncNotify uint8  `c:"en_sqd_async_notify"`
	SQDraining       uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRNRTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [5]byte
}

// struct rdma_ucm_notify
type UcmaNotifyReq struct {
	ID    uint32
	Event uint32
}

// struct rdma_ucm_join_ip_mcast
type UcmaJoinIPMcastReq struct {
	Response uint64
	UID      uint64 `c:"uid"`
	Addr     SockaddrIn6
	ID       uint32
}

// struct rdma_ucm_join_mcast
type UcmaJoinMcastReq struct {
	Response  uint64
	UID       uint64 `c:"uid"`
	ID        uint32
	AddrSize  uint16
	JoinFlags uint16
	Addr      SockaddrStorage
}

// Flags of UcmaJoinMcastReq (RDMA_MC_JOIN_FLAG_*).
const (
	McastFullMember = iota
	McastSendOnly
)

// struct rdma_ucm_get_event
type UcmaGetEventReq struct {
	Response uint64
}

// UcmaEventData is the union of struct rdma_ucm_event_resp: a UcmaConnParam, or a
// UcmaUDParam.
type UcmaEventData [304]byte

// struct rdma_ucm_event_resp
type UcmaEventResp struct {
	UID      uint64 `c:"uid"`
	ID       uint32
	Event    uint32
	Status   int32
	Param    UcmaEventData
	Reserved uint32
	ECE      UcmaECE
}

// UcmaEventMin is the size of a UcmaEventResp before Linux 5.8, without the padding of
// 32-bit programs.
const UcmaEventMin = 324

// struct rdma_ucm_set_option
type UcmaSetOptionReq struct {
	Optval  uint64
	ID      uint32
	Level   uint32
	Optname uint32
	Optlen  uint32
}

// Levels and names of options (RDMA_OPTION_*).
const (
	OptionID = 0
	OptionIB = 1

	OptionIDTOS        = 0
	OptionIDReuseAddr  = 1
	OptionIDAFOnly     = 2
	OptionIDAckTimeout = 3

	OptionIBPath = 1
)

// struct rdma_ucm_migrate_id
type UcmaMigrateIDReq struct {
	Response uint64
	ID       uint32
	FD       uint32
}

// UcmaResolveIBServiceReq is struct rdma_ucm_resolve_ib_service of Linux 6.17.
type UcmaResolveIBServiceReq struct {
	ID          uint32
	Reserved    uint32
	ServiceID   uint64
	ServiceName [64]byte
	Flags       uint32
	Reserved1   uint32
}

// UcmaWriteCMEventReq is struct rdma_ucm_write_cm_event of Linux 6.17.
type UcmaWriteCMEventReq struct {
	ID       uint32
	Reserved uint32
	Event    uint32
	Status   int32
	Param    UcmaEventData
}

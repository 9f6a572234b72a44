package librxe

// The structs that librxe adds to the ABI (rdma_user_rxe.h). A field's name is the C
// field's in Go spelling; where that cannot be derived, the tag c says it.

// struct mminfo
type MMInfo struct {
	Offset uint64
	Size   uint32
	Pad    uint32
}

// struct rxe_create_qp_resp
type CreateQPResp struct {
	RQMI MMInfo `c:"rq_mi"`
	SQMI MMInfo `c:"sq_mi"`
}

// struct rxe_create_srq_resp
type CreateSRQResp struct {
	MI       MMInfo `c:"mi"`
	SRQNum   uint32
	Reserved uint32
}

// struct rxe_modify_srq_cmd
type ModifySRQCmd struct {
	MmapInfoAddr uint64
}

// struct rxe_create_ah_resp
type CreateAHResp struct {
	AHNum    uint32
	Reserved uint32
}

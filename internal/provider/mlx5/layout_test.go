package mlx5

import (
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/cabi"
)

// TestLayout: every offset and size is what the headers of libmlx5 say.
func TestLayout(t *testing.T) {
	const cqe64, errCQE, ctrl, av, umr, mkey, eth = "mlx5_cqe64", "mlx5_err_cqe", "mlx5_wqe_ctrl_seg", "mlx5_wqe_av", "mlx5_wqe_umr_ctrl_seg", "mlx5_wqe_mkey_context_seg", "mlx5_wqe_eth_seg"
	tests := []struct {
		expr string
		got  int
	}{
		{"sizeof(struct mlx5_cqe64)", cqeSize},
		{cabi.Offset(cqe64, "flags_rqpn"), cqeFlagsQPN},
		{cabi.Offset(cqe64, "srqn_uidx"), cqeUser},
		{cabi.Offset(cqe64, "imm_inval_pkey"), cqeImm},
		{cabi.Offset(cqe64, "byte_cnt"), cqeBytes},
		{cabi.Offset(cqe64, "timestamp"), cqeTimestamp},
		{cabi.Offset(cqe64, "sop_drop_qpn"), cqeOpQPN},
		{cabi.Offset(cqe64, "wqe_counter"), cqeCounter},
		{cabi.Offset(cqe64, "op_own"), cqeOwner},
		{cabi.Offset(errCQE, "vendor_err_synd"), cqeVendorErr},
		{cabi.Offset(errCQE, "syndrome"), cqeSyndrome},
		{cabi.Offset(errCQE, "s_wqe_opcode_qpn"), cqeOpQPN},
		{"MLX5_CQE_REQ", cqeReq}, {"MLX5_CQE_RESP_WR_IMM", cqeRespWriteIm}, {"MLX5_CQE_RESP_SEND", cqeRespSend},
		{"MLX5_CQE_RESP_SEND_IMM", cqeRespSendImm}, {"MLX5_CQE_RESP_SEND_INV", cqeRespSendInv},
		{"MLX5_CQE_RESIZE_CQ", cqeResize}, {"MLX5_CQE_REQ_ERR", cqeReqErr}, {"MLX5_CQE_RESP_ERR", cqeRespErr},
		{"MLX5_CQ_DOORBELL", armAt}, {"MLX5_CQ_DB_REQ_NOT_SOL", armSolicited},

		{"sizeof(struct mlx5_wqe_ctrl_seg)", ctrlSize},
		{cabi.Offset(ctrl, "qpn_ds"), ctrlLen}, {cabi.Offset(ctrl, "fm_ce_se"), ctrlFlags}, {cabi.Offset(ctrl, "imm"), ctrlImm},
		{"MLX5_WQE_CTRL_CQ_UPDATE", flagsUpdate}, {"MLX5_WQE_CTRL_SOLICITED", flagsSolicited}, {"MLX5_WQE_CTRL_FENCE", flagsFence},
		{"sizeof(struct mlx5_wqe_raddr_seg)", raddrSize}, {cabi.Offset("mlx5_wqe_raddr_seg", "rkey"), raddrKey},
		{"sizeof(struct mlx5_wqe_atomic_seg)", atomicSize}, {cabi.Offset("mlx5_wqe_atomic_seg", "compare"), atomicOther},
		{"sizeof(struct mlx5_wqe_datagram_seg)", avSize}, {cabi.Offset(av, "dqp_dct"), avQPN}, {cabi.Offset(av, "tclass"), avTClass},
		{cabi.Offset(av, "hop_limit"), avHops}, {cabi.Offset(av, "grh_gid_fl"), avGID}, {cabi.Offset(av, "rgid"), avRGID},
		{"sizeof(struct mlx5_wqe_data_seg)", dataSize}, {cabi.Offset("mlx5_wqe_data_seg", "lkey"), dataKey},
		{cabi.Offset("mlx5_wqe_data_seg", "addr"), dataAddr}, {"MLX5_INVALID_LKEY", lastKey},
		{"sizeof(struct mlx5_wqe_srq_next_seg)", nextSize}, {cabi.Offset("mlx5_wqe_srq_next_seg", "next_wqe_index"), nextIndex},
		{"sizeof(struct mlx5_wqe_umr_ctrl_seg)", umrCtrlSize}, {cabi.Offset(umr, "mkey_mask"), umrMask},
		{"sizeof(struct mlx5_wqe_mkey_context_seg)", mkeySize}, {cabi.Offset(mkey, "free"), mkeyFree},
		{cabi.Offset(mkey, "access_flags"), mkeyAccess}, {cabi.Offset(mkey, "qpn_mkey"), mkeyKey},
		{cabi.Offset(mkey, "start_addr"), mkeyStart}, {cabi.Offset(mkey, "len"), mkeyLen},
		{cabi.Offset("mlx5_wqe_umr_klm_seg", "mkey"), klmKey}, {cabi.Offset("mlx5_wqe_umr_klm_seg", "address"), klmAddr},
		{"MLX5_WQE_UMR_CTRL_FLAG_INLINE", umrInline}, {"MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN", umrMaskLen},
		{"MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN", umrMaskQPN}, {"MLX5_WQE_MKEY_CONTEXT_FREE", mkeyFreeBit},
		{"MLX5_OPCODE_NOP", opNop}, {"MLX5_OPCODE_SEND_INVAL", opSendInv}, {"MLX5_OPCODE_RDMA_WRITE", opWrite},
		{"MLX5_OPCODE_RDMA_WRITE_IMM", opWriteImm}, {"MLX5_OPCODE_SEND", opSend}, {"MLX5_OPCODE_SEND_IMM", opSendImm},
		{"MLX5_OPCODE_RDMA_READ", opRead}, {"MLX5_OPCODE_ATOMIC_CS", opCompSwap}, {"MLX5_OPCODE_ATOMIC_FA", opFetchAdd},
		{"MLX5_OPCODE_UMR", opUMR}, {"MLX5_OPCODE_TSO", opTSO},
		{cabi.Offset(eth, "cs_flags"), ethFlags}, {cabi.Offset(eth, "mss"), ethMSS}, {cabi.Offset(eth, "inline_hdr_sz"), ethInline},
		{cabi.Offset(eth, "inline_hdr_start"), ethStart}, {cabi.Offset(eth, "inline_hdr"), ethSize},
		{"MLX5_ETH_WQE_L3_CSUM", ethL3Sum}, {"MLX5_ETH_WQE_L4_CSUM", ethL4Sum},
		{cabi.Offset(cqe64, "hds_ip_ext"), cqeHdsIPExt}, {cabi.Offset(cqe64, "l4_hdr_type_etc"), cqeTypes},
		{cabi.Offset(cqe64, "vlan_info"), cqeVLAN}, {"MLX5_CQE_L3_OK", cqeL3OK}, {"MLX5_CQE_L4_OK", cqeL4OK},
		{cabi.Offset("mlx5_ib_query_device_resp", "tso_caps"), int(unsafe.Offsetof(QueryDeviceResp{}.TSOCaps))},
		{cabi.Offset("mlx5_ib_create_qp", "sq_buf_addr"), int(unsafe.Offsetof(CreateQPReq{}.SQBufAddr))},

		{"MLX5_IB_ALLOC_UCTX_DEVX", contextDevX}, {"MLX5_USER_CMDS_SUPP_UHW_CREATE_AH", uhwCreateAH},
		{"MLX5_USER_INLINE_MODE_NONE", inlineModeNone}, {"MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX", cqFlagUARPage},
		{"MLX5_QP_FLAG_SCATTER_CQE", qpFlagScatterCQE}, {"MLX5_QP_FLAG_ALLOW_SCATTER_CQE", qpFlagAllowSCQE},
		{"MLX5_IB_MMAP_REGULAR_PAGE", mmapRegular}, {"MLX5_IB_MMAP_NC_PAGE", mmapNC},
		{"MLX5_LIB_CAP_DYN_UAR", libDynamicUAR}, {"MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE", uhwQueryDevice},
		{"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET", coreClockOffset},
		{"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY", dumpFillKey}, {"MLX5_IB_CLOCK_INFO_V1", clockInfoV1},
		{"MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD", cqFlagPad}, {"MLX5_QP_FLAG_UAR_PAGE_INDEX", qpFlagUARPage},
		{"MLX5_IB_MMAP_CORE_CLOCK", mmapCoreClock}, {"MLX5_IB_MMAP_CLOCK_INFO", mmapClockInfo}, {"MLX5_IB_MMAP_DEVICE_MEM", mmapDevMem},
		{"MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF", uarTypeBF}, {"MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC", uarTypeNC},
		{"MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD", queryPadded},
		{"MLX5_IB_OBJECT_UAR", objUAR}, {"MLX5_IB_METHOD_UAR_OBJ_ALLOC", methodUARAlloc}, {"MLX5_IB_METHOD_UAR_OBJ_DESTROY", methodUARFree},
		{"MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE", attrUARHandle}, {"MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE", attrUARType},
		{"MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET", attrUAROffset}, {"MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH", attrUARLength},
		{"MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID", attrUARPage}, {"MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE", attrUARFree},
		{"MLX5_IB_METHOD_DM_MAP_OP_ADDR", methodDMMapOp}, {"MLX5_IB_METHOD_DM_QUERY", methodDMQuery},
		{"MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET", attrDMOffset}, {"MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX", attrDMPage},
		{"MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE", attrDMType}, {"MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE", attrDMHandle},
		{"MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP", attrDMOp}, {"MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET", attrDMOpOffset},
		{"MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX", attrDMOpPage}, {"MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE", attrDMHandle},
		{"MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET", attrDMQueryOffset}, {"MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX", attrDMQueryPage},
		{"MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH", attrDMQueryLength}, {"MLX5_IB_METHOD_QUERY_PORT", methodPort},
		{"MLX5_IB_ATTR_QUERY_PORT_PORT_NUM", attrPortNum}, {"MLX5_IB_ATTR_QUERY_PORT", attrPort},
		{"MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX", attrContext},
		{"MLX5_IB_METHOD_PD_QUERY", methodPDQuery}, {"MLX5_IB_ATTR_QUERY_PD_HANDLE", attrPDHandle}, {"MLX5_IB_ATTR_QUERY_PD_RESP_PDN", attrPDN},
		{"sizeof(struct mlx5_ib_query_device_resp)", int(unsafe.Sizeof(QueryDeviceResp{}))},
		{cabi.Offset("mlx5_ib_query_device_resp", "flags"), int(unsafe.Offsetof(QueryDeviceResp{}.Flags))},
		{"sizeof(struct mlx5_ib_clock_info)", int(unsafe.Sizeof(ClockInfo{}))},
		{cabi.Offset("mlx5_ib_clock_info", "nsec"), clockNsec}, {cabi.Offset("mlx5_ib_clock_info", "mask"), int(unsafe.Offsetof(ClockInfo{}.Mask))},
		{"sizeof(struct mlx5_ib_uapi_query_port)", int(unsafe.Sizeof(QueryPortResp{}))},
		{"sizeof(struct mlx5_ib_alloc_ucontext_req_v2)", int(unsafe.Sizeof(AllocContextReq{}))},
		{"sizeof(struct mlx5_ib_alloc_ucontext_resp)", int(unsafe.Sizeof(AllocContextResp{}))},
		{cabi.Offset("mlx5_ib_alloc_ucontext_resp", "cqe_version"), int(unsafe.Offsetof(AllocContextResp{}.CQEVersion))},
		{cabi.Offset("mlx5_ib_alloc_ucontext_resp", "num_dyn_bfregs"), int(unsafe.Offsetof(AllocContextResp{}.NumDynBFRegs))},
		{"sizeof(struct mlx5_ib_create_ah_resp)", int(unsafe.Sizeof(CreateAHResp{}))},
		{"sizeof(struct mlx5_ib_create_cq)", int(unsafe.Sizeof(CreateCQReq{}))},
		{cabi.Offset("mlx5_ib_create_cq", "flags"), int(unsafe.Offsetof(CreateCQReq{}.Flags))},
		{"sizeof(struct mlx5_ib_resize_cq)", int(unsafe.Sizeof(ResizeCQReq{}))},
		{"sizeof(struct mlx5_ib_create_srq)", int(unsafe.Sizeof(CreateSRQReq{}))},
		{"sizeof(struct mlx5_ib_create_qp)", int(unsafe.Sizeof(CreateQPReq{}))},
		{cabi.Offset("mlx5_ib_create_qp", "bfreg_index"), int(unsafe.Offsetof(CreateQPReq{}.BFRegIndex))},
		{"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE", hasECE}, {"sizeof(struct mlx5_ib_modify_qp_resp)", int(unsafe.Sizeof(ModifyQPResp{}))},
		{cabi.Offset("mlx5_ib_modify_qp_resp", "ece_options"), int(unsafe.Offsetof(ModifyQPResp{}.ECEOptions))},
		{"sizeof(struct mlx5_ib_create_wq)", int(unsafe.Sizeof(CreateWQReq{}))},
		{cabi.Offset("mlx5_ib_create_wq", "user_index"), int(unsafe.Offsetof(CreateWQReq{}.UserIndex))},
		{cabi.Offset("mlx5_ib_create_wq", "comp_mask"), int(unsafe.Offsetof(CreateWQReq{}.CompMask))},
		{cabi.Offset("mlx5_ib_create_wq", "single_wqe_log_num_of_strides"), wqToStride},
		{cabi.Offset("mlx5_ib_query_device_resp", "cqe_comp_caps"), int(unsafe.Offsetof(QueryDeviceResp{}.CQECompCaps))},
		{cabi.Offset("mlx5_ib_query_device_resp", "striding_rq_caps"), int(unsafe.Offsetof(QueryDeviceResp{}.StridingRQCaps))},
		{cabi.Offset("mlx5_ib_striding_rq_caps", "supported_qpts"), int(unsafe.Offsetof(StridingRQCaps{}.SupportedQPTs))},
		{"MLX5_IB_CQE_RES_FORMAT_HASH", compressHash}, {"MLX5_IB_CQE_RES_FORMAT_CSUM", compressCsum},
		{"MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX", compressStridx}, {"MLX5_IB_CREATE_WQ_STRIDING_RQ", wqStriding},
		{cabi.Offset(cqe64, "wqe_id"), cqeWQE},
		{cabi.Offset("mlx5_ib_create_cq", "cqe_comp_res_format"), int(unsafe.Offsetof(CreateCQReq{}.CQECompResFormat))},
		{"sizeof(struct mlx5_ib_create_wq_resp)", int(unsafe.Sizeof(CreateWQResp{}))},
		{"sizeof(struct mlx5_ib_create_rwq_ind_tbl_resp)", int(unsafe.Sizeof(CreateWQResp{}))},
		{"sizeof(struct mlx5_ib_modify_wq)", int(unsafe.Sizeof(ModifyWQReq{}))},
		{"sizeof(struct mlx5_ib_create_qp_rss)", int(unsafe.Sizeof(CreateRSSReq{}))},
		{cabi.Offset("mlx5_ib_create_qp_rss", "rx_hash_key"), int(unsafe.Offsetof(CreateRSSReq{}.RxHashKey))},
		{cabi.Offset("mlx5_ib_create_qp_rss", "flags"), int(unsafe.Offsetof(CreateRSSReq{}.Flags))},
		{"sizeof(struct mlx5_ib_rss_caps)", int(unsafe.Sizeof(RSSCaps{}))},
		{"sizeof(struct mlx5_ib_create_flow)", int(unsafe.Sizeof(CreateFlowReq{}))},
		{"sizeof(struct mlx5_ib_flow_counters_data)", int(unsafe.Sizeof(FlowCountersData{}))},
		{"sizeof(struct mlx5_ib_flow_counters_desc)", int(unsafe.Sizeof(FlowCountersDesc{}))},
		{"MLX5_RX_HASH_FUNC_TOEPLITZ", hashToeplitz},
		{"MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC", rssSelfLoopback},
		{"MLX5_RX_HASH_SRC_IPV4", int(ether.HashSrcIPv4)}, {"MLX5_RX_HASH_DST_PORT_UDP", int(ether.HashDstUDP)},
		{"IBV_COUNTER_BYTES", counterBytes},
		{"sizeof(struct mlx5_ib_create_qp_resp)", int(unsafe.Sizeof(CreateQPResp{}))},
	}
	exprs := make([]string, len(tests))
	for i, test := range tests {
		exprs[i] = test.expr
	}
	for i, got := range cabi.Values(t, []string{"infiniband/mlx5dv.h", "rdma/mlx5-abi.h", "rdma/mlx5_user_ioctl_cmds.h", "rdma/mlx5_user_ioctl_verbs.h"}, exprs) {
		if got != tests[i].got {
			t.Errorf("%s is %d in C, %d in Go", exprs[i], got, tests[i].got)
		}
	}
}

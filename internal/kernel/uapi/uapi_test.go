package uapi

import (
	"reflect"
	"testing"

	"github.com/gorxe/gorxe/internal/test/cabi"
)

// abiStructs are the structs of structs.go and queues.go by their C names.
var abiStructs = map[string]any{
	"ib_uverbs_ioctl_hdr":                    IoctlHdr{},
	"ib_uverbs_attr":                         IoctlAttr{},
	"ib_uverbs_cmd_hdr":                      CmdHdr{},
	"ib_uverbs_ex_cmd_hdr":                   CmdExHdr{},
	"ib_uverbs_get_context":                  GetContextReq{},
	"ib_uverbs_get_context_resp":             GetContextResp{},
	"ib_uverbs_query_device":                 QueryDeviceReq{},
	"ib_uverbs_query_device_resp":            QueryDeviceResp{},
	"ib_uverbs_ex_query_device":              ExQueryDeviceReq{},
	"ib_uverbs_odp_caps":                     ODPCaps{},
	"ib_uverbs_ex_query_device_resp":         ExQueryDeviceResp{},
	"ib_uverbs_cq_moderation_caps":           CQModerationCaps{},
	"ib_uverbs_ex_modify_cq":                 ModifyCQReq{},
	"ib_uverbs_query_port":                   QueryPortReq{},
	"ib_uverbs_query_port_resp":              QueryPortResp{},
	"ib_uverbs_query_port_resp_ex":           QueryPortRespEx{},
	"ib_uverbs_gid_entry":                    GIDEntry{},
	"ib_uverbs_alloc_pd":                     AllocPDReq{},
	"ib_uverbs_alloc_pd_resp":                AllocPDResp{},
	"ib_uverbs_dealloc_pd":                   HandleReq{},
	"ib_uverbs_reg_mr":                       RegMRReq{},
	"ib_uverbs_reg_mr_resp":                  RegMRResp{},
	"ib_uverbs_rereg_mr":                     ReregMRReq{},
	"ib_uverbs_rereg_mr_resp":                ReregMRResp{},
	"ib_uverbs_sge":                          SGE{},
	"ib_uverbs_alloc_mw":                     AllocMWReq{},
	"ib_uverbs_alloc_mw_resp":                AllocMWResp{},
	"ib_uverbs_create_comp_channel":          CreateCompChannelReq{},
	"ib_uverbs_create_comp_channel_resp":     CreateCompChannelResp{},
	"ib_uverbs_create_ah":                    CreateAHReq{},
	"ib_uverbs_ah_attr":                      AHAttr{},
	"ib_uverbs_create_ah_resp":               CreateAHResp{},
	"ib_uverbs_attach_mcast":                 McastReq{},
	"ib_uverbs_detach_mcast":                 McastReq{},
	"ib_uverbs_create_cq":                    CreateCQReq{},
	"ib_uverbs_create_cq_resp":               CreateCQResp{},
	"ib_uverbs_ex_create_cq":                 ExCreateCQReq{},
	"ib_uverbs_ex_create_cq_resp":            ExCreateCQResp{},
	"ib_uverbs_resize_cq":                    ResizeCQReq{},
	"ib_uverbs_resize_cq_resp":               ResizeCQResp{},
	"ib_uverbs_req_notify_cq":                ReqNotifyCQReq{},
	"ib_uverbs_destroy_cq":                   DestroyReq{},
	"ib_uverbs_destroy_cq_resp":              DestroyCQResp{},
	"ib_uverbs_destroy_qp_resp":              DestroyResp{},
	"ib_uverbs_destroy_srq_resp":             DestroyResp{},
	"ib_uverbs_create_srq":                   CreateSRQReq{},
	"ib_uverbs_create_xsrq":                  CreateXSRQReq{},
	"ib_uverbs_open_xrcd":                    OpenXRCDReq{},
	"ib_uverbs_open_xrcd_resp":               OpenXRCDResp{},
	"ib_uverbs_open_qp":                      OpenQPReq{},
	"ib_uverbs_create_srq_resp":              CreateSRQResp{},
	"ib_uverbs_modify_srq":                   ModifySRQReq{},
	"ib_uverbs_query_srq":                    QuerySRQReq{},
	"ib_uverbs_query_srq_resp":               QuerySRQResp{},
	"ib_uverbs_create_qp":                    CreateQPReq{},
	"ib_uverbs_create_qp_resp":               CreateQPResp{},
	"ib_uverbs_ex_create_qp":                 ExCreateQPReq{},
	"ib_uverbs_ex_create_qp_resp":            ExCreateQPResp{},
	"ib_uverbs_qp_cap":                       QPCap{},
	"ib_uverbs_qp_dest":                      QPDest{},
	"ib_uverbs_query_qp":                     QueryQPReq{},
	"ib_uverbs_query_qp_resp":                QueryQPResp{},
	"ib_uverbs_modify_qp":                    ModifyQPReq{},
	"ib_uverbs_ex_modify_qp":                 ExModifyQPReq{},
	"ib_uverbs_ex_modify_qp_resp":            ExModifyQPResp{},
	"ib_uverbs_post_send":                    PostSendReq{},
	"ib_uverbs_ex_create_wq":                 CreateWQReq{},
	"ib_uverbs_ex_create_wq_resp":            CreateWQResp{},
	"ib_uverbs_ex_destroy_wq":                ExHandleReq{},
	"ib_uverbs_ex_destroy_wq_resp":           DestroyWQResp{},
	"ib_uverbs_ex_modify_wq":                 ModifyWQReq{},
	"ib_uverbs_ex_create_rwq_ind_table":      CreateRWQIndTblReq{},
	"ib_uverbs_ex_create_rwq_ind_table_resp": CreateRWQIndTblResp{},
	"ib_uverbs_flow_attr":                    FlowAttr{},
	"ib_uverbs_create_flow":                  CreateFlowReq{},
	"ib_uverbs_create_flow_resp":             CreateFlowResp{},
	"ib_uverbs_flow_spec_hdr":                FlowSpecHdr{},
	"ib_uverbs_flow_spec_action_tag":         FlowSpecTag{},
	"ib_uverbs_rss_caps":                     RSSCaps{},
	"ib_uverbs_post_send_resp":               PostSendResp{},
}

// ucmaStructs are those of ucma.go, without those of Linux 6.17.
var ucmaStructs = map[string]any{
	"rdma_ucm_cmd_hdr":          UcmaHdr{},
	"rdma_ucm_create_id":        UcmaCreateIDReq{},
	"rdma_ucm_create_id_resp":   UcmaID{},
	"rdma_ucm_destroy_id":       UcmaIDReq{},
	"rdma_ucm_destroy_id_resp":  UcmaReported{},
	"rdma_ucm_migrate_resp":     UcmaReported{},
	"rdma_ucm_bind_ip":          UcmaBindIPReq{},
	"rdma_ucm_bind":             UcmaBindReq{},
	"rdma_ucm_resolve_ip":       UcmaResolveIPReq{},
	"rdma_ucm_resolve_addr":     UcmaResolveAddrReq{},
	"rdma_ucm_resolve_route":    UcmaResolveRouteReq{},
	"rdma_ucm_query":            UcmaQueryReq{},
	"ib_user_path_rec":          UserPathRec{},
	"rdma_ucm_query_route_resp": UcmaQueryRouteResp{},
	"rdma_ucm_query_addr_resp":  UcmaQueryAddrResp{},
	"rdma_ucm_query_path_resp":  UcmaQueryPathResp{},
	"ib_path_rec_data":          PathRecData{},
	"rdma_ucm_conn_param":       UcmaConnParam{},
	"rdma_ucm_ud_param":         UcmaUDParam{},
	"rdma_ucm_ece":              UcmaECE{},
	"rdma_ucm_connect":          UcmaConnectReq{},
	"rdma_ucm_listen":           UcmaListenReq{},
	"rdma_ucm_accept":           UcmaAcceptReq{},
	"rdma_ucm_reject":           UcmaRejectReq{},
	"rdma_ucm_disconnect":       UcmaDisconnectReq{},
	"rdma_ucm_init_qp_attr":     UcmaInitQPAttrReq{},
	"ib_uverbs_qp_attr":         QPAttr{},
	"rdma_ucm_notify":           UcmaNotifyReq{},
	"rdma_ucm_join_ip_mcast":    UcmaJoinIPMcastReq{},
	"rdma_ucm_join_mcast":       UcmaJoinMcastReq{},
	"rdma_ucm_get_event":        UcmaGetEventReq{},
	"rdma_ucm_event_resp":       UcmaEventResp{},
	"rdma_ucm_set_option":       UcmaSetOptionReq{},
	"rdma_ucm_migrate_id":       UcmaMigrateIDReq{},
}

// ucmaHeaders have the ABI of rdma_cm.
var ucmaHeaders = []string{"linux/in6.h", "rdma/rdma_user_cm.h"}

// TestUcmaABI is TestABIStructs and TestABIConstants for rdma_cm.
func TestUcmaABI(t *testing.T) {
	cabi.CheckStructs(t, ucmaHeaders, ucmaStructs)
	tests := map[string]int{
		"RDMA_USER_CM_ABI_VERSION": UcmaABI, "RDMA_USER_CM_CMD_DESTROY_ID": UcmaDestroyID,
		"RDMA_USER_CM_CMD_INIT_QP_ATTR": UcmaInitQPAttr, "RDMA_USER_CM_CMD_GET_OPTION": UcmaGetOption,
		"RDMA_USER_CM_CMD_MIGRATE_ID": UcmaMigrateID, "RDMA_USER_CM_CMD_JOIN_MCAST": UcmaJoinMcast,
		"RDMA_USER_CM_QUERY_GID": UcmaQueryGID,
		"RDMA_OPTION_ID_TOS":     OptionIDTOS, "RDMA_OPTION_ID_REUSEADDR": OptionIDReuseAddr,
		"RDMA_OPTION_ID_AFONLY": OptionIDAFOnly, "RDMA_OPTION_ID_ACK_TIMEOUT": OptionIDAckTimeout,
		"RDMA_OPTION_IB": OptionIB, "RDMA_OPTION_IB_PATH": OptionIBPath,
		"RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER":                   McastSendOnly,
		"IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL":   PathFlags,
		"offsetof(struct rdma_ucm_connect, ece)":                  UcmaConnectMin,
		"offsetof(struct rdma_ucm_accept, ece)":                   UcmaAcceptMin,
		"offsetof(struct rdma_ucm_event_resp, reserved)":          UcmaEventMin,
		"offsetof(struct rdma_ucm_query_route_resp, ibdev_index)": UcmaQueryRouteMin,
		"offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)":  UcmaQueryAddrMin,
		"sizeof(struct rdma_ucm_cmd_hdr)":                         UcmaHdrSize,
	}
	var exprs []string
	for expr := range tests {
		exprs = append(exprs, expr)
	}
	for i, got := range cabi.Values(t, ucmaHeaders, exprs) {
		if got != tests[exprs[i]] {
			t.Errorf("%s is %d in C, %d in Go", exprs[i], got, tests[exprs[i]])
		}
	}
}

// TestMADABI is TestABIStructs and TestABIConstants for umad.
func TestMADABI(t *testing.T) {
	headers := []string{"rdma/ib_user_mad.h"}
	cabi.CheckStructs(t, headers, map[string]any{
		"ib_user_mad_hdr": MADHdr{}, "ib_user_mad_reg_req": MADRegReq{}, "ib_user_mad_reg_req2": MADRegReq2{},
	})
	tests := map[string]int{
		"IB_USER_MAD_ABI_VERSION": MADABI, "IB_USER_MAD_USER_RMPP": MADUserRMPP,
		"(unsigned)IB_USER_MAD_REGISTER_AGENT == 0xc01c1b01u": 1, "IB_USER_MAD_UNREGISTER_AGENT": MADUnregisterAgent,
		"IB_USER_MAD_ENABLE_PKEY": MADEnablePKey, "(unsigned)IB_USER_MAD_REGISTER_AGENT2 == 0xc0281b04u": 1,
		"offsetof(struct ib_user_mad_reg_req, id)":     MADRegID,
		"offsetof(struct ib_user_mad_reg_req2, id)":    MADRegID,
		"offsetof(struct ib_user_mad_reg_req2, flags)": MADReg2Flags,
		"sizeof(struct ib_user_mad_hdr)":               MADHdrSize,
		"sizeof(struct ib_user_mad_hdr_old)":           MADHdrOldSize,
	}
	var exprs []string
	for expr := range tests {
		exprs = append(exprs, expr)
	}
	for i, got := range cabi.Values(t, headers, exprs) {
		if got != tests[exprs[i]] {
			t.Errorf("%s is %d in C, %d in Go", exprs[i], got, tests[exprs[i]])
		}
	}
}

// sameAs are C structs that share a Go type with another one.
var sameAs = map[string]any{
	"ib_uverbs_dereg_mr":    HandleReq{},
	"ib_uverbs_close_xrcd":  HandleReq{},
	"ib_uverbs_dealloc_mw":  HandleReq{},
	"ib_uverbs_destroy_ah":  HandleReq{},
	"ib_uverbs_destroy_qp":  DestroyReq{},
	"ib_uverbs_destroy_srq": DestroyReq{},

	"ib_uverbs_ex_destroy_rwq_ind_table": ExHandleReq{},
	"ib_uverbs_destroy_flow":             ExHandleReq{},
	"ib_uverbs_flow_spec_action_count":   FlowSpecTag{},
}

// TestABIStructs: size, offset and size of every field of every struct of the
// ABI are what the kernel's headers say.
func TestABIStructs(t *testing.T) {
	cabi.CheckStructs(t, cabi.Headers, abiStructs)
	var exprs []string
	var want []int
	for name, v := range sameAs {
		exprs, want = append(exprs, "sizeof(struct "+name+")"), append(want, int(reflect.TypeOf(v).Size()))
	}
	for i, got := range cabi.Values(t, cabi.Headers, exprs) {
		if got != want[i] {
			t.Errorf("%s is %d in C, %d in Go", exprs[i], got, want[i])
		}
	}
}

// TestABIConstants: the constants of numbers.go are the kernel's.
func TestABIConstants(t *testing.T) {
	tests := map[string]uint64{
		"RDMA_VERBS_IOCTL": RDMAVerbsIoctl, "RDMA_DRIVER_RXE": DriverRXE, "RDMA_DRIVER_MLX5": DriverMLX5,
		"UVERBS_ATTR_F_MANDATORY": AttrFMandatory, "UVERBS_ATTR_F_VALID_OUTPUT": AttrFValidOutput,

		"UVERBS_OBJECT_DEVICE": uint64(ObjDevice), "UVERBS_OBJECT_PD": uint64(ObjPD),
		"UVERBS_OBJECT_COMP_CHANNEL": uint64(ObjCompChannel), "UVERBS_OBJECT_CQ": uint64(ObjCQ),
		"UVERBS_OBJECT_QP": uint64(ObjQP), "UVERBS_OBJECT_SRQ": uint64(ObjSRQ), "UVERBS_OBJECT_AH": uint64(ObjAH),
		"UVERBS_OBJECT_MR": uint64(ObjMR), "UVERBS_OBJECT_MW": uint64(ObjMW), "UVERBS_OBJECT_FLOW": uint64(ObjFlow),
		"UVERBS_OBJECT_XRCD": uint64(ObjXRCD), "UVERBS_OBJECT_RWQ_IND_TBL": uint64(ObjRWQIndTbl),
		"UVERBS_OBJECT_WQ": uint64(ObjWQ), "UVERBS_OBJECT_FLOW_ACTION": uint64(ObjFlowAction),
		"UVERBS_OBJECT_DM": uint64(ObjDM), "UVERBS_OBJECT_COUNTERS": uint64(ObjCounters),
		"UVERBS_OBJECT_ASYNC_EVENT": uint64(ObjAsyncEvent),

		"UVERBS_METHOD_INVOKE_WRITE": MethodInvokeWrite, "UVERBS_METHOD_INFO_HANDLES": MethodInfoHandles,
		"UVERBS_METHOD_QUERY_PORT": MethodQueryPort, "UVERBS_METHOD_GET_CONTEXT": MethodGetContext,
		"UVERBS_METHOD_QUERY_CONTEXT": MethodQueryContext, "UVERBS_METHOD_QUERY_GID_TABLE": MethodQueryGIDTable,
		"UVERBS_METHOD_QUERY_GID_ENTRY": MethodQueryGIDEntry,
		"UVERBS_METHOD_CQ_CREATE":       MethodCQCreate, "UVERBS_METHOD_CQ_DESTROY": MethodCQDestroy,
		"UVERBS_METHOD_QP_CREATE": MethodQPCreate, "UVERBS_METHOD_QP_DESTROY": MethodQPDestroy,
		"UVERBS_METHOD_SRQ_CREATE": MethodSRQCreate, "UVERBS_METHOD_SRQ_DESTROY": MethodSRQDestroy,
		"UVERBS_METHOD_DM_ALLOC": MethodDMAlloc, "UVERBS_METHOD_DM_FREE": MethodDMFree,
		"UVERBS_ATTR_ALLOC_DM_HANDLE": AttrAllocDMHandle, "UVERBS_ATTR_ALLOC_DM_LENGTH": AttrAllocDMLength,
		"UVERBS_ATTR_ALLOC_DM_ALIGNMENT": AttrAllocDMAlignment, "UVERBS_ATTR_REG_DM_MR_HANDLE": AttrRegDMHandle,
		"UVERBS_ATTR_REG_DM_MR_OFFSET": AttrRegDMOffset, "UVERBS_ATTR_REG_DM_MR_LENGTH": AttrRegDMLength,
		"UVERBS_ATTR_REG_DM_MR_PD_HANDLE": AttrRegDMPD, "UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS": AttrRegDMAccess,
		"UVERBS_ATTR_REG_DM_MR_DM_HANDLE": AttrRegDMMemory, "UVERBS_ATTR_REG_DM_MR_RESP_LKEY": AttrRegDMLKey,
		"UVERBS_ATTR_REG_DM_MR_RESP_RKEY": AttrRegDMRKey, "IB_USER_VERBS_EX_CMD_MODIFY_CQ": CmdExModifyCQ,
		"UVERBS_METHOD_DM_MR_REG": MethodDMMRReg, "UVERBS_METHOD_MR_DESTROY": MethodMRDestroy,
		"UVERBS_METHOD_ADVISE_MR": MethodAdviseMR, "UVERBS_METHOD_QUERY_MR": MethodQueryMR,
		"UVERBS_METHOD_REG_DMABUF_MR": MethodRegDMABufMR, "UVERBS_METHOD_PD_DESTROY": MethodPDDestroy,
		"UVERBS_METHOD_MW_DESTROY": MethodMWDestroy, "UVERBS_METHOD_AH_DESTROY": MethodAHDestroy,
		"UVERBS_METHOD_ASYNC_EVENT_ALLOC": MethodAsyncEventAlloc,

		"UVERBS_ATTR_UHW_IN": AttrUHWIn, "UVERBS_ATTR_UHW_OUT": AttrUHWOut,
		"UVERBS_ATTR_CORE_IN": AttrCoreIn, "UVERBS_ATTR_CORE_OUT": AttrCoreOut, "UVERBS_ATTR_WRITE_CMD": AttrWriteCmd,
		"UVERBS_ATTR_QUERY_PORT_PORT_NUM": AttrQueryPortNum, "UVERBS_ATTR_QUERY_PORT_RESP": AttrQueryPortResp,
		"UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS":   AttrContextNumCompVectors,
		"UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT":       AttrContextCoreSupport,
		"UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS": AttrContextNumCompVectors,
		"UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT":     AttrContextCoreSupport,
		"UVERBS_ATTR_INFO_OBJECT_ID":                 AttrInfoObjectID, "UVERBS_ATTR_INFO_TOTAL_HANDLES": AttrInfoTotalHandles,
		"UVERBS_ATTR_INFO_HANDLES_LIST":          AttrInfoHandlesList,
		"UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE": AttrGIDTableEntrySize, "UVERBS_ATTR_QUERY_GID_TABLE_FLAGS": AttrGIDTableFlags,
		"UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES":     AttrGIDTableEntries,
		"UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES": AttrGIDTableNumEntries,
		"UVERBS_ATTR_QUERY_GID_ENTRY_PORT":             AttrGIDEntryPort, "UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX": AttrGIDEntryIndex,
		"UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS": AttrGIDEntryFlags, "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY": AttrGIDEntryResp,

		"UVERBS_ATTR_CREATE_CQ_HANDLE": AttrCreateCQHandle, "UVERBS_ATTR_CREATE_CQ_CQE": AttrCreateCQCQE,
		"UVERBS_ATTR_CREATE_CQ_USER_HANDLE": AttrCreateCQUserHandle, "UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL": AttrCreateCQCompChannel,
		"UVERBS_ATTR_CREATE_CQ_COMP_VECTOR": AttrCreateCQCompVector, "UVERBS_ATTR_CREATE_CQ_FLAGS": AttrCreateCQFlags,
		"UVERBS_ATTR_CREATE_CQ_RESP_CQE": AttrCreateCQRespCQE, "UVERBS_ATTR_CREATE_CQ_EVENT_FD": AttrCreateCQEventFD,
		"UVERBS_ATTR_DESTROY_CQ_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_CQ_RESP": AttrDestroyResp,
		"UVERBS_ATTR_DESTROY_QP_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_QP_RESP": AttrDestroyResp,
		"UVERBS_ATTR_DESTROY_SRQ_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_SRQ_RESP": AttrDestroyResp,
		"UVERBS_ATTR_DESTROY_MR_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_PD_HANDLE": AttrDestroyHandle,
		"UVERBS_ATTR_DESTROY_MW_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_AH_HANDLE": AttrDestroyHandle,

		"UVERBS_ATTR_CREATE_QP_HANDLE": AttrCreateQPHandle, "UVERBS_ATTR_CREATE_QP_XRCD_HANDLE": AttrCreateQPXRCD,
		"UVERBS_ATTR_CREATE_QP_PD_HANDLE": AttrCreateQPPD, "UVERBS_ATTR_CREATE_QP_SRQ_HANDLE": AttrCreateQPSRQ,
		"UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE": AttrCreateQPSendCQ, "UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE": AttrCreateQPRecvCQ,
		"UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE": AttrCreateQPIndTable, "UVERBS_ATTR_CREATE_QP_USER_HANDLE": AttrCreateQPUserHandle,
		"UVERBS_ATTR_CREATE_QP_CAP": AttrCreateQPCap, "UVERBS_ATTR_CREATE_QP_TYPE": AttrCreateQPType,
		"UVERBS_ATTR_CREATE_QP_FLAGS": AttrCreateQPFlags, "UVERBS_ATTR_CREATE_QP_SOURCE_QPN": AttrCreateQPSourceQPN,
		"UVERBS_ATTR_CREATE_QP_EVENT_FD": AttrCreateQPEventFD, "UVERBS_ATTR_CREATE_QP_RESP_CAP": AttrCreateQPRespCap,
		"UVERBS_ATTR_CREATE_QP_RESP_QP_NUM": AttrCreateQPRespQPNum,

		"UVERBS_ATTR_CREATE_SRQ_HANDLE": AttrCreateSRQHandle, "UVERBS_ATTR_CREATE_SRQ_PD_HANDLE": AttrCreateSRQPD,
		"UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE": AttrCreateSRQXRCD, "UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE": AttrCreateSRQCQ,
		"UVERBS_ATTR_CREATE_SRQ_USER_HANDLE": AttrCreateSRQUserHandle, "UVERBS_ATTR_CREATE_SRQ_MAX_WR": AttrCreateSRQMaxWR,
		"UVERBS_ATTR_CREATE_SRQ_MAX_SGE": AttrCreateSRQMaxSGE, "UVERBS_ATTR_CREATE_SRQ_LIMIT": AttrCreateSRQLimit,
		"UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS": AttrCreateSRQMaxNumTags, "UVERBS_ATTR_CREATE_SRQ_TYPE": AttrCreateSRQType,
		"UVERBS_ATTR_CREATE_SRQ_EVENT_FD": AttrCreateSRQEventFD, "UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR": AttrCreateSRQRespMaxWR,
		"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE": AttrCreateSRQRespMaxSGE, "UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM": AttrCreateSRQRespSRQNum,

		"UVERBS_METHOD_WQ_CREATE": MethodWQCreate, "UVERBS_METHOD_WQ_DESTROY": MethodWQDestroy,
		"UVERBS_METHOD_COUNTERS_CREATE": MethodCountersCreate, "UVERBS_METHOD_COUNTERS_DESTROY": MethodCountersDestroy,
		"UVERBS_METHOD_COUNTERS_READ": MethodCountersRead, "UVERBS_METHOD_FLOW_DESTROY": MethodFlowDestroy,
		"UVERBS_METHOD_RWQ_IND_TBL_DESTROY": MethodRWQIndTblDestroy,
		"UVERBS_ATTR_CREATE_WQ_HANDLE":      AttrCreateWQHandle, "UVERBS_ATTR_CREATE_WQ_PD_HANDLE": AttrCreateWQPD,
		"UVERBS_ATTR_CREATE_WQ_CQ_HANDLE": AttrCreateWQCQ, "UVERBS_ATTR_CREATE_WQ_USER_HANDLE": AttrCreateWQUserHandle,
		"UVERBS_ATTR_CREATE_WQ_TYPE": AttrCreateWQType, "UVERBS_ATTR_CREATE_WQ_EVENT_FD": AttrCreateWQEventFD,
		"UVERBS_ATTR_CREATE_WQ_MAX_WR": AttrCreateWQMaxWR, "UVERBS_ATTR_CREATE_WQ_MAX_SGE": AttrCreateWQMaxSGE,
		"UVERBS_ATTR_CREATE_WQ_FLAGS": AttrCreateWQFlags, "UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR": AttrCreateWQRespMaxWR,
		"UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE": AttrCreateWQRespMaxSGE, "UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM": AttrCreateWQRespWQNum,
		"UVERBS_ATTR_DESTROY_WQ_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_WQ_RESP": AttrDestroyResp,
		"UVERBS_ATTR_READ_COUNTERS_HANDLE": AttrReadCountersHandle, "UVERBS_ATTR_READ_COUNTERS_BUFF": AttrReadCountersBuff,
		"UVERBS_ATTR_READ_COUNTERS_FLAGS": AttrReadCountersFlags, "UVERBS_ATTR_DESTROY_FLOW_HANDLE": AttrDestroyHandle,
		"UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE": AttrDestroyHandle, "UVERBS_ATTR_DESTROY_COUNTERS_HANDLE": AttrDestroyHandle,
		"IB_USER_VERBS_EX_CMD_CREATE_FLOW": CmdExCreateFlow, "IB_USER_VERBS_EX_CMD_DESTROY_FLOW": CmdExDestroyFlow,
		"IB_USER_VERBS_EX_CMD_CREATE_WQ": CmdExCreateWQ, "IB_USER_VERBS_EX_CMD_MODIFY_WQ": CmdExModifyWQ,
		"IB_USER_VERBS_EX_CMD_DESTROY_WQ": CmdExDestroyWQ, "IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL": CmdExCreateRWQIndTbl,
		"IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL": CmdExDestroyRWQIndTbl,
		"IB_UVERBS_WQT_RQ":                         WQTypeRQ, "IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING": WQFlagCVLANStripping,
		"IB_UVERBS_WQ_FLAGS_SCATTER_FCS":        WQFlagScatterFCS,
		"IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE":    MaxLogIndTblSize,
		"IB_UVERBS_READ_COUNTERS_PREFER_CACHED": ReadCountersCached,

		"UVERBS_ATTR_ADVISE_MR_PD_HANDLE": AttrAdvisePD, "UVERBS_ATTR_ADVISE_MR_ADVICE": AttrAdviseAdvice,
		"UVERBS_ATTR_ADVISE_MR_FLAGS": AttrAdviseFlags, "UVERBS_ATTR_ADVISE_MR_SGE_LIST": AttrAdviseSGList,
		"UVERBS_ATTR_QUERY_MR_HANDLE": AttrQueryMRHandle, "UVERBS_ATTR_QUERY_MR_RESP_LKEY": AttrQueryMRLKey,
		"UVERBS_ATTR_QUERY_MR_RESP_RKEY": AttrQueryMRRKey, "UVERBS_ATTR_QUERY_MR_RESP_LENGTH": AttrQueryMRLength,
		"UVERBS_ATTR_QUERY_MR_RESP_IOVA": AttrQueryMRIOVA, "UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE": AttrAsyncEventFD,
		"UVERBS_ATTR_REG_DMABUF_MR_HANDLE": AttrRegDMABufHandle, "UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE": AttrRegDMABufPD,
		"UVERBS_ATTR_REG_DMABUF_MR_OFFSET": AttrRegDMABufOffset, "UVERBS_ATTR_REG_DMABUF_MR_LENGTH": AttrRegDMABufLength,
		"UVERBS_ATTR_REG_DMABUF_MR_IOVA": AttrRegDMABufIOVA, "UVERBS_ATTR_REG_DMABUF_MR_FD": AttrRegDMABufFD,
		"UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS": AttrRegDMABufAccess, "UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY": AttrRegDMABufLKey,
		"UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY": AttrRegDMABufRKey,

		"IB_USER_VERBS_CMD_COMMAND_MASK": CmdMask, "IB_USER_VERBS_CMD_FLAG_EXTENDED": CmdExtended,
		"IB_UVERBS_QPT_RC": QPTypeRC, "IB_UVERBS_QPT_UC": QPTypeUC, "IB_UVERBS_QPT_UD": QPTypeUD,
		"IB_UVERBS_QPT_RAW_PACKET": QPTypeRawPacket, "IB_UVERBS_QPT_XRC_INI": QPTypeXRCIni,
		"IB_UVERBS_QPT_XRC_TGT": QPTypeXRCTgt, "IB_UVERBS_QPT_DRIVER": QPTypeDriver,
		"IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK": QPCreateBlockMulticastLoopback,
		"IB_UVERBS_QP_CREATE_SCATTER_FCS":              QPCreateScatterFCS,
		"IB_UVERBS_QP_CREATE_CVLAN_STRIPPING":          QPCreateCVLANStripping,
		"IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING":    QPCreatePCIWriteEndPadding,
		"IB_UVERBS_QP_CREATE_SQ_SIG_ALL":               QPCreateSQSigAll,
		"IB_UVERBS_CREATE_QP_MASK_IND_TABLE":           CreateQPMaskIndTable,
		"IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION":      CQFlagTimestamp,
		"IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN":            CQFlagIgnoreOverrun,
		"IB_UVERBS_SRQT_BASIC":                         SRQTypeBasic, "IB_UVERBS_SRQT_XRC": SRQTypeXRC, "IB_UVERBS_SRQT_TM": SRQTypeTM,
		"IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS": CoreSupportOptionalMRAccess,
		"IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH":       AdvisePrefetch, "IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE": AdvisePrefetchWrite,
		"IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT": AdvisePrefetchNoFault,
		"IB_UVERBS_ADVISE_MR_FLAG_FLUSH":               AdviseFlagFlush,
		"IB_UVERBS_ACCESS_OPTIONAL_RANGE":              AccessOptional,
		"IB_UVERBS_GID_TYPE_ROCE_V2":                   GIDTypeRoCEv2,
		"IB_UVERBS_QPF_GRH_REQUIRED":                   PortGRHRequired,
		"sizeof(struct ib_uverbs_send_wr)":             SendWRSize,
	}
	var exprs []string
	for expr := range tests {
		exprs = append(exprs, expr)
	}
	for i, got := range cabi.Values(t, cabi.Headers, exprs) {
		if want := tests[exprs[i]]; uint32(got) != uint32(want) {
			t.Errorf("%s is %#x in C, %#x in Go", exprs[i], uint32(got), want)
		}
	}
}

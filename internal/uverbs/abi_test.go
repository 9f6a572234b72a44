package uverbs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// cName is a Go field's name in C: UserHandle is user_handle, MaxSGERd
// max_sge_rd.
func cName(goName string) string {
	r := []rune(goName)
	var b strings.Builder
	for i, c := range r {
		if i > 0 && unicode.IsUpper(c) &&
			(!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// abiStructs are the structs of abi_structs.go and abi_queues.go with their
// names in C.
var abiStructs = map[string]any{
	"ib_uverbs_ioctl_hdr":                ioctlHdr{},
	"ib_uverbs_attr":                     ioctlAttr{},
	"ib_uverbs_cmd_hdr":                  cmdHdr{},
	"ib_uverbs_ex_cmd_hdr":               cmdExHdr{},
	"ib_uverbs_get_context":              getContextReq{},
	"ib_uverbs_get_context_resp":         getContextResp{},
	"ib_uverbs_query_device":             queryDeviceReq{},
	"ib_uverbs_query_device_resp":        queryDeviceResp{},
	"ib_uverbs_ex_query_device":          exQueryDeviceReq{},
	"ib_uverbs_odp_caps":                 odpCaps{},
	"ib_uverbs_ex_query_device_resp":     exQueryDeviceResp{},
	"ib_uverbs_query_port":               queryPortReq{},
	"ib_uverbs_query_port_resp":          queryPortResp{},
	"ib_uverbs_query_port_resp_ex":       queryPortRespEx{},
	"ib_uverbs_gid_entry":                gidEntry{},
	"ib_uverbs_alloc_pd":                 allocPDReq{},
	"ib_uverbs_alloc_pd_resp":            allocPDResp{},
	"ib_uverbs_dealloc_pd":               handleReq{},
	"ib_uverbs_reg_mr":                   regMRReq{},
	"ib_uverbs_reg_mr_resp":              regMRResp{},
	"ib_uverbs_rereg_mr":                 reregMRReq{},
	"ib_uverbs_rereg_mr_resp":            reregMRResp{},
	"ib_uverbs_sge":                      wireSGE{},
	"ib_uverbs_alloc_mw":                 allocMWReq{},
	"ib_uverbs_alloc_mw_resp":            allocMWResp{},
	"ib_uverbs_create_comp_channel":      createCompChannelReq{},
	"ib_uverbs_create_comp_channel_resp": createCompChannelResp{},
	"ib_uverbs_create_ah":                createAHReq{},
	"ib_uverbs_ah_attr":                  ahAttr{},
	"ib_uverbs_create_ah_resp":           createAHResp{},
	"ib_uverbs_attach_mcast":             mcastReq{},
	"ib_uverbs_detach_mcast":             mcastReq{},
	"ib_uverbs_create_cq":                createCQReq{},
	"ib_uverbs_create_cq_resp":           createCQResp{},
	"ib_uverbs_ex_create_cq":             exCreateCQReq{},
	"ib_uverbs_ex_create_cq_resp":        exCreateCQResp{},
	"ib_uverbs_resize_cq":                resizeCQReq{},
	"ib_uverbs_resize_cq_resp":           resizeCQResp{},
	"ib_uverbs_req_notify_cq":            reqNotifyCQReq{},
	"ib_uverbs_destroy_cq":               destroyReq{},
	"ib_uverbs_destroy_cq_resp":          destroyCQResp{},
	"ib_uverbs_destroy_qp_resp":          destroyResp{},
	"ib_uverbs_destroy_srq_resp":         destroyResp{},
	"ib_uverbs_create_srq":               createSRQReq{},
	"ib_uverbs_create_xsrq":              createXSRQReq{},
	"ib_uverbs_create_srq_resp":          createSRQResp{},
	"ib_uverbs_modify_srq":               modifySRQReq{},
	"ib_uverbs_query_srq":                querySRQReq{},
	"ib_uverbs_query_srq_resp":           querySRQResp{},
	"ib_uverbs_create_qp":                createQPReq{},
	"ib_uverbs_create_qp_resp":           createQPResp{},
	"ib_uverbs_ex_create_qp":             exCreateQPReq{},
	"ib_uverbs_ex_create_qp_resp":        exCreateQPResp{},
	"ib_uverbs_qp_cap":                   qpCap{},
	"ib_uverbs_qp_dest":                  qpDest{},
	"ib_uverbs_query_qp":                 queryQPReq{},
	"ib_uverbs_query_qp_resp":            queryQPResp{},
	"ib_uverbs_modify_qp":                modifyQPReq{},
	"ib_uverbs_ex_modify_qp":             exModifyQPReq{},
	"ib_uverbs_ex_modify_qp_resp":        exModifyQPResp{},
	"ib_uverbs_post_send":                postSendReq{},
	"ib_uverbs_post_send_resp":           postSendResp{},
	"mminfo":                             mmInfo{},
	"rxe_create_qp_resp":                 rxeCreateQPResp{},
	"rxe_create_srq_resp":                rxeCreateSRQResp{},
	"rxe_modify_srq_cmd":                 rxeModifySRQCmd{},
	"rxe_create_ah_resp":                 rxeCreateAHResp{},
	"rxe_create_cq_resp":                 struct{ MI mmInfo }{},
	"rxe_resize_cq_resp":                 struct{ MI mmInfo }{},
}

// aliases are structs of which one Go type stands for several, and fields that
// are called otherwise in these.
var sameAs = map[string]any{
	"ib_uverbs_dereg_mr":    handleReq{},
	"ib_uverbs_dealloc_mw":  handleReq{},
	"ib_uverbs_destroy_ah":  handleReq{},
	"ib_uverbs_destroy_qp":  destroyReq{},
	"ib_uverbs_destroy_srq": destroyReq{},
}

var abiHeaders = []string{"rdma/ib_user_verbs.h", "rdma/ib_user_ioctl_cmds.h",
	"rdma/ib_user_ioctl_verbs.h", "rdma/rdma_user_ioctl_cmds.h", "rdma/rdma_user_rxe.h"}

// TestABIStructs: size, offset and size of every field of every struct of the
// ABI are what the kernel's headers say.
func TestABIStructs(t *testing.T) {
	var exprs, what []string
	var want []int
	add := func(expr, name string, v uintptr) {
		exprs, what, want = append(exprs, expr), append(what, name), append(want, int(v))
	}
	for name, v := range abiStructs {
		typ := reflect.TypeOf(v)
		add("sizeof(struct "+name+")", "size of "+name, typ.Size())
		for i := range typ.NumField() {
			f := typ.Field(i)
			field := cName(f.Name)
			if tag := f.Tag.Get("c"); tag != "" {
				field = tag
			}
			add(offset(name, field), name+"."+field, f.Offset)
			add(fmt.Sprintf("sizeof(((struct %s *)0)->%s)", name, field), "size of "+name+"."+field, f.Type.Size())
		}
	}
	for name, v := range sameAs {
		add("sizeof(struct "+name+")", "size of "+name, reflect.TypeOf(v).Size())
	}
	for i, got := range cValues(t, abiHeaders, exprs) {
		if got != want[i] {
			t.Errorf("%s is %d in C, %d in Go", what[i], got, want[i])
		}
	}
}

// TestABIConstants: the numbers of abi.go are the kernel's.
func TestABIConstants(t *testing.T) {
	tests := map[string]uint64{
		"RDMA_VERBS_IOCTL": rdmaVerbsIoctl, "RDMA_DRIVER_RXE": driverRXE,
		"UVERBS_ATTR_F_MANDATORY": attrFMandatory, "UVERBS_ATTR_F_VALID_OUTPUT": attrFValidOutput,

		"UVERBS_OBJECT_DEVICE": uint64(objDevice), "UVERBS_OBJECT_PD": uint64(objPD),
		"UVERBS_OBJECT_COMP_CHANNEL": uint64(objCompChannel), "UVERBS_OBJECT_CQ": uint64(objCQ),
		"UVERBS_OBJECT_QP": uint64(objQP), "UVERBS_OBJECT_SRQ": uint64(objSRQ), "UVERBS_OBJECT_AH": uint64(objAH),
		"UVERBS_OBJECT_MR": uint64(objMR), "UVERBS_OBJECT_MW": uint64(objMW), "UVERBS_OBJECT_FLOW": uint64(objFlow),
		"UVERBS_OBJECT_XRCD": uint64(objXRCD), "UVERBS_OBJECT_RWQ_IND_TBL": uint64(objRWQIndTbl),
		"UVERBS_OBJECT_WQ": uint64(objWQ), "UVERBS_OBJECT_FLOW_ACTION": uint64(objFlowAction),
		"UVERBS_OBJECT_DM": uint64(objDM), "UVERBS_OBJECT_COUNTERS": uint64(objCounters),
		"UVERBS_OBJECT_ASYNC_EVENT": uint64(objAsyncEvent),

		"UVERBS_METHOD_INVOKE_WRITE": methodInvokeWrite, "UVERBS_METHOD_INFO_HANDLES": methodInfoHandles,
		"UVERBS_METHOD_QUERY_PORT": methodQueryPort, "UVERBS_METHOD_GET_CONTEXT": methodGetContext,
		"UVERBS_METHOD_QUERY_CONTEXT": methodQueryContext, "UVERBS_METHOD_QUERY_GID_TABLE": methodQueryGIDTable,
		"UVERBS_METHOD_QUERY_GID_ENTRY": methodQueryGIDEntry,
		"UVERBS_METHOD_CQ_CREATE":       methodCQCreate, "UVERBS_METHOD_CQ_DESTROY": methodCQDestroy,
		"UVERBS_METHOD_QP_CREATE": methodQPCreate, "UVERBS_METHOD_QP_DESTROY": methodQPDestroy,
		"UVERBS_METHOD_SRQ_CREATE": methodSRQCreate, "UVERBS_METHOD_SRQ_DESTROY": methodSRQDestroy,
		"UVERBS_METHOD_DM_MR_REG": methodDMMRReg, "UVERBS_METHOD_MR_DESTROY": methodMRDestroy,
		"UVERBS_METHOD_ADVISE_MR": methodAdviseMR, "UVERBS_METHOD_QUERY_MR": methodQueryMR,
		"UVERBS_METHOD_REG_DMABUF_MR": methodRegDMABufMR, "UVERBS_METHOD_PD_DESTROY": methodPDDestroy,
		"UVERBS_METHOD_MW_DESTROY": methodMWDestroy, "UVERBS_METHOD_AH_DESTROY": methodAHDestroy,
		"UVERBS_METHOD_ASYNC_EVENT_ALLOC": methodAsyncEventAlloc,

		"UVERBS_ATTR_UHW_IN": attrUHWIn, "UVERBS_ATTR_UHW_OUT": attrUHWOut,
		"UVERBS_ATTR_CORE_IN": attrCoreIn, "UVERBS_ATTR_CORE_OUT": attrCoreOut, "UVERBS_ATTR_WRITE_CMD": attrWriteCmd,
		"UVERBS_ATTR_QUERY_PORT_PORT_NUM": attrQueryPortNum, "UVERBS_ATTR_QUERY_PORT_RESP": attrQueryPortResp,
		"UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS":   attrContextNumCompVectors,
		"UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT":       attrContextCoreSupport,
		"UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS": attrContextNumCompVectors,
		"UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT":     attrContextCoreSupport,
		"UVERBS_ATTR_INFO_OBJECT_ID":                 attrInfoObjectID, "UVERBS_ATTR_INFO_TOTAL_HANDLES": attrInfoTotalHandles,
		"UVERBS_ATTR_INFO_HANDLES_LIST":          attrInfoHandlesList,
		"UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE": attrGIDTableEntrySize, "UVERBS_ATTR_QUERY_GID_TABLE_FLAGS": attrGIDTableFlags,
		"UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES":     attrGIDTableEntries,
		"UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES": attrGIDTableNumEntries,
		"UVERBS_ATTR_QUERY_GID_ENTRY_PORT":             attrGIDEntryPort, "UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX": attrGIDEntryIndex,
		"UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS": attrGIDEntryFlags, "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY": attrGIDEntryResp,

		"UVERBS_ATTR_CREATE_CQ_HANDLE": attrCreateCQHandle, "UVERBS_ATTR_CREATE_CQ_CQE": attrCreateCQCQE,
		"UVERBS_ATTR_CREATE_CQ_USER_HANDLE": attrCreateCQUserHandle, "UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL": attrCreateCQCompChannel,
		"UVERBS_ATTR_CREATE_CQ_COMP_VECTOR": attrCreateCQCompVector, "UVERBS_ATTR_CREATE_CQ_FLAGS": attrCreateCQFlags,
		"UVERBS_ATTR_CREATE_CQ_RESP_CQE": attrCreateCQRespCQE, "UVERBS_ATTR_CREATE_CQ_EVENT_FD": attrCreateCQEventFD,
		"UVERBS_ATTR_DESTROY_CQ_HANDLE": attrDestroyHandle, "UVERBS_ATTR_DESTROY_CQ_RESP": attrDestroyResp,
		"UVERBS_ATTR_DESTROY_QP_HANDLE": attrDestroyHandle, "UVERBS_ATTR_DESTROY_QP_RESP": attrDestroyResp,
		"UVERBS_ATTR_DESTROY_SRQ_HANDLE": attrDestroyHandle, "UVERBS_ATTR_DESTROY_SRQ_RESP": attrDestroyResp,
		"UVERBS_ATTR_DESTROY_MR_HANDLE": attrDestroyHandle, "UVERBS_ATTR_DESTROY_PD_HANDLE": attrDestroyHandle,
		"UVERBS_ATTR_DESTROY_MW_HANDLE": attrDestroyHandle, "UVERBS_ATTR_DESTROY_AH_HANDLE": attrDestroyHandle,

		"UVERBS_ATTR_CREATE_QP_HANDLE": attrCreateQPHandle, "UVERBS_ATTR_CREATE_QP_XRCD_HANDLE": attrCreateQPXRCD,
		"UVERBS_ATTR_CREATE_QP_PD_HANDLE": attrCreateQPPD, "UVERBS_ATTR_CREATE_QP_SRQ_HANDLE": attrCreateQPSRQ,
		"UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE": attrCreateQPSendCQ, "UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE": attrCreateQPRecvCQ,
		"UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE": attrCreateQPIndTable, "UVERBS_ATTR_CREATE_QP_USER_HANDLE": attrCreateQPUserHandle,
		"UVERBS_ATTR_CREATE_QP_CAP": attrCreateQPCap, "UVERBS_ATTR_CREATE_QP_TYPE": attrCreateQPType,
		"UVERBS_ATTR_CREATE_QP_FLAGS": attrCreateQPFlags, "UVERBS_ATTR_CREATE_QP_SOURCE_QPN": attrCreateQPSourceQPN,
		"UVERBS_ATTR_CREATE_QP_EVENT_FD": attrCreateQPEventFD, "UVERBS_ATTR_CREATE_QP_RESP_CAP": attrCreateQPRespCap,
		"UVERBS_ATTR_CREATE_QP_RESP_QP_NUM": attrCreateQPRespQPNum,

		"UVERBS_ATTR_CREATE_SRQ_HANDLE": attrCreateSRQHandle, "UVERBS_ATTR_CREATE_SRQ_PD_HANDLE": attrCreateSRQPD,
		"UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE": attrCreateSRQXRCD, "UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE": attrCreateSRQCQ,
		"UVERBS_ATTR_CREATE_SRQ_USER_HANDLE": attrCreateSRQUserHandle, "UVERBS_ATTR_CREATE_SRQ_MAX_WR": attrCreateSRQMaxWR,
		"UVERBS_ATTR_CREATE_SRQ_MAX_SGE": attrCreateSRQMaxSGE, "UVERBS_ATTR_CREATE_SRQ_LIMIT": attrCreateSRQLimit,
		"UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS": attrCreateSRQMaxNumTags, "UVERBS_ATTR_CREATE_SRQ_TYPE": attrCreateSRQType,
		"UVERBS_ATTR_CREATE_SRQ_EVENT_FD": attrCreateSRQEventFD, "UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR": attrCreateSRQRespMaxWR,
		"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE": attrCreateSRQRespMaxSGE, "UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM": attrCreateSRQRespSRQNum,

		"UVERBS_ATTR_ADVISE_MR_PD_HANDLE": attrAdvisePD, "UVERBS_ATTR_ADVISE_MR_ADVICE": attrAdviseAdvice,
		"UVERBS_ATTR_ADVISE_MR_FLAGS": attrAdviseFlags, "UVERBS_ATTR_ADVISE_MR_SGE_LIST": attrAdviseSGList,
		"UVERBS_ATTR_QUERY_MR_HANDLE": attrQueryMRHandle, "UVERBS_ATTR_QUERY_MR_RESP_LKEY": attrQueryMRLKey,
		"UVERBS_ATTR_QUERY_MR_RESP_RKEY": attrQueryMRRKey, "UVERBS_ATTR_QUERY_MR_RESP_LENGTH": attrQueryMRLength,
		"UVERBS_ATTR_QUERY_MR_RESP_IOVA": attrQueryMRIOVA, "UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE": attrAsyncEventFD,
		"UVERBS_ATTR_REG_DMABUF_MR_HANDLE": attrRegDMABufHandle, "UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE": attrRegDMABufPD,
		"UVERBS_ATTR_REG_DMABUF_MR_OFFSET": attrRegDMABufOffset, "UVERBS_ATTR_REG_DMABUF_MR_LENGTH": attrRegDMABufLength,
		"UVERBS_ATTR_REG_DMABUF_MR_IOVA": attrRegDMABufIOVA, "UVERBS_ATTR_REG_DMABUF_MR_FD": attrRegDMABufFD,
		"UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS": attrRegDMABufAccess, "UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY": attrRegDMABufLKey,
		"UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY": attrRegDMABufRKey,

		"IB_USER_VERBS_CMD_COMMAND_MASK": cmdMask, "IB_USER_VERBS_CMD_FLAG_EXTENDED": cmdExtended,
		"IB_UVERBS_QPT_RC": qptRC, "IB_UVERBS_QPT_UC": qptUC, "IB_UVERBS_QPT_UD": qptUD,
		"IB_UVERBS_QPT_RAW_PACKET": qptRawPacket, "IB_UVERBS_QPT_XRC_INI": qptXRCIni,
		"IB_UVERBS_QPT_XRC_TGT": qptXRCTgt, "IB_UVERBS_QPT_DRIVER": qptDriver,
		"IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK": qpCreateBlockMulticastLoopback,
		"IB_UVERBS_QP_CREATE_SCATTER_FCS":              qpCreateScatterFCS,
		"IB_UVERBS_QP_CREATE_CVLAN_STRIPPING":          qpCreateCVLANStripping,
		"IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING":    qpCreatePCIWriteEndPadding,
		"IB_UVERBS_QP_CREATE_SQ_SIG_ALL":               qpCreateSQSigAll,
		"IB_UVERBS_CREATE_QP_MASK_IND_TABLE":           createQPMaskIndTable,
		"IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION":      cqFlagTimestamp,
		"IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN":            cqFlagIgnoreOverrun,
		"IB_UVERBS_SRQT_BASIC":                         srqtBasic, "IB_UVERBS_SRQT_XRC": srqtXRC, "IB_UVERBS_SRQT_TM": srqtTM,
		"IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS": coreSupportOptionalMRAccess,
		"IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH":       advisePrefetch, "IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE": advisePrefetchWrite,
		"IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT": advisePrefetchNoFault,
		"IB_UVERBS_ADVISE_MR_FLAG_FLUSH":               adviseFlagFlush,
		"IB_UVERBS_ACCESS_OPTIONAL_RANGE":              accessOptional,
		"IB_UVERBS_GID_TYPE_ROCE_V2":                   gidTypeRoCEv2,
		"sizeof(struct ib_uverbs_send_wr)":             sendWRSize,
	}
	for i, name := range []string{"GET_CONTEXT", "QUERY_DEVICE", "QUERY_PORT", "ALLOC_PD", "DEALLOC_PD", "CREATE_AH",
		"MODIFY_AH", "QUERY_AH", "DESTROY_AH", "REG_MR", "REG_SMR", "REREG_MR", "QUERY_MR", "DEREG_MR", "ALLOC_MW",
		"BIND_MW", "DEALLOC_MW", "CREATE_COMP_CHANNEL", "CREATE_CQ", "RESIZE_CQ", "DESTROY_CQ", "POLL_CQ", "PEEK_CQ",
		"REQ_NOTIFY_CQ", "CREATE_QP", "QUERY_QP", "MODIFY_QP", "DESTROY_QP", "POST_SEND", "POST_RECV", "ATTACH_MCAST",
		"DETACH_MCAST", "CREATE_SRQ", "MODIFY_SRQ", "QUERY_SRQ", "DESTROY_SRQ", "POST_SRQ_RECV", "OPEN_XRCD",
		"CLOSE_XRCD", "CREATE_XSRQ", "OPEN_QP"} {
		tests["IB_USER_VERBS_CMD_"+name] = uint64(i)
		if i < len(commands) && commands[i].name != name {
			t.Errorf("command %d is called %s, not %s", i, commands[i].name, name)
		}
	}
	var exprs []string
	for expr := range tests {
		exprs = append(exprs, expr)
	}
	for i, got := range cValues(t, abiHeaders, exprs) {
		if want := tests[exprs[i]]; uint32(got) != uint32(want) {
			t.Errorf("%s is %#x in C, %#x in Go", exprs[i], uint32(got), want)
		}
	}
}

package uverbs

import "strings"

// methodVerbs are the methods of the ioctl form that are verbs of libibverbs, by their names. Some
// are not called so: libibverbs has query_gid_table for a query of one entry, a rule for reg_mr
// also concerns dma-bufs, and one for query_port also the speed. A doorbell asks for faults itself
// (writePostSend).
var methodVerbs = map[string]string{
	"QUERY_PORT": "query_port", "QUERY_PORT_SPEED": "query_port", "QUERY_GID_TABLE": "query_gid_table", "QUERY_GID_ENTRY": "query_gid_table",
	"PD_DESTROY": "dealloc_pd", "MW_DESTROY": "dealloc_mw", "AH_DESTROY": "destroy_ah",
	"MR_DESTROY": "dereg_mr", "REG_DMABUF_MR": "reg_mr", "ADVISE_MR": "advise_mr", "QUERY_MR": "query_mr",
	"CQ_CREATE": "create_cq", "CQ_DESTROY": "destroy_cq",
	"QP_CREATE": "create_qp", "QP_DESTROY": "destroy_qp",
	"XRCD_DESTROY": "close_xrcd",
	"DM_ALLOC":     "alloc_dm", "DM_FREE": "free_dm", "DM_MR_REG": "reg_dm_mr",
	"FLOW_DESTROY": "destroy_flow", "COUNTERS_CREATE": "create_counters", "COUNTERS_DESTROY": "destroy_counters",
	"COUNTERS_READ": "read_counters", "WQ_CREATE": "create_wq", "WQ_DESTROY": "destroy_wq",
	"RWQ_IND_TBL_DESTROY": "destroy_rwq_ind_table", "EX_CREATE_RWQ_IND_TBL": "create_rwq_ind_table",
	"EX_DESTROY_RWQ_IND_TBL": "destroy_rwq_ind_table",
	"SRQ_CREATE":             "create_srq", "SRQ_DESTROY": "destroy_srq",
}

// notVerbs are methods and commands that are not verbs of libibverbs, or that ask for faults
// themselves.
var notVerbs = map[string]bool{
	"unsupported": true, "GET_CONTEXT": true, "POST_SEND": true,
	"MLX5_QUERY_PORT": true, "PD_QUERY": true, "DM_QUERY": true, "DM_MAP_OP_ADDR": true,
	"UAR_OBJ_ALLOC": true, "UAR_OBJ_DESTROY": true, "FLOW_MATCHER_CREATE": true, "FLOW_MATCHER_DESTROY": true,
	"INVOKE_WRITE": true, "INFO_HANDLES": true, "QUERY_CONTEXT": true, "ASYNC_EVENT_ALLOC": true,
}

// verbOf returns the verb of a method or command by its name; "" if it is none.
func verbOf(name string) string {
	if verb, ok := methodVerbs[name]; ok || notVerbs[name] {
		return verb
	}
	return strings.ToLower(strings.Replace(strings.TrimPrefix(name, "EX_"), "XSRQ", "SRQ", 1))
}

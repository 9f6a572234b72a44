package uverbs

import "golang.org/x/sys/unix"

// What the kernel's ABI has and rdma_rxe has not, by name, so that nothing is
// left out by oversight: abi_test.go holds the tables against the headers.

// absentMethods are the methods that the kernel takes from a driver's table if the
// driver has nothing for them, or for an object that they need
// (uverbs_uapi.c:uapi_finalize_disable); and those that are younger than the
// kernel that gorxe is like. Either way they answer EPROTONOSUPPORT: rdma-core
// falls back to write(), or says EOPNOTSUPP itself.
var absentMethods = map[methodKey]string{
	{objFlow, 0}:           "FLOW_DESTROY",
	{objXRCD, 0}:           "XRCD_DESTROY",
	{objRWQIndTbl, 0}:      "RWQ_IND_TBL_DESTROY",
	{objWQ, 0}:             "WQ_CREATE",
	{objWQ, 1}:             "WQ_DESTROY",
	{objFlowAction, 0}:     "FLOW_ACTION_ESP_CREATE",
	{objFlowAction, 1}:     "FLOW_ACTION_DESTROY",
	{objFlowAction, 2}:     "FLOW_ACTION_ESP_MODIFY",
	{objDM, 0}:             "DM_ALLOC",
	{objDM, 1}:             "DM_FREE",
	{objMR, methodDMMRReg}: "DM_MR_REG",
	{objCounters, 0}:       "COUNTERS_CREATE",
	{objCounters, 1}:       "COUNTERS_DESTROY",
	{objCounters, 2}:       "COUNTERS_READ",

	{objMR, 5}:       "REG_MR", // Linux 6.17
	{objDevice, 7}:   "QUERY_PORT_SPEED",
	{objDevice, 8}:   "QUERY_COMP_CNTR_CAPS",
	{objQP, 2}:       "QP_ATTACH_COMP_CNTR",
	{objDMAH, 0}:     "DMAH_ALLOC",
	{objDMAH, 1}:     "DMAH_FREE",
	{objDMABuf, 0}:   "DMABUF_ALLOC",
	{objCompCntr, 0}: "COMP_CNTR_CREATE",
	{objCompCntr, 1}: "COMP_CNTR_DESTROY",
	{objCompCntr, 2}: "COMP_CNTR_MODIFY",
	{objCompCntr, 3}: "COMP_CNTR_READ",
}

// absentCommands answer EOPNOTSUPP, framed as a plain command without a request
// (uverbs_uapi.c:ib_uverbs_notsupp).
var absentCommands = map[int]string{
	cmdModifyAH:    "MODIFY_AH",
	cmdQueryAH:     "QUERY_AH",
	cmdRegSMR:      "REG_SMR",
	cmdQueryMR:     "QUERY_MR",
	cmdBindMW:      "BIND_MW",
	cmdPollCQ:      "POLL_CQ", // librxe's queues need no call
	cmdPeekCQ:      "PEEK_CQ",
	cmdPostRecv:    "POST_RECV",
	cmdPostSRQRecv: "POST_SRQ_RECV",
	cmdOpenXRCD:    "OPEN_XRCD",
	cmdCloseXRCD:   "CLOSE_XRCD",
}

// notSupported is the handler of what the kernel knows and rdma_rxe does not.
func notSupported(*call) error { return unix.EOPNOTSUPP }

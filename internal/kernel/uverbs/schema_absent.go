package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// What the kernel's ABI has and rdma_rxe does not have, by name. schema_test.go compares
// the tables with the headers, so nothing is missing by mistake.

// absentMethods answer EPROTONOSUPPORT, after which rdma-core falls back to write() or
// returns EOPNOTSUPP itself. The kernel removes the first group from a driver's table,
// because the driver does not implement them or an object that they need
// (uverbs_uapi.c:uapi_finalize_disable). The others are newer than Linux 6.1.
var absentMethods = map[methodKey]string{
	{uapi.ObjFlow, 0}:                "FLOW_DESTROY",
	{uapi.ObjXRCD, 0}:                "XRCD_DESTROY",
	{uapi.ObjRWQIndTbl, 0}:           "RWQ_IND_TBL_DESTROY",
	{uapi.ObjWQ, 0}:                  "WQ_CREATE",
	{uapi.ObjWQ, 1}:                  "WQ_DESTROY",
	{uapi.ObjFlowAction, 0}:          "FLOW_ACTION_ESP_CREATE",
	{uapi.ObjFlowAction, 1}:          "FLOW_ACTION_DESTROY",
	{uapi.ObjFlowAction, 2}:          "FLOW_ACTION_ESP_MODIFY",
	{uapi.ObjDM, 0}:                  "DM_ALLOC",
	{uapi.ObjDM, 1}:                  "DM_FREE",
	{uapi.ObjMR, uapi.MethodDMMRReg}: "DM_MR_REG",
	{uapi.ObjCounters, 0}:            "COUNTERS_CREATE",
	{uapi.ObjCounters, 1}:            "COUNTERS_DESTROY",
	{uapi.ObjCounters, 2}:            "COUNTERS_READ",

	{uapi.ObjMR, 5}:       "REG_MR", // Linux 6.17
	{uapi.ObjDevice, 7}:   "QUERY_PORT_SPEED",
	{uapi.ObjDevice, 8}:   "QUERY_COMP_CNTR_CAPS",
	{uapi.ObjQP, 2}:       "QP_ATTACH_COMP_CNTR",
	{uapi.ObjDMAH, 0}:     "DMAH_ALLOC",
	{uapi.ObjDMAH, 1}:     "DMAH_FREE",
	{uapi.ObjDMABuf, 0}:   "DMABUF_ALLOC",
	{uapi.ObjCompCntr, 0}: "COMP_CNTR_CREATE",
	{uapi.ObjCompCntr, 1}: "COMP_CNTR_DESTROY",
	{uapi.ObjCompCntr, 2}: "COMP_CNTR_MODIFY",
	{uapi.ObjCompCntr, 3}: "COMP_CNTR_READ",
}

// absentCommands answer EOPNOTSUPP, framed as a plain command without a request
// (uverbs_uapi.c:ib_uverbs_notsupp).
var absentCommands = map[int]string{
	uapi.CmdModifyAH:    "MODIFY_AH",
	uapi.CmdQueryAH:     "QUERY_AH",
	uapi.CmdRegSMR:      "REG_SMR",
	uapi.CmdQueryMR:     "QUERY_MR",
	uapi.CmdBindMW:      "BIND_MW",
	uapi.CmdPollCQ:      "POLL_CQ", // librxe's queues need no call
	uapi.CmdPeekCQ:      "PEEK_CQ",
	uapi.CmdPostRecv:    "POST_RECV",
	uapi.CmdPostSRQRecv: "POST_SRQ_RECV",
	uapi.CmdOpenXRCD:    "OPEN_XRCD",
	uapi.CmdCloseXRCD:   "CLOSE_XRCD",
}

// notSupported is the handler of what the kernel knows and rdma_rxe does not.
func notSupported(*call) error { return unix.EOPNOTSUPP }

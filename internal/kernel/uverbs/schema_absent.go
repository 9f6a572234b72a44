package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// What the kernel's ABI has and rdma_rxe does not have, by name. schema_test.go compares
// the tables with the headers, so nothing is missing by mistake.

// absentMethods answer EPROTONOSUPPORT, after which rdma-core falls back to write() or
// returns EOPNOTSUPP itself. The kernel removes the first group from a driver's table,
// because the driver does not implement them or an object that they need
// (uverbs_uapi.c:uapi_finalize_disable). The others are newer than Linux 6.1.
var absentMethods = map[dispatch.MethodKey]string{
	{Object: uapi.ObjFlow, Method: 0}:                "FLOW_DESTROY",
	{Object: uapi.ObjXRCD, Method: 0}:                "XRCD_DESTROY",
	{Object: uapi.ObjRWQIndTbl, Method: 0}:           "RWQ_IND_TBL_DESTROY",
	{Object: uapi.ObjWQ, Method: 0}:                  "WQ_CREATE",
	{Object: uapi.ObjWQ, Method: 1}:                  "WQ_DESTROY",
	{Object: uapi.ObjFlowAction, Method: 0}:          "FLOW_ACTION_ESP_CREATE",
	{Object: uapi.ObjFlowAction, Method: 1}:          "FLOW_ACTION_DESTROY",
	{Object: uapi.ObjFlowAction, Method: 2}:          "FLOW_ACTION_ESP_MODIFY",
	{Object: uapi.ObjDM, Method: 0}:                  "DM_ALLOC",
	{Object: uapi.ObjDM, Method: 1}:                  "DM_FREE",
	{Object: uapi.ObjMR, Method: uapi.MethodDMMRReg}: "DM_MR_REG",
	{Object: uapi.ObjCounters, Method: 0}:            "COUNTERS_CREATE",
	{Object: uapi.ObjCounters, Method: 1}:            "COUNTERS_DESTROY",
	{Object: uapi.ObjCounters, Method: 2}:            "COUNTERS_READ",

	{Object: uapi.ObjMR, Method: 5}:       "REG_MR", // Linux 6.17
	{Object: uapi.ObjDevice, Method: 8}:   "QUERY_COMP_CNTR_CAPS",
	{Object: uapi.ObjQP, Method: 2}:       "QP_ATTACH_COMP_CNTR",
	{Object: uapi.ObjDMAH, Method: 0}:     "DMAH_ALLOC",
	{Object: uapi.ObjDMAH, Method: 1}:     "DMAH_FREE",
	{Object: uapi.ObjDMABuf, Method: 0}:   "DMABUF_ALLOC",
	{Object: uapi.ObjCompCntr, Method: 0}: "COMP_CNTR_CREATE",
	{Object: uapi.ObjCompCntr, Method: 1}: "COMP_CNTR_DESTROY",
	{Object: uapi.ObjCompCntr, Method: 2}: "COMP_CNTR_MODIFY",
	{Object: uapi.ObjCompCntr, Method: 3}: "COMP_CNTR_READ",
}

// absentObjects are the types of objects that rdma_rxe does not have: no handle names one.
var absentObjects = map[uapi.ObjectType]bool{
	uapi.ObjFlow: true, uapi.ObjXRCD: true, uapi.ObjRWQIndTbl: true, uapi.ObjWQ: true,
	uapi.ObjFlowAction: true, uapi.ObjDM: true, uapi.ObjCounters: true,
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

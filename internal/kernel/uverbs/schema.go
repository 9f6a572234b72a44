package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

func destroyMethod(name string, o uapi.ObjectType, handler func(*call) error, more ...dispatch.AttrSpec) *dispatch.MethodSpec {
	attrs := append([]dispatch.AttrSpec{dispatch.Required(dispatch.Handle(uapi.AttrDestroyHandle, o, dispatch.AccessDestroy))}, more...)
	return &dispatch.MethodSpec{Name: name, Attrs: attrs, Handle: on(handler), Destroys: true}
}

func init() {
	methods := map[dispatch.MethodKey]*dispatch.MethodSpec{
		{Object: uapi.ObjPD, Method: uapi.MethodPDDestroy}: destroyMethod("PD_DESTROY", uapi.ObjPD, destroyed),
		{Object: uapi.ObjMW, Method: uapi.MethodMWDestroy}: destroyMethod("MW_DESTROY", uapi.ObjMW, destroyed),
		{Object: uapi.ObjAH, Method: uapi.MethodAHDestroy}: destroyMethod("AH_DESTROY", uapi.ObjAH, destroyed),
		{Object: uapi.ObjMR, Method: uapi.MethodMRDestroy}: destroyMethod("MR_DESTROY", uapi.ObjMR, destroyed),
		{Object: uapi.ObjCQ, Method: uapi.MethodCQDestroy}: destroyMethod("CQ_DESTROY", uapi.ObjCQ, ioctlDestroyCQ,
			dispatch.Required(dispatch.Output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyCQResp]()))),
		{Object: uapi.ObjQP, Method: uapi.MethodQPDestroy}: destroyMethod("QP_DESTROY", uapi.ObjQP, ioctlDestroyed,
			dispatch.Required(dispatch.Output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyResp]()))),
		{Object: uapi.ObjSRQ, Method: uapi.MethodSRQDestroy}: destroyMethod("SRQ_DESTROY", uapi.ObjSRQ, ioctlDestroyed,
			dispatch.Required(dispatch.Output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyResp]()))),
	}
	for _, m := range []map[dispatch.MethodKey]*dispatch.MethodSpec{schemaDevice, schemaQueues, schemaMR, schemaPortSpeed} {
		for key, spec := range m {
			methods[key] = spec
		}
	}
	for _, spec := range methods {
		if !spec.Absent {
			spec.Verb = verbOf(spec.Name)
		}
	}
	for key, name := range absentMethods {
		methods[key] = &dispatch.MethodSpec{Name: name, Absent: true}
	}
	tables.Methods, tables.Absent = methods, absentObjects
}

// destroyed is the handler of methods that do nothing else.
func destroyed(*call) error { return nil }

var schemaDevice = map[dispatch.MethodKey]*dispatch.MethodSpec{
	{Object: uapi.ObjDevice, Method: uapi.MethodInvokeWrite}: {
		Name: "INVOKE_WRITE", Handle: dispatch.InvokeWrite,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrWriteCmd)),
			dispatch.Inputs(uapi.AttrCoreIn, 4, dispatch.MaxAttrLen),
			dispatch.OutputAny(uapi.AttrCoreOut, 0),
			dispatch.UHWIn, dispatch.UHWOut,
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodInfoHandles}: {
		Name: "INFO_HANDLES", Handle: on(ioctlInfoHandles),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrInfoObjectID)),
			dispatch.Output(uapi.AttrInfoTotalHandles, 4),
			dispatch.OutputAny(uapi.AttrInfoHandlesList, 4),
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryPort}: {
		Name: "QUERY_PORT", Handle: on(ioctlQueryPort),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrQueryPortNum)),
			dispatch.Required(dispatch.StructOut(uapi.AttrQueryPortResp, uapi.SizeOf[uapi.QueryPortRespEx](), uapi.SizeOf[uapi.QueryPortRespEx]())),
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodGetContext}: {
		Name: "GET_CONTEXT", Handle: on(ioctlGetContext),
		Attrs: []dispatch.AttrSpec{
			dispatch.Output(uapi.AttrContextNumCompVectors, 4),
			dispatch.Output(uapi.AttrContextCoreSupport, 8),
			dispatch.UHWIn, dispatch.UHWOut,
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryContext}: {
		Name: "QUERY_CONTEXT", Handle: on(ioctlQueryContext),
		Attrs: []dispatch.AttrSpec{
			dispatch.Output(uapi.AttrContextNumCompVectors, 4),
			dispatch.Output(uapi.AttrContextCoreSupport, 8),
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryGIDTable}: {
		Name: "QUERY_GID_TABLE", Handle: on(ioctlQueryGIDTable),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrGIDTableEntrySize)),
			dispatch.Flags(uapi.AttrGIDTableFlags),
			dispatch.Required(dispatch.OutputAny(uapi.AttrGIDTableEntries, 0)),
			dispatch.Required(dispatch.Output(uapi.AttrGIDTableNumEntries, 8)),
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryGIDEntry}: {
		Name: "QUERY_GID_ENTRY", Handle: on(ioctlQueryGIDEntry),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrGIDEntryPort)),
			dispatch.Required(dispatch.Constant(uapi.AttrGIDEntryIndex)),
			dispatch.Required(dispatch.Flags(uapi.AttrGIDEntryFlags)),
			dispatch.Required(dispatch.StructOut(uapi.AttrGIDEntryResp, uapi.SizeOf[uapi.GIDEntry](), uapi.SizeOf[uapi.GIDEntry]())),
		},
	},
	{Object: uapi.ObjAsyncEvent, Method: uapi.MethodAsyncEventAlloc}: {
		Name: "ASYNC_EVENT_ALLOC", Handle: on(ioctlAsyncEventAlloc),
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Descriptor(uapi.AttrAsyncEventFD, uapi.ObjAsyncEvent, dispatch.AccessNew))},
	},
}

var schemaQueues = map[dispatch.MethodKey]*dispatch.MethodSpec{
	{Object: uapi.ObjCQ, Method: uapi.MethodCQCreate}: {
		Name: "CQ_CREATE", Handle: on(ioctlCreateCQ),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrCreateCQHandle, uapi.ObjCQ, dispatch.AccessNew)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateCQCQE, 4)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateCQUserHandle, 8)),
			dispatch.Descriptor(uapi.AttrCreateCQCompChannel, uapi.ObjCompChannel, dispatch.AccessRead),
			dispatch.Required(dispatch.Input(uapi.AttrCreateCQCompVector, 4)),
			dispatch.Flags(uapi.AttrCreateCQFlags),
			dispatch.Required(dispatch.Output(uapi.AttrCreateCQRespCQE, 4)),
			dispatch.Descriptor(uapi.AttrCreateCQEventFD, uapi.ObjAsyncEvent, dispatch.AccessRead),
			dispatch.UHWIn, dispatch.UHWOut,
		},
	},
	{Object: uapi.ObjQP, Method: uapi.MethodQPCreate}: {
		Name: "QP_CREATE", Handle: on(ioctlCreateQP),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrCreateQPHandle, uapi.ObjQP, dispatch.AccessNew)),
			dispatch.Handle(uapi.AttrCreateQPXRCD, uapi.ObjXRCD, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateQPPD, uapi.ObjPD, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateQPSRQ, uapi.ObjSRQ, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateQPSendCQ, uapi.ObjCQ, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateQPRecvCQ, uapi.ObjCQ, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateQPIndTable, uapi.ObjRWQIndTbl, dispatch.AccessRead),
			dispatch.Required(dispatch.Input(uapi.AttrCreateQPUserHandle, 8)),
			dispatch.Required(dispatch.StructIn(uapi.AttrCreateQPCap, uapi.SizeOf[uapi.QPCap](), uapi.SizeOf[uapi.QPCap]())),
			dispatch.Required(dispatch.Constant(uapi.AttrCreateQPType)),
			dispatch.Flags(uapi.AttrCreateQPFlags),
			dispatch.Input(uapi.AttrCreateQPSourceQPN, 4),
			dispatch.Descriptor(uapi.AttrCreateQPEventFD, uapi.ObjAsyncEvent, dispatch.AccessRead),
			dispatch.Required(dispatch.StructOut(uapi.AttrCreateQPRespCap, uapi.SizeOf[uapi.QPCap](), uapi.SizeOf[uapi.QPCap]())),
			dispatch.Required(dispatch.Output(uapi.AttrCreateQPRespQPNum, 4)),
			dispatch.UHWIn, dispatch.UHWOut,
		},
	},
	{Object: uapi.ObjSRQ, Method: uapi.MethodSRQCreate}: {
		Name: "SRQ_CREATE", Handle: on(ioctlCreateSRQ),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrCreateSRQHandle, uapi.ObjSRQ, dispatch.AccessNew)),
			dispatch.Required(dispatch.Handle(uapi.AttrCreateSRQPD, uapi.ObjPD, dispatch.AccessRead)),
			dispatch.Required(dispatch.Constant(uapi.AttrCreateSRQType)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateSRQUserHandle, 8)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateSRQMaxWR, 4)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateSRQMaxSGE, 4)),
			dispatch.Required(dispatch.Input(uapi.AttrCreateSRQLimit, 4)),
			dispatch.Handle(uapi.AttrCreateSRQXRCD, uapi.ObjXRCD, dispatch.AccessRead),
			dispatch.Handle(uapi.AttrCreateSRQCQ, uapi.ObjCQ, dispatch.AccessRead),
			dispatch.Input(uapi.AttrCreateSRQMaxNumTags, 4),
			dispatch.Descriptor(uapi.AttrCreateSRQEventFD, uapi.ObjAsyncEvent, dispatch.AccessRead),
			dispatch.Required(dispatch.Output(uapi.AttrCreateSRQRespMaxWR, 4)),
			dispatch.Required(dispatch.Output(uapi.AttrCreateSRQRespMaxSGE, 4)),
			dispatch.Output(uapi.AttrCreateSRQRespSRQNum, 4),
			dispatch.UHWIn, dispatch.UHWOut,
		},
	},
}

var schemaMR = map[dispatch.MethodKey]*dispatch.MethodSpec{
	{Object: uapi.ObjMR, Method: uapi.MethodAdviseMR}: {
		Name: "ADVISE_MR", Handle: on(ioctlAdviseMR),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrAdvisePD, uapi.ObjPD, dispatch.AccessRead)),
			dispatch.Required(dispatch.Constant(uapi.AttrAdviseAdvice)),
			dispatch.Required(dispatch.Flags(uapi.AttrAdviseFlags)),
			dispatch.Required(dispatch.Inputs(uapi.AttrAdviseSGList, uapi.SizeOf[uapi.SGE](), dispatch.MaxAttrLen)),
		},
	},
	{Object: uapi.ObjMR, Method: uapi.MethodQueryMR}: {
		Name: "QUERY_MR", Handle: on(ioctlQueryMR),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrQueryMRHandle, uapi.ObjMR, dispatch.AccessRead)),
			dispatch.Required(dispatch.Output(uapi.AttrQueryMRRKey, 4)),
			dispatch.Required(dispatch.Output(uapi.AttrQueryMRLKey, 4)),
			dispatch.Required(dispatch.Output(uapi.AttrQueryMRLength, 8)),
			dispatch.Output(uapi.AttrQueryMRIOVA, 8),
		},
	},
	{Object: uapi.ObjMR, Method: uapi.MethodRegDMABufMR}: {
		Name: "REG_DMABUF_MR", Handle: on(ioctlRegDMABufMR),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrRegDMABufHandle, uapi.ObjMR, dispatch.AccessNew)),
			dispatch.Required(dispatch.Handle(uapi.AttrRegDMABufPD, uapi.ObjPD, dispatch.AccessRead)),
			dispatch.Required(dispatch.Input(uapi.AttrRegDMABufOffset, 8)),
			dispatch.Required(dispatch.Input(uapi.AttrRegDMABufLength, 8)),
			dispatch.Required(dispatch.Input(uapi.AttrRegDMABufIOVA, 8)),
			dispatch.Required(dispatch.Input(uapi.AttrRegDMABufFD, 4)),
			dispatch.Flags(uapi.AttrRegDMABufAccess),
			dispatch.Required(dispatch.Output(uapi.AttrRegDMABufLKey, 4)),
			dispatch.Required(dispatch.Output(uapi.AttrRegDMABufRKey, 4)),
		},
	},
}

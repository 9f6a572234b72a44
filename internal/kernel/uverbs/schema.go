package uverbs

import "github.com/gorxe/gorxe/internal/kernel/uapi"

// The schema of the ioctl form: the attributes of each method of each object, and what
// the framework checks before the handler sees them. schema_absent.go has what rdma_rxe
// does not have: flows, WQs, XRC domains, counters, device memory.

// attrKind is enum uverbs_attr_type, as far as used.
type attrKind uint8

const (
	kindIn  attrKind = iota // a value; up to 8 bytes of it are inline
	kindOut                 // a buffer for a value
	kindIDR                 // a handle
	kindFD                  // a descriptor of an event file
)

// access is enum uverbs_obj_access, of handles and descriptors.
type access uint8

const (
	accessRead access = iota
	accessNew
	accessDestroy
)

// attrSpec is struct uverbs_attr_spec.
type attrSpec struct {
	id        uint16
	kind      attrKind
	mandatory bool
	// Of values: the length is between min and max; with zeroTail it may be
	// more, as long as all beyond max is zero.
	min, max int
	zeroTail bool
	// Of objects.
	object uapi.ObjectType
	access access
}

type methodSpec struct {
	name   string
	attrs  []attrSpec
	handle func(*call) error
	// destroys says that attribute 0 is destroyed before handle is called.
	destroys bool
	// absent says that the kernel does not have the method for rdma_rxe.
	absent bool
}

const maxAttrLen = 1<<16 - 1

// required makes attributes mandatory.
func required(a attrSpec) attrSpec {
	a.mandatory = true
	return a
}

func inputs(id uint16, lo, hi int) attrSpec { return attrSpec{id: id, kind: kindIn, min: lo, max: hi} }

// input is a value of one size, constant a number in 8 bytes, flags a number in
// 4 or 8 bytes.
func input(id uint16, size int) attrSpec { return inputs(id, size, size) }
func constant(id uint16) attrSpec        { return inputs(id, 8, 8) }
func flags(id uint16) attrSpec           { return inputs(id, 4, 8) }

func output(id uint16, size int) attrSpec {
	return attrSpec{id: id, kind: kindOut, min: size, max: size}
}

// outputAny is a buffer of at least min bytes.
func outputAny(id uint16, min int) attrSpec {
	return attrSpec{id: id, kind: kindOut, min: min, max: maxAttrLen}
}

// structIn and structOut are structs that may grow in later versions; the first
// need bytes have to be there.
func structIn(id uint16, need, size int) attrSpec {
	return attrSpec{id: id, kind: kindIn, min: need, max: size, zeroTail: true}
}

func structOut(id uint16, need, size int) attrSpec {
	return attrSpec{id: id, kind: kindOut, min: need, max: size, zeroTail: true}
}

func handle(id uint16, o uapi.ObjectType, a access) attrSpec {
	return attrSpec{id: id, kind: kindIDR, object: o, access: a}
}

func descriptor(id uint16, o uapi.ObjectType, a access) attrSpec {
	return attrSpec{id: id, kind: kindFD, object: o, access: a}
}

var (
	uhwIn  = inputs(uapi.AttrUHWIn, 0, maxAttrLen)
	uhwOut = outputAny(uapi.AttrUHWOut, 0)
)

func destroyMethod(name string, o uapi.ObjectType, handler func(*call) error, more ...attrSpec) *methodSpec {
	attrs := append([]attrSpec{required(handle(uapi.AttrDestroyHandle, o, accessDestroy))}, more...)
	return &methodSpec{name: name, attrs: attrs, handle: handler, destroys: true}
}

type methodKey struct {
	object uapi.ObjectType
	method uint16
}

// methods is filled by init: the handlers refer to it.
var methods map[methodKey]*methodSpec

func init() {
	methods = map[methodKey]*methodSpec{
		{uapi.ObjPD, uapi.MethodPDDestroy}: destroyMethod("PD_DESTROY", uapi.ObjPD, destroyed),
		{uapi.ObjMW, uapi.MethodMWDestroy}: destroyMethod("MW_DESTROY", uapi.ObjMW, destroyed),
		{uapi.ObjAH, uapi.MethodAHDestroy}: destroyMethod("AH_DESTROY", uapi.ObjAH, destroyed),
		{uapi.ObjMR, uapi.MethodMRDestroy}: destroyMethod("MR_DESTROY", uapi.ObjMR, destroyed),
		{uapi.ObjCQ, uapi.MethodCQDestroy}: destroyMethod("CQ_DESTROY", uapi.ObjCQ, ioctlDestroyCQ,
			required(output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyCQResp]()))),
		{uapi.ObjQP, uapi.MethodQPDestroy}: destroyMethod("QP_DESTROY", uapi.ObjQP, ioctlDestroyed,
			required(output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyResp]()))),
		{uapi.ObjSRQ, uapi.MethodSRQDestroy}: destroyMethod("SRQ_DESTROY", uapi.ObjSRQ, ioctlDestroyed,
			required(output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyResp]()))),
	}
	for _, m := range []map[methodKey]*methodSpec{schemaDevice, schemaQueues, schemaMR} {
		for key, spec := range m {
			methods[key] = spec
		}
	}
	for key, name := range absentMethods {
		methods[key] = &methodSpec{name: name, absent: true}
	}
}

// destroyed is the handler of methods that do nothing else.
func destroyed(*call) error { return nil }

var schemaDevice = map[methodKey]*methodSpec{
	{uapi.ObjDevice, uapi.MethodInvokeWrite}: {
		name: "INVOKE_WRITE", handle: invokeWrite,
		attrs: []attrSpec{
			required(constant(uapi.AttrWriteCmd)),
			inputs(uapi.AttrCoreIn, 4, maxAttrLen),
			outputAny(uapi.AttrCoreOut, 0),
			uhwIn, uhwOut,
		},
	},
	{uapi.ObjDevice, uapi.MethodInfoHandles}: {
		name: "INFO_HANDLES", handle: ioctlInfoHandles,
		attrs: []attrSpec{
			required(constant(uapi.AttrInfoObjectID)),
			output(uapi.AttrInfoTotalHandles, 4),
			outputAny(uapi.AttrInfoHandlesList, 4),
		},
	},
	{uapi.ObjDevice, uapi.MethodQueryPort}: {
		name: "QUERY_PORT", handle: ioctlQueryPort,
		attrs: []attrSpec{
			required(constant(uapi.AttrQueryPortNum)),
			required(structOut(uapi.AttrQueryPortResp, uapi.SizeOf[uapi.QueryPortRespEx](), uapi.SizeOf[uapi.QueryPortRespEx]())),
		},
	},
	{uapi.ObjDevice, uapi.MethodGetContext}: {
		name: "GET_CONTEXT", handle: ioctlGetContext,
		attrs: []attrSpec{
			output(uapi.AttrContextNumCompVectors, 4),
			output(uapi.AttrContextCoreSupport, 8),
			uhwIn, uhwOut,
		},
	},
	{uapi.ObjDevice, uapi.MethodQueryContext}: {
		name: "QUERY_CONTEXT", handle: ioctlQueryContext,
		attrs: []attrSpec{
			output(uapi.AttrContextNumCompVectors, 4),
			output(uapi.AttrContextCoreSupport, 8),
		},
	},
	{uapi.ObjDevice, uapi.MethodQueryGIDTable}: {
		name: "QUERY_GID_TABLE", handle: ioctlQueryGIDTable,
		attrs: []attrSpec{
			required(constant(uapi.AttrGIDTableEntrySize)),
			flags(uapi.AttrGIDTableFlags),
			required(outputAny(uapi.AttrGIDTableEntries, 0)),
			required(output(uapi.AttrGIDTableNumEntries, 8)),
		},
	},
	{uapi.ObjDevice, uapi.MethodQueryGIDEntry}: {
		name: "QUERY_GID_ENTRY", handle: ioctlQueryGIDEntry,
		attrs: []attrSpec{
			required(constant(uapi.AttrGIDEntryPort)),
			required(constant(uapi.AttrGIDEntryIndex)),
			required(flags(uapi.AttrGIDEntryFlags)),
			required(structOut(uapi.AttrGIDEntryResp, uapi.SizeOf[uapi.GIDEntry](), uapi.SizeOf[uapi.GIDEntry]())),
		},
	},
	{uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc}: {
		name: "ASYNC_EVENT_ALLOC", handle: ioctlAsyncEventAlloc,
		attrs: []attrSpec{required(descriptor(uapi.AttrAsyncEventFD, uapi.ObjAsyncEvent, accessNew))},
	},
}

var schemaQueues = map[methodKey]*methodSpec{
	{uapi.ObjCQ, uapi.MethodCQCreate}: {
		name: "CQ_CREATE", handle: ioctlCreateCQ,
		attrs: []attrSpec{
			required(handle(uapi.AttrCreateCQHandle, uapi.ObjCQ, accessNew)),
			required(input(uapi.AttrCreateCQCQE, 4)),
			required(input(uapi.AttrCreateCQUserHandle, 8)),
			descriptor(uapi.AttrCreateCQCompChannel, uapi.ObjCompChannel, accessRead),
			required(input(uapi.AttrCreateCQCompVector, 4)),
			flags(uapi.AttrCreateCQFlags),
			required(output(uapi.AttrCreateCQRespCQE, 4)),
			descriptor(uapi.AttrCreateCQEventFD, uapi.ObjAsyncEvent, accessRead),
			uhwIn, uhwOut,
		},
	},
	{uapi.ObjQP, uapi.MethodQPCreate}: {
		name: "QP_CREATE", handle: ioctlCreateQP,
		attrs: []attrSpec{
			required(handle(uapi.AttrCreateQPHandle, uapi.ObjQP, accessNew)),
			handle(uapi.AttrCreateQPXRCD, uapi.ObjXRCD, accessRead),
			handle(uapi.AttrCreateQPPD, uapi.ObjPD, accessRead),
			handle(uapi.AttrCreateQPSRQ, uapi.ObjSRQ, accessRead),
			handle(uapi.AttrCreateQPSendCQ, uapi.ObjCQ, accessRead),
			handle(uapi.AttrCreateQPRecvCQ, uapi.ObjCQ, accessRead),
			handle(uapi.AttrCreateQPIndTable, uapi.ObjRWQIndTbl, accessRead),
			required(input(uapi.AttrCreateQPUserHandle, 8)),
			required(structIn(uapi.AttrCreateQPCap, uapi.SizeOf[uapi.QPCap](), uapi.SizeOf[uapi.QPCap]())),
			required(constant(uapi.AttrCreateQPType)),
			flags(uapi.AttrCreateQPFlags),
			input(uapi.AttrCreateQPSourceQPN, 4),
			descriptor(uapi.AttrCreateQPEventFD, uapi.ObjAsyncEvent, accessRead),
			required(structOut(uapi.AttrCreateQPRespCap, uapi.SizeOf[uapi.QPCap](), uapi.SizeOf[uapi.QPCap]())),
			required(output(uapi.AttrCreateQPRespQPNum, 4)),
			uhwIn, uhwOut,
		},
	},
	{uapi.ObjSRQ, uapi.MethodSRQCreate}: {
		name: "SRQ_CREATE", handle: ioctlCreateSRQ,
		attrs: []attrSpec{
			required(handle(uapi.AttrCreateSRQHandle, uapi.ObjSRQ, accessNew)),
			required(handle(uapi.AttrCreateSRQPD, uapi.ObjPD, accessRead)),
			required(constant(uapi.AttrCreateSRQType)),
			required(input(uapi.AttrCreateSRQUserHandle, 8)),
			required(input(uapi.AttrCreateSRQMaxWR, 4)),
			required(input(uapi.AttrCreateSRQMaxSGE, 4)),
			required(input(uapi.AttrCreateSRQLimit, 4)),
			handle(uapi.AttrCreateSRQXRCD, uapi.ObjXRCD, accessRead),
			handle(uapi.AttrCreateSRQCQ, uapi.ObjCQ, accessRead),
			input(uapi.AttrCreateSRQMaxNumTags, 4),
			descriptor(uapi.AttrCreateSRQEventFD, uapi.ObjAsyncEvent, accessRead),
			required(output(uapi.AttrCreateSRQRespMaxWR, 4)),
			required(output(uapi.AttrCreateSRQRespMaxSGE, 4)),
			output(uapi.AttrCreateSRQRespSRQNum, 4),
			uhwIn, uhwOut,
		},
	},
}

var schemaMR = map[methodKey]*methodSpec{
	{uapi.ObjMR, uapi.MethodAdviseMR}: {
		name: "ADVISE_MR", handle: ioctlAdviseMR,
		attrs: []attrSpec{
			required(handle(uapi.AttrAdvisePD, uapi.ObjPD, accessRead)),
			required(constant(uapi.AttrAdviseAdvice)),
			required(flags(uapi.AttrAdviseFlags)),
			required(inputs(uapi.AttrAdviseSGList, uapi.SizeOf[uapi.SGE](), maxAttrLen)),
		},
	},
	{uapi.ObjMR, uapi.MethodQueryMR}: {
		name: "QUERY_MR", handle: ioctlQueryMR,
		attrs: []attrSpec{
			required(handle(uapi.AttrQueryMRHandle, uapi.ObjMR, accessRead)),
			required(output(uapi.AttrQueryMRRKey, 4)),
			required(output(uapi.AttrQueryMRLKey, 4)),
			required(output(uapi.AttrQueryMRLength, 8)),
			output(uapi.AttrQueryMRIOVA, 8),
		},
	},
	{uapi.ObjMR, uapi.MethodRegDMABufMR}: {
		name: "REG_DMABUF_MR", handle: notSupported,
		attrs: []attrSpec{
			required(handle(uapi.AttrRegDMABufHandle, uapi.ObjMR, accessNew)),
			required(handle(uapi.AttrRegDMABufPD, uapi.ObjPD, accessRead)),
			required(input(uapi.AttrRegDMABufOffset, 8)),
			required(input(uapi.AttrRegDMABufLength, 8)),
			required(input(uapi.AttrRegDMABufIOVA, 8)),
			required(input(uapi.AttrRegDMABufFD, 4)),
			flags(uapi.AttrRegDMABufAccess),
			required(output(uapi.AttrRegDMABufLKey, 4)),
			required(output(uapi.AttrRegDMABufRKey, 4)),
		},
	},
}

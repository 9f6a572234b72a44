package uverbs

// The schema of the ioctl form: which attributes each method of each object has,
// and what the framework checks of them before the handler sees them. What
// rdma_rxe does not have (flows, WQs, XRC domains, counters, device memory…) is in
// schema_absent.go.

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
	object objectType
	access access
}

type methodSpec struct {
	name   string
	attrs  []attrSpec
	handle func(*call) error
	// destroys says that attribute 0 is destroyed before handle is called.
	destroys bool
	// absent says that the kernel has no such method for rdma_rxe.
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

func handle(id uint16, o objectType, a access) attrSpec {
	return attrSpec{id: id, kind: kindIDR, object: o, access: a}
}

func descriptor(id uint16, o objectType, a access) attrSpec {
	return attrSpec{id: id, kind: kindFD, object: o, access: a}
}

var (
	uhwIn  = inputs(attrUHWIn, 0, maxAttrLen)
	uhwOut = outputAny(attrUHWOut, 0)
)

func destroyMethod(name string, o objectType, handler func(*call) error, more ...attrSpec) *methodSpec {
	attrs := append([]attrSpec{required(handle(attrDestroyHandle, o, accessDestroy))}, more...)
	return &methodSpec{name: name, attrs: attrs, handle: handler, destroys: true}
}

type methodKey struct {
	object objectType
	method uint16
}

// methods is filled by init: the handlers refer to it.
var methods map[methodKey]*methodSpec

func init() {
	methods = map[methodKey]*methodSpec{
		{objPD, methodPDDestroy}: destroyMethod("PD_DESTROY", objPD, destroyed),
		{objMW, methodMWDestroy}: destroyMethod("MW_DESTROY", objMW, destroyed),
		{objAH, methodAHDestroy}: destroyMethod("AH_DESTROY", objAH, destroyed),
		{objMR, methodMRDestroy}: destroyMethod("MR_DESTROY", objMR, destroyed),
		{objCQ, methodCQDestroy}: destroyMethod("CQ_DESTROY", objCQ, ioctlDestroyCQ,
			required(output(attrDestroyResp, sizeOf[destroyCQResp]()))),
		{objQP, methodQPDestroy}: destroyMethod("QP_DESTROY", objQP, ioctlDestroyed,
			required(output(attrDestroyResp, sizeOf[destroyResp]()))),
		{objSRQ, methodSRQDestroy}: destroyMethod("SRQ_DESTROY", objSRQ, ioctlDestroyed,
			required(output(attrDestroyResp, sizeOf[destroyResp]()))),
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
	{objDevice, methodInvokeWrite}: {
		name: "INVOKE_WRITE", handle: invokeWrite,
		attrs: []attrSpec{
			required(constant(attrWriteCmd)),
			inputs(attrCoreIn, 4, maxAttrLen),
			outputAny(attrCoreOut, 0),
			uhwIn, uhwOut,
		},
	},
	{objDevice, methodInfoHandles}: {
		name: "INFO_HANDLES", handle: ioctlInfoHandles,
		attrs: []attrSpec{
			required(constant(attrInfoObjectID)),
			output(attrInfoTotalHandles, 4),
			outputAny(attrInfoHandlesList, 4),
		},
	},
	{objDevice, methodQueryPort}: {
		name: "QUERY_PORT", handle: ioctlQueryPort,
		attrs: []attrSpec{
			required(constant(attrQueryPortNum)),
			required(structOut(attrQueryPortResp, sizeOf[queryPortRespEx](), sizeOf[queryPortRespEx]())),
		},
	},
	{objDevice, methodGetContext}: {
		name: "GET_CONTEXT", handle: ioctlGetContext,
		attrs: []attrSpec{
			output(attrContextNumCompVectors, 4),
			output(attrContextCoreSupport, 8),
			uhwIn, uhwOut,
		},
	},
	{objDevice, methodQueryContext}: {
		name: "QUERY_CONTEXT", handle: ioctlQueryContext,
		attrs: []attrSpec{
			output(attrContextNumCompVectors, 4),
			output(attrContextCoreSupport, 8),
		},
	},
	{objDevice, methodQueryGIDTable}: {
		name: "QUERY_GID_TABLE", handle: ioctlQueryGIDTable,
		attrs: []attrSpec{
			required(constant(attrGIDTableEntrySize)),
			flags(attrGIDTableFlags),
			required(outputAny(attrGIDTableEntries, 0)),
			required(output(attrGIDTableNumEntries, 8)),
		},
	},
	{objDevice, methodQueryGIDEntry}: {
		name: "QUERY_GID_ENTRY", handle: ioctlQueryGIDEntry,
		attrs: []attrSpec{
			required(constant(attrGIDEntryPort)),
			required(constant(attrGIDEntryIndex)),
			required(flags(attrGIDEntryFlags)),
			required(structOut(attrGIDEntryResp, sizeOf[gidEntry](), sizeOf[gidEntry]())),
		},
	},
	{objAsyncEvent, methodAsyncEventAlloc}: {
		name: "ASYNC_EVENT_ALLOC", handle: ioctlAsyncEventAlloc,
		attrs: []attrSpec{required(descriptor(attrAsyncEventFD, objAsyncEvent, accessNew))},
	},
}

var schemaQueues = map[methodKey]*methodSpec{
	{objCQ, methodCQCreate}: {
		name: "CQ_CREATE", handle: ioctlCreateCQ,
		attrs: []attrSpec{
			required(handle(attrCreateCQHandle, objCQ, accessNew)),
			required(input(attrCreateCQCQE, 4)),
			required(input(attrCreateCQUserHandle, 8)),
			descriptor(attrCreateCQCompChannel, objCompChannel, accessRead),
			required(input(attrCreateCQCompVector, 4)),
			flags(attrCreateCQFlags),
			required(output(attrCreateCQRespCQE, 4)),
			descriptor(attrCreateCQEventFD, objAsyncEvent, accessRead),
			uhwIn, uhwOut,
		},
	},
	{objQP, methodQPCreate}: {
		name: "QP_CREATE", handle: ioctlCreateQP,
		attrs: []attrSpec{
			required(handle(attrCreateQPHandle, objQP, accessNew)),
			handle(attrCreateQPXRCD, objXRCD, accessRead),
			handle(attrCreateQPPD, objPD, accessRead),
			handle(attrCreateQPSRQ, objSRQ, accessRead),
			handle(attrCreateQPSendCQ, objCQ, accessRead),
			handle(attrCreateQPRecvCQ, objCQ, accessRead),
			handle(attrCreateQPIndTable, objRWQIndTbl, accessRead),
			required(input(attrCreateQPUserHandle, 8)),
			required(structIn(attrCreateQPCap, sizeOf[qpCap](), sizeOf[qpCap]())),
			required(constant(attrCreateQPType)),
			flags(attrCreateQPFlags),
			input(attrCreateQPSourceQPN, 4),
			descriptor(attrCreateQPEventFD, objAsyncEvent, accessRead),
			required(structOut(attrCreateQPRespCap, sizeOf[qpCap](), sizeOf[qpCap]())),
			required(output(attrCreateQPRespQPNum, 4)),
			uhwIn, uhwOut,
		},
	},
	{objSRQ, methodSRQCreate}: {
		name: "SRQ_CREATE", handle: ioctlCreateSRQ,
		attrs: []attrSpec{
			required(handle(attrCreateSRQHandle, objSRQ, accessNew)),
			required(handle(attrCreateSRQPD, objPD, accessRead)),
			required(constant(attrCreateSRQType)),
			required(input(attrCreateSRQUserHandle, 8)),
			required(input(attrCreateSRQMaxWR, 4)),
			required(input(attrCreateSRQMaxSGE, 4)),
			required(input(attrCreateSRQLimit, 4)),
			handle(attrCreateSRQXRCD, objXRCD, accessRead),
			handle(attrCreateSRQCQ, objCQ, accessRead),
			input(attrCreateSRQMaxNumTags, 4),
			descriptor(attrCreateSRQEventFD, objAsyncEvent, accessRead),
			required(output(attrCreateSRQRespMaxWR, 4)),
			required(output(attrCreateSRQRespMaxSGE, 4)),
			output(attrCreateSRQRespSRQNum, 4),
			uhwIn, uhwOut,
		},
	},
}

var schemaMR = map[methodKey]*methodSpec{
	{objMR, methodAdviseMR}: {
		name: "ADVISE_MR", handle: ioctlAdviseMR,
		attrs: []attrSpec{
			required(handle(attrAdvisePD, objPD, accessRead)),
			required(constant(attrAdviseAdvice)),
			required(flags(attrAdviseFlags)),
			required(inputs(attrAdviseSGList, sizeOf[wireSGE](), maxAttrLen)),
		},
	},
	{objMR, methodQueryMR}: {
		name: "QUERY_MR", handle: ioctlQueryMR,
		attrs: []attrSpec{
			required(handle(attrQueryMRHandle, objMR, accessRead)),
			required(output(attrQueryMRRKey, 4)),
			required(output(attrQueryMRLKey, 4)),
			required(output(attrQueryMRLength, 8)),
			output(attrQueryMRIOVA, 8),
		},
	},
	{objMR, methodRegDMABufMR}: {
		name: "REG_DMABUF_MR", handle: notSupported,
		attrs: []attrSpec{
			required(handle(attrRegDMABufHandle, objMR, accessNew)),
			required(handle(attrRegDMABufPD, objPD, accessRead)),
			required(input(attrRegDMABufOffset, 8)),
			required(input(attrRegDMABufLength, 8)),
			required(input(attrRegDMABufIOVA, 8)),
			required(input(attrRegDMABufFD, 4)),
			flags(attrRegDMABufAccess),
			required(output(attrRegDMABufLKey, 4)),
			required(output(attrRegDMABufRKey, 4)),
		},
	},
}

package mlx5

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
)

// methods are those that mlx5_ib adds to the kernel's, as far as an adapter without DevX has them.
var methods = provider.Methods{
	{Object: objUAR, Method: methodUARAlloc}: {
		Name: "UAR_OBJ_ALLOC", Handle: allocUAR,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrUARHandle, objUAR, dispatch.AccessNew)),
			dispatch.Required(dispatch.Constant(attrUARType)),
			dispatch.Required(dispatch.Output(attrUAROffset, 8)),
			dispatch.Required(dispatch.Output(attrUARLength, 4)),
			dispatch.Required(dispatch.Output(attrUARPage, 4)),
		},
	},
	{Object: objUAR, Method: methodUARFree}: {
		Name: "UAR_OBJ_DESTROY", Destroys: true, Handle: nothingMore,
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(attrUARFree, objUAR, dispatch.AccessDestroy))},
	},
	{Object: uapi.ObjDM, Method: uapi.MethodDMAlloc}: {
		Name: "DM_ALLOC", Handle: allocDM,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(uapi.AttrAllocDMHandle, uapi.ObjDM, dispatch.AccessNew)),
			dispatch.Required(dispatch.Input(uapi.AttrAllocDMLength, 8)),
			dispatch.Required(dispatch.Input(uapi.AttrAllocDMAlignment, 4)),
			dispatch.Required(dispatch.Output(attrDMOffset, 8)),
			dispatch.Output(attrDMPage, 2),
			dispatch.Constant(attrDMType),
		},
	},
	{Object: uapi.ObjDM, Method: uapi.MethodDMFree}: {
		Name: "DM_FREE", Destroys: true, Handle: nothingMore,
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(uapi.AttrDestroyHandle, uapi.ObjDM, dispatch.AccessDestroy))},
	},
	{Object: uapi.ObjDM, Method: methodDMMapOp}: {
		Name: "DM_MAP_OP_ADDR", Handle: mapDMOperation,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrDMHandle, uapi.ObjDM, dispatch.AccessRead)),
			dispatch.Required(dispatch.Input(attrDMOp, 1)),
			dispatch.Required(dispatch.Output(attrDMOpOffset, 8)),
			dispatch.Required(dispatch.Output(attrDMOpPage, 2)),
		},
	},
	{Object: uapi.ObjDM, Method: methodDMQuery}: {
		Name: "DM_QUERY", Handle: queryDM,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrDMHandle, uapi.ObjDM, dispatch.AccessRead)),
			dispatch.Required(dispatch.Output(attrDMQueryOffset, 8)),
			dispatch.Required(dispatch.Output(attrDMQueryPage, 2)),
			dispatch.Required(dispatch.Output(attrDMQueryLength, 8)),
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryContext}: {
		Name: "QUERY_CONTEXT", Handle: queryContext,
		Attrs: []dispatch.AttrSpec{
			dispatch.Output(uapi.AttrContextNumCompVectors, 4),
			dispatch.Output(uapi.AttrContextCoreSupport, 8),
			dispatch.Required(dispatch.StructOut(attrContext, uapi.SizeOf[AllocContextResp](), uapi.SizeOf[AllocContextResp]())),
		},
	},
	{Object: uapi.ObjPD, Method: methodPDQuery}: {
		Name: "PD_QUERY", Handle: queryPD,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrPDHandle, uapi.ObjPD, dispatch.AccessRead)),
			dispatch.Required(dispatch.Output(attrPDN, 4)),
		},
	},
	{Object: objMatcher, Method: methodMatcherCreate}: {
		Name: "FLOW_MATCHER_CREATE", Handle: createMatcher,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrMatcherHandle, objMatcher, dispatch.AccessNew)),
			dispatch.Required(dispatch.Inputs(attrMatcherMask, 1, mostFTE)),
			dispatch.Required(dispatch.Input(attrMatcherType, 2)),
			dispatch.Required(dispatch.Input(attrMatcherCriteria, 1)),
			dispatch.Flags(attrMatcherFlags),
			dispatch.Constant(attrMatcherTable),
		},
	},
	{Object: objMatcher, Method: methodMatcherFree}: {
		Name: "FLOW_MATCHER_DESTROY", Destroys: true, Handle: nothingMore,
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(attrMatcherHandle, objMatcher, dispatch.AccessDestroy))},
	},
	{Object: uapi.ObjFlow, Method: methodFlowCreate}: {
		Name: "CREATE_FLOW", Handle: createFlow,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(attrFlowHandle, uapi.ObjFlow, dispatch.AccessNew)),
			dispatch.Required(dispatch.Inputs(attrFlowValue, 1, mostFTE)),
			dispatch.Required(dispatch.Handle(attrFlowMatcher, objMatcher, dispatch.AccessRead)),
			dispatch.Handle(attrFlowQP, uapi.ObjQP, dispatch.AccessRead),
			dispatch.Input(attrFlowTag, 4),
			dispatch.Flags(attrFlowFlags),
		},
	},
	{Object: uapi.ObjFlow, Method: methodFlowFree}: {
		Name: "DESTROY_FLOW", Destroys: true, Handle: nothingMore,
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(attrFlowHandle, uapi.ObjFlow, dispatch.AccessDestroy))},
	},
	{Object: uapi.ObjDevice, Method: methodPort}: {
		Name: "MLX5_QUERY_PORT", Handle: queryPort,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Input(attrPortNum, 4)),
			dispatch.Required(dispatch.StructOut(attrPort, uapi.SizeOf[QueryPortResp](), uapi.SizeOf[QueryPortResp]())),
		},
	},
}

// nothingMore is the handler of methods that destroy an object.
func nothingMore(provider.Context, *dispatch.Call) error { return nil }

// queryContext answers a libmlx5 that imports the context (mlx5_ib_query_ucontext). It makes pages
// of registers of its own: those that the device gave are the first one's.
func queryContext(ctx provider.Context, k *dispatch.Call) error {
	return dispatch.PutStruct(k, attrContext, ctx.(*userContext).description(k.Attrs.Output(attrContext).Size))
}

// queryPD answers an importing libmlx5.
func queryPD(_ provider.Context, k *dispatch.Call) error {
	return dispatch.Put(k, attrPDN, pdNumber(k.Attrs.Object(attrPDHandle).Handle))
}

// queryPort answers mlx5dv_query_port. A port without an embedded switch has none of what it tells.
func queryPort(_ provider.Context, k *dispatch.Call) error {
	if k.Attrs.U32(attrPortNum) != 1 {
		return refuse("port_num", "is not 1", "use port 1, the only one")
	}
	return dispatch.PutStruct(k, attrPort, QueryPortResp{})
}

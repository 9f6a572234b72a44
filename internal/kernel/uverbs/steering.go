package uverbs

import (
	"maps"
	"slices"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Flow rules, their counters, work queues and RSS are for drivers that have them (provider.Steers),
// on devices with a place on an Ethernet segment. Other devices keep the tables of rdma_rxe.

// withSteering adds the methods and commands to the tables of a device.
func withSteering(t dispatch.Tables) dispatch.Tables {
	t.Methods, t.Absent = maps.Clone(t.Methods), maps.Clone(t.Absent)
	for _, typ := range []uapi.ObjectType{uapi.ObjFlow, uapi.ObjCounters, uapi.ObjWQ, uapi.ObjRWQIndTbl} {
		delete(t.Absent, typ)
	}
	for key, m := range steeringMethods {
		m.Verb = verbOf(m.Name)
		t.Methods[key] = &m
	}
	t.ExCommands = slices.Clone(t.ExCommands)
	for len(t.ExCommands) <= uapi.CmdExDestroyRWQIndTbl {
		t.ExCommands = append(t.ExCommands, dispatch.Command{Name: "unsupported", Handle: on(notSupported)})
	}
	for n, c := range map[int]dispatch.Command{
		uapi.CmdExCreateFlow:  extended("EX_CREATE_FLOW", writeCreateFlow),
		uapi.CmdExDestroyFlow: extended("EX_DESTROY_FLOW", exDestroyer(uapi.ObjFlow)),

		uapi.CmdExCreateWQ:         extended("EX_CREATE_WQ", reading(writeCreateWQ)),
		uapi.CmdExModifyWQ:         extended("EX_MODIFY_WQ", reading(writeModifyWQ)),
		uapi.CmdExDestroyWQ:        extended("EX_DESTROY_WQ", reading(writeDestroyWQ)),
		uapi.CmdExCreateRWQIndTbl:  extended("EX_CREATE_RWQ_IND_TBL", writeCreateTable),
		uapi.CmdExDestroyRWQIndTbl: extended("EX_DESTROY_RWQ_IND_TBL", exDestroyer(uapi.ObjRWQIndTbl)),
	} {
		c.Verb = verbOf(c.Name)
		t.ExCommands[n] = c
	}
	return t
}

var steeringMethods map[dispatch.MethodKey]dispatch.MethodSpec

func init() {
	steeringMethods = map[dispatch.MethodKey]dispatch.MethodSpec{
		{Object: uapi.ObjFlow, Method: uapi.MethodFlowDestroy}:           *destroyMethod("FLOW_DESTROY", uapi.ObjFlow, destroyed),
		{Object: uapi.ObjCounters, Method: uapi.MethodCountersDestroy}:   *destroyMethod("COUNTERS_DESTROY", uapi.ObjCounters, destroyed),
		{Object: uapi.ObjRWQIndTbl, Method: uapi.MethodRWQIndTblDestroy}: *destroyMethod("RWQ_IND_TBL_DESTROY", uapi.ObjRWQIndTbl, destroyed),
		{Object: uapi.ObjWQ, Method: uapi.MethodWQDestroy}: *destroyMethod("WQ_DESTROY", uapi.ObjWQ, ioctlDestroyed,
			dispatch.Required(dispatch.Output(uapi.AttrDestroyResp, uapi.SizeOf[uapi.DestroyResp]()))),
		{Object: uapi.ObjWQ, Method: uapi.MethodWQCreate}: {
			Name: "WQ_CREATE", Handle: on(ioctlCreateWQ),
			Attrs: []dispatch.AttrSpec{
				dispatch.Required(dispatch.Handle(uapi.AttrCreateWQHandle, uapi.ObjWQ, dispatch.AccessNew)),
				dispatch.Required(dispatch.Handle(uapi.AttrCreateWQPD, uapi.ObjPD, dispatch.AccessRead)),
				dispatch.Required(dispatch.Handle(uapi.AttrCreateWQCQ, uapi.ObjCQ, dispatch.AccessRead)),
				dispatch.Required(dispatch.Input(uapi.AttrCreateWQUserHandle, 8)),
				dispatch.Required(dispatch.Constant(uapi.AttrCreateWQType)),
				dispatch.Descriptor(uapi.AttrCreateWQEventFD, uapi.ObjAsyncEvent, dispatch.AccessRead),
				dispatch.Required(dispatch.Input(uapi.AttrCreateWQMaxWR, 4)),
				dispatch.Required(dispatch.Input(uapi.AttrCreateWQMaxSGE, 4)),
				dispatch.Required(dispatch.Flags(uapi.AttrCreateWQFlags)),
				dispatch.Required(dispatch.Output(uapi.AttrCreateWQRespMaxWR, 4)),
				dispatch.Required(dispatch.Output(uapi.AttrCreateWQRespMaxSGE, 4)),
				dispatch.Output(uapi.AttrCreateWQRespWQNum, 4),
				dispatch.UHWIn, dispatch.UHWOut,
			},
		},
		{Object: uapi.ObjCounters, Method: uapi.MethodCountersCreate}: {
			Name: "COUNTERS_CREATE", Handle: on(ioctlCreateCounters),
			Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(uapi.AttrDestroyHandle, uapi.ObjCounters, dispatch.AccessNew))},
		},
		{Object: uapi.ObjCounters, Method: uapi.MethodCountersRead}: {
			Name: "COUNTERS_READ", Handle: on(ioctlReadCounters),
			Attrs: []dispatch.AttrSpec{
				dispatch.Required(dispatch.Handle(uapi.AttrReadCountersHandle, uapi.ObjCounters, dispatch.AccessRead)),
				dispatch.Required(dispatch.OutputAny(uapi.AttrReadCountersBuff, 0)),
				dispatch.Required(dispatch.Flags(uapi.AttrReadCountersFlags)),
			},
		},
	}
}

// exDestroyer is destroyer for extended commands.
func exDestroyer(typ uapi.ObjectType) func(*call) error {
	return reading(func(k *call, req *uapi.ExHandleReq) error {
		if err := noCompMask(req.CompMask); err != nil {
			return err
		}
		_, err := k.Destroy(typ, uint64(req.Handle))
		return err
	})
}

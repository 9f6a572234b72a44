package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// The write() commands. schema_absent.go has those that rdma_rxe does not have; unknown
// numbers answer in the same way.

// The tables end where rdma_rxe's tables end. Greater numbers are EOPNOTSUPP, whatever
// the rest of the request says. init fills the tables, because the handlers use them.
var (
	commands   [uapi.CmdCreateXSRQ + 1]dispatch.Command
	exCommands [uapi.CmdModifyQP + 1]dispatch.Command
)

// plain is a command with a request only. talk is a command with a response, whose
// address is the first field of the request.
func plain[Req any](name string, h func(*call) error) dispatch.Command {
	return dispatch.Command{Name: name, Handle: on(h), Req: uapi.SizeOf[Req]()}
}

func talk[Req, Resp any](name string, h func(*call) error) dispatch.Command {
	return dispatch.Command{Name: name, Handle: on(h), Req: uapi.SizeOf[Req](), Resp: uapi.SizeOf[Resp](), Responds: true}
}

// withUHW says that the provider may add to the structs.
func withUHW(c dispatch.Command) dispatch.Command {
	c.Udata = true
	return c
}

func extended(name string, h func(*call) error) dispatch.Command {
	return dispatch.Command{Name: name, Handle: on(h), Ex: true}
}

func init() {
	tables.Commands, tables.ExCommands = commands[:], exCommands[:]
	for i := range commands {
		commands[i] = dispatch.Command{Name: "unsupported", Handle: on(notSupported)}
	}
	for i := range exCommands {
		exCommands[i] = dispatch.Command{Name: "unsupported", Handle: on(notSupported)}
	}
	for n, c := range map[int]dispatch.Command{
		uapi.CmdGetContext:  withUHW(talk[uapi.GetContextReq, uapi.GetContextResp]("GET_CONTEXT", reading(writeGetContext))),
		uapi.CmdQueryDevice: talk[uapi.QueryDeviceReq, uapi.QueryDeviceResp]("QUERY_DEVICE", writeQueryDevice),
		uapi.CmdQueryPort:   talk[uapi.QueryPortReq, uapi.QueryPortResp]("QUERY_PORT", writeQueryPort),

		uapi.CmdAllocPD:   withUHW(talk[uapi.AllocPDReq, uapi.AllocPDResp]("ALLOC_PD", reading(writeAllocPD))),
		uapi.CmdDeallocPD: plain[uapi.HandleReq]("DEALLOC_PD", destroyer(uapi.ObjPD)),
		uapi.CmdRegMR:     withUHW(talk[uapi.RegMRReq, uapi.RegMRResp]("REG_MR", reading(writeRegMR))),
		uapi.CmdReregMR:   withUHW(talk[uapi.ReregMRReq, uapi.ReregMRResp]("REREG_MR", reading(writeReregMR))),
		uapi.CmdDeregMR:   plain[uapi.HandleReq]("DEREG_MR", destroyer(uapi.ObjMR)),
		uapi.CmdAllocMW:   withUHW(talk[uapi.AllocMWReq, uapi.AllocMWResp]("ALLOC_MW", reading(writeAllocMW))),
		uapi.CmdDeallocMW: plain[uapi.HandleReq]("DEALLOC_MW", destroyer(uapi.ObjMW)),
		uapi.CmdCreateAH:  withUHW(talk[uapi.CreateAHReq, uapi.CreateAHResp]("CREATE_AH", reading(writeCreateAH))),
		uapi.CmdDestroyAH: plain[uapi.HandleReq]("DESTROY_AH", destroyer(uapi.ObjAH)),

		uapi.CmdCreateCompChannel: talk[uapi.CreateCompChannelReq, uapi.CreateCompChannelResp]("CREATE_COMP_CHANNEL", reading(writeCreateCompChannel)),
		uapi.CmdCreateCQ:          withUHW(talk[uapi.CreateCQReq, uapi.CreateCQResp]("CREATE_CQ", reading(writeCreateCQ))),
		uapi.CmdResizeCQ:          withUHW(talk[uapi.ResizeCQReq, uapi.ResizeCQResp]("RESIZE_CQ", reading(writeResizeCQ))),
		uapi.CmdReqNotifyCQ:       plain[uapi.ReqNotifyCQReq]("REQ_NOTIFY_CQ", reading(writeReqNotifyCQ)),
		uapi.CmdDestroyCQ:         talk[uapi.DestroyReq, uapi.DestroyCQResp]("DESTROY_CQ", reading(writeDestroyCQ)),

		uapi.CmdCreateSRQ:  withUHW(talk[uapi.CreateSRQReq, uapi.CreateSRQResp]("CREATE_SRQ", reading(writeCreateSRQ))),
		uapi.CmdCreateXSRQ: withUHW(talk[uapi.CreateXSRQReq, uapi.CreateSRQResp]("CREATE_XSRQ", reading(writeCreateXSRQ))),
		uapi.CmdModifySRQ:  withUHW(plain[uapi.ModifySRQReq]("MODIFY_SRQ", reading(writeModifySRQ))),
		uapi.CmdQuerySRQ:   talk[uapi.QuerySRQReq, uapi.QuerySRQResp]("QUERY_SRQ", reading(writeQuerySRQ)),
		uapi.CmdDestroySRQ: talk[uapi.DestroyReq, uapi.DestroyResp]("DESTROY_SRQ", writeDestroyer(uapi.ObjSRQ)),

		uapi.CmdCreateQP:    withUHW(talk[uapi.CreateQPReq, uapi.CreateQPResp]("CREATE_QP", reading(writeCreateQP))),
		uapi.CmdQueryQP:     talk[uapi.QueryQPReq, uapi.QueryQPResp]("QUERY_QP", reading(writeQueryQP)),
		uapi.CmdModifyQP:    plain[uapi.ModifyQPReq]("MODIFY_QP", reading(writeModifyQP)),
		uapi.CmdDestroyQP:   talk[uapi.DestroyReq, uapi.DestroyResp]("DESTROY_QP", writeDestroyer(uapi.ObjQP)),
		uapi.CmdPostSend:    talk[uapi.PostSendReq, uapi.PostSendResp]("POST_SEND", writePostSend),
		uapi.CmdAttachMcast: plain[uapi.McastReq]("ATTACH_MCAST", reading(changeMcast((*rxe.QP).AttachMcast, true))),
		uapi.CmdDetachMcast: plain[uapi.McastReq]("DETACH_MCAST", reading(changeMcast((*rxe.QP).DetachMcast, false))),
	} {
		commands[n] = c
	}
	for i := range commands {
		commands[i].Verb = verbOf(commands[i].Name)
	}
	for n, name := range absentCommands {
		commands[n].Name = name
	}
	for n, c := range map[int]dispatch.Command{
		uapi.CmdQueryDevice: extended("EX_QUERY_DEVICE", writeExQueryDevice),
		uapi.CmdCreateCQ:    extended("EX_CREATE_CQ", reading(writeExCreateCQ)),
		uapi.CmdCreateQP:    extended("EX_CREATE_QP", reading(writeExCreateQP)),
		uapi.CmdModifyQP:    extended("EX_MODIFY_QP", reading(writeExModifyQP)),
	} {
		c.Verb = verbOf(c.Name)
		exCommands[n] = c
	}
}

// reading returns a handler that first reads the request.
func reading[Req any](h func(*call, *Req) error) func(*call) error {
	return func(k *call) error {
		req, err := dispatch.Request[Req](&k.Call)
		if err != nil {
			return err
		}
		return h(k, &req)
	}
}

// destroyer returns the handler of a command whose request is a handle.
func destroyer(typ uapi.ObjectType) func(*call) error {
	return reading(func(k *call, req *uapi.HandleReq) error {
		_, err := k.Destroy(typ, uint64(req.Handle))
		return err
	})
}

// writeDestroyer returns the handler of a command that answers how many events the
// program has read.
func writeDestroyer(typ uapi.ObjectType) func(*call) error {
	return reading(func(k *call, req *uapi.DestroyReq) error {
		o, err := k.Destroy(typ, uint64(req.Handle))
		if err != nil {
			return err
		}
		forgive(k.Caller, o)
		return dispatch.Respond(&k.Call, uapi.DestroyResp{EventsReported: o.AsyncReported})
	})
}

// ioctlDestroyed answers the same in the ioctl form.
func ioctlDestroyed(k *call) error {
	o := k.Attrs.Object(uapi.AttrDestroyHandle)
	forgive(k.Caller, o)
	return dispatch.Put(&k.Call, uapi.AttrDestroyResp, uapi.DestroyResp{EventsReported: o.AsyncReported})
}

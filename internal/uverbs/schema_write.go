package uverbs

// The write() commands. Those that rdma_rxe does not have are in
// schema_absent.go; a number that means nothing answers as they do.

// The tables end where rdma_rxe's do; numbers beyond are EOPNOTSUPP whatever
// the rest of the request says. They are filled by init: the handlers refer to
// them.
var (
	commands   [cmdCreateXSRQ + 1]command
	exCommands [cmdModifyQP + 1]command
)

// plain is a command with a request only, talk one with a response, whose
// address its request begins with.
func plain[Req any](name string, h func(*call) error) command {
	return command{name: name, handle: h, req: sizeOf[Req]()}
}

func talk[Req, Resp any](name string, h func(*call) error) command {
	return command{name: name, handle: h, req: sizeOf[Req](), resp: sizeOf[Resp](), responds: true}
}

// withUHW says that the provider may add to the structs.
func withUHW(c command) command {
	c.udata = true
	return c
}

func extended(name string, h func(*call) error) command {
	return command{name: name, handle: h, ex: true}
}

func init() {
	for i := range commands {
		commands[i] = command{name: "unsupported", handle: notSupported}
	}
	for i := range exCommands {
		exCommands[i] = command{name: "unsupported", handle: notSupported}
	}
	for n, c := range map[int]command{
		cmdGetContext:  withUHW(talk[getContextReq, getContextResp]("GET_CONTEXT", writeGetContext)),
		cmdQueryDevice: talk[queryDeviceReq, queryDeviceResp]("QUERY_DEVICE", writeQueryDevice),
		cmdQueryPort:   talk[queryPortReq, queryPortResp]("QUERY_PORT", writeQueryPort),

		cmdAllocPD:   withUHW(talk[allocPDReq, allocPDResp]("ALLOC_PD", writeAllocPD)),
		cmdDeallocPD: plain[handleReq]("DEALLOC_PD", destroyer(objPD)),
		cmdRegMR:     withUHW(talk[regMRReq, regMRResp]("REG_MR", writeRegMR)),
		cmdReregMR:   withUHW(talk[reregMRReq, reregMRResp]("REREG_MR", writeReregMR)),
		cmdDeregMR:   plain[handleReq]("DEREG_MR", destroyer(objMR)),
		cmdAllocMW:   withUHW(talk[allocMWReq, allocMWResp]("ALLOC_MW", writeAllocMW)),
		cmdDeallocMW: plain[handleReq]("DEALLOC_MW", destroyer(objMW)),
		cmdCreateAH:  withUHW(talk[createAHReq, createAHResp]("CREATE_AH", writeCreateAH)),
		cmdDestroyAH: plain[handleReq]("DESTROY_AH", destroyer(objAH)),

		cmdCreateCompChannel: talk[createCompChannelReq, createCompChannelResp]("CREATE_COMP_CHANNEL", writeCreateCompChannel),
		cmdCreateCQ:          withUHW(talk[createCQReq, createCQResp]("CREATE_CQ", writeCreateCQ)),
		cmdResizeCQ:          withUHW(talk[resizeCQReq, resizeCQResp]("RESIZE_CQ", writeResizeCQ)),
		cmdReqNotifyCQ:       plain[reqNotifyCQReq]("REQ_NOTIFY_CQ", writeReqNotifyCQ),
		cmdDestroyCQ:         talk[destroyReq, destroyCQResp]("DESTROY_CQ", writeDestroyCQ),

		cmdCreateSRQ:  withUHW(talk[createSRQReq, createSRQResp]("CREATE_SRQ", writeCreateSRQ)),
		cmdCreateXSRQ: withUHW(talk[createXSRQReq, createSRQResp]("CREATE_XSRQ", writeCreateXSRQ)),
		cmdModifySRQ:  withUHW(plain[modifySRQReq]("MODIFY_SRQ", writeModifySRQ)),
		cmdQuerySRQ:   talk[querySRQReq, querySRQResp]("QUERY_SRQ", writeQuerySRQ),
		cmdDestroySRQ: talk[destroyReq, destroyResp]("DESTROY_SRQ", writeDestroyer(objSRQ)),

		cmdCreateQP:    withUHW(talk[createQPReq, createQPResp]("CREATE_QP", writeCreateQP)),
		cmdQueryQP:     talk[queryQPReq, queryQPResp]("QUERY_QP", writeQueryQP),
		cmdModifyQP:    plain[modifyQPReq]("MODIFY_QP", writeModifyQP),
		cmdDestroyQP:   talk[destroyReq, destroyResp]("DESTROY_QP", writeDestroyer(objQP)),
		cmdPostSend:    talk[postSendReq, postSendResp]("POST_SEND", writePostSend),
		cmdAttachMcast: plain[mcastReq]("ATTACH_MCAST", writeAttachMcast),
		cmdDetachMcast: plain[mcastReq]("DETACH_MCAST", writeDetachMcast),
	} {
		commands[n] = c
	}
	for n, name := range absentCommands {
		commands[n].name = name
	}
	for n, c := range map[int]command{
		cmdQueryDevice: extended("EX_QUERY_DEVICE", writeExQueryDevice),
		cmdCreateCQ:    extended("EX_CREATE_CQ", writeExCreateCQ),
		cmdCreateQP:    extended("EX_CREATE_QP", writeExCreateQP),
		cmdModifyQP:    extended("EX_MODIFY_QP", writeExModifyQP),
	} {
		exCommands[n] = c
	}
}

// destroyer is the handler of the commands whose request is a handle.
func destroyer(typ objectType) func(*call) error {
	return func(k *call) error {
		req, err := request[handleReq](k)
		if err != nil {
			return err
		}
		_, err = k.destroy(typ, uint64(req.Handle))
		return err
	}
}

// writeDestroyer is that of those that answer how many events were read.
func writeDestroyer(typ objectType) func(*call) error {
	return func(k *call) error {
		req, err := request[destroyReq](k)
		if err != nil {
			return err
		}
		o, err := k.destroy(typ, uint64(req.Handle))
		if err != nil {
			return err
		}
		return respond(k, destroyResp{EventsReported: o.asyncReported})
	}
}

// ioctlDestroyed is the same in the other form.
func ioctlDestroyed(k *call) error {
	o := k.attrs.object(attrDestroyHandle)
	return put(k, attrDestroyResp, destroyResp{EventsReported: o.asyncReported})
}

package uverbs

import (
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The verbs as a program uses them, each in the form that the program speaks;
// they fail the test if they fail.

type user struct {
	*program
	form form
}

func (u *user) call(v verb) answer {
	u.t.Helper()
	a, err := u.form.call(u.program, v)
	if err != nil {
		u.t.Fatalf("command %#x: %v", v.cmd, err)
	}
	return a
}

func (u *user) allocPD() uint32 {
	u.t.Helper()
	return core[uapi.AllocPDResp](u.call(verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4})).PDHandle
}

func regMRVerb(pd uint32, addr, length uint64, access rxe.Access) verb {
	req := uapi.RegMRReq{Start: addr, Length: length, HCAVA: addr, PDHandle: pd, AccessFlags: uint32(access)}
	return verb{cmd: uapi.CmdRegMR, req: bytesFrom(req), resp: uapi.SizeOf[uapi.RegMRResp]()}
}

func (u *user) regMR(pd uint32, addr, length uint64, access rxe.Access) uapi.RegMRResp {
	u.t.Helper()
	return core[uapi.RegMRResp](u.call(regMRVerb(pd, addr, length, access)))
}

func (u *user) allocMW(pd uint32, typ uint8) uapi.AllocMWResp {
	u.t.Helper()
	return core[uapi.AllocMWResp](u.call(verb{cmd: uapi.CmdAllocMW, req: bytesFrom(uapi.AllocMWReq{PDHandle: pd, MWType: typ}), resp: 8}))
}

func (u *user) createChannel() int32 {
	u.t.Helper()
	a := u.call(verb{cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4})
	return int32(core[uapi.CreateCompChannelResp](a).FD)
}

func createCQVerb(req uapi.CreateCQReq) verb {
	return verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(req), resp: uapi.SizeOf[uapi.CreateCQResp](), uhwResp: uapi.SizeOf[librxe.MMInfo]()}
}

func (u *user) createCQ(cqe uint32, channel int32, name uint64) (uapi.CreateCQResp, librxe.MMInfo) {
	u.t.Helper()
	a := u.call(createCQVerb(uapi.CreateCQReq{UserHandle: name, CQE: cqe, CompChannel: channel}))
	return core[uapi.CreateCQResp](a), uhw[librxe.MMInfo](a)
}

func createSRQVerb(req uapi.CreateSRQReq) verb {
	return verb{cmd: uapi.CmdCreateSRQ, req: bytesFrom(req), resp: uapi.SizeOf[uapi.CreateSRQResp](), uhwResp: uapi.SizeOf[librxe.CreateSRQResp]()}
}

func (u *user) createSRQ(pd, maxWR, limit uint32) (uapi.CreateSRQResp, librxe.MMInfo) {
	u.t.Helper()
	a := u.call(createSRQVerb(uapi.CreateSRQReq{PDHandle: pd, MaxWR: maxWR, MaxSGE: 2, SRQLimit: limit, UserHandle: 0x5105}))
	return core[uapi.CreateSRQResp](a), uhw[librxe.CreateSRQResp](a).MI
}

func createQPVerb(req uapi.CreateQPReq) verb {
	return verb{cmd: uapi.CmdCreateQP, req: bytesFrom(req), resp: uapi.SizeOf[uapi.CreateQPResp](), uhwResp: uapi.SizeOf[librxe.CreateQPResp]()}
}

func qpReq(typ rxe.QPType, pd, cq uint32) uapi.CreateQPReq {
	return uapi.CreateQPReq{UserHandle: 0x99, PDHandle: pd, SendCQHandle: cq, RecvCQHandle: cq, QPType: uint8(typ),
		MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 32, SQSigAll: 1}
}

func (u *user) createQP(typ rxe.QPType, pd, cq uint32) (uapi.CreateQPResp, librxe.CreateQPResp) {
	u.t.Helper()
	a := u.call(createQPVerb(qpReq(typ, pd, cq)))
	return core[uapi.CreateQPResp](a), uhw[librxe.CreateQPResp](a)
}

func createAHVerb(pd uint32, dgid wire.GID) verb {
	req := uapi.CreateAHReq{PDHandle: pd, Attr: uapi.AHAttr{DGID: dgid, IsGlobal: 1, PortNum: 1, HopLimit: 64}}
	return verb{cmd: uapi.CmdCreateAH, req: bytesFrom(req), resp: 4, uhwResp: 8}
}

func (u *user) createAH(pd uint32) (uint32, uint32) {
	u.t.Helper()
	a := u.call(createAHVerb(pd, wire.GIDFromAddr(rxedev.Addr)))
	return core[uapi.CreateAHResp](a).AHHandle, uhw[librxe.CreateAHResp](a).AHNum
}

func modifyVerb(req uapi.ModifyQPReq) verb { return verb{cmd: uapi.CmdModifyQP, req: bytesFrom(req)} }

// connect takes a QP to RTS.
func (u *user) connect(qp uint32, typ rxe.QPType, peer uint32) {
	u.t.Helper()
	for _, req := range connectReqs(qp, typ, peer) {
		u.call(modifyVerb(req))
	}
}

func connectReqs(qp uint32, typ rxe.QPType, peer uint32) []uapi.ModifyQPReq {
	req := uapi.ModifyQPReq{
		QPHandle: qp, PortNum: 1, QKey: rxedev.QKey, QPAccessFlags: uint32(rxedev.Rights), PathMTU: 3,
		DestQPNum: peer, MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1, RetryCnt: 7, RNRRetry: 7, Timeout: 14,
		Dest: uapi.QPDest{DGID: wire.GIDFromAddr(rxedev.Addr), IsGlobal: 1, PortNum: 1, HopLimit: 64},
	}
	if typ == rxe.QPXRCIni || typ == rxe.QPXRCTgt {
		typ = rxe.QPRC // programs set the same for both halves, as perftest does
	}
	var reqs []uapi.ModifyQPReq
	for from := range rxe.QPRTS {
		to := from + 1
		req.QPState, req.AttrMask = uint8(to), uint32(rxe.RequiredMask(typ, from, to))
		reqs = append(reqs, req)
	}
	return reqs
}

func (u *user) queryQP(qp uint32) uapi.QueryQPResp {
	u.t.Helper()
	return core[uapi.QueryQPResp](u.call(verb{cmd: uapi.CmdQueryQP, req: bytesFrom(uapi.QueryQPReq{QPHandle: qp}), resp: uapi.SizeOf[uapi.QueryQPResp]()}))
}

func destroyVerb(cmd, handle uint32) verb {
	switch cmd {
	case uapi.CmdDestroyCQ:
		return verb{cmd: cmd, req: bytesFrom(uapi.DestroyReq{Handle: handle}), resp: uapi.SizeOf[uapi.DestroyCQResp]()}
	case uapi.CmdDestroyQP, uapi.CmdDestroySRQ:
		return verb{cmd: cmd, req: bytesFrom(uapi.DestroyReq{Handle: handle}), resp: uapi.SizeOf[uapi.DestroyResp]()}
	default:
		return verb{cmd: cmd, req: bytesFrom(uapi.HandleReq{Handle: handle})}
	}
}

func doorbellVerb(qp uint32) verb {
	return verb{cmd: uapi.CmdPostSend, req: bytesFrom(uapi.PostSendReq{QPHandle: qp, WQESize: 128}), resp: 4}
}

// eachForm runs a test in both forms.
func eachForm(t *testing.T, f func(t *testing.T, u *user, d *Device, engine *rxe.Device)) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			d, engine := newDevice(t)
			f(t, &user{opened(t, d), fm}, d, engine)
		})
	}
}

package uverbs

import (
	"testing"

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
	return core[allocPDResp](u.call(verb{cmd: cmdAllocPD, req: bytesFrom(allocPDReq{}), resp: 4})).PDHandle
}

func regMRVerb(pd uint32, addr, length uint64, access rxe.Access) verb {
	req := regMRReq{Start: addr, Length: length, HCAVA: addr, PDHandle: pd, AccessFlags: uint32(access)}
	return verb{cmd: cmdRegMR, req: bytesFrom(req), resp: sizeOf[regMRResp]()}
}

func (u *user) regMR(pd uint32, addr, length uint64, access rxe.Access) regMRResp {
	u.t.Helper()
	return core[regMRResp](u.call(regMRVerb(pd, addr, length, access)))
}

func (u *user) allocMW(pd uint32, typ uint8) allocMWResp {
	u.t.Helper()
	return core[allocMWResp](u.call(verb{cmd: cmdAllocMW, req: bytesFrom(allocMWReq{PDHandle: pd, MWType: typ}), resp: 8}))
}

func (u *user) createChannel() int32 {
	u.t.Helper()
	a := u.call(verb{cmd: cmdCreateCompChannel, req: bytesFrom(createCompChannelReq{}), resp: 4})
	return int32(core[createCompChannelResp](a).FD)
}

func createCQVerb(req createCQReq) verb {
	return verb{cmd: cmdCreateCQ, req: bytesFrom(req), resp: sizeOf[createCQResp](), uhwResp: sizeOf[mmInfo]()}
}

func (u *user) createCQ(cqe uint32, channel int32, name uint64) (createCQResp, mmInfo) {
	u.t.Helper()
	a := u.call(createCQVerb(createCQReq{UserHandle: name, CQE: cqe, CompChannel: channel}))
	return core[createCQResp](a), uhw[mmInfo](a)
}

func createSRQVerb(req createSRQReq) verb {
	return verb{cmd: cmdCreateSRQ, req: bytesFrom(req), resp: sizeOf[createSRQResp](), uhwResp: sizeOf[rxeCreateSRQResp]()}
}

func (u *user) createSRQ(pd, maxWR, limit uint32) (createSRQResp, mmInfo) {
	u.t.Helper()
	a := u.call(createSRQVerb(createSRQReq{PDHandle: pd, MaxWR: maxWR, MaxSGE: 2, SRQLimit: limit, UserHandle: 0x5105}))
	return core[createSRQResp](a), uhw[rxeCreateSRQResp](a).MI
}

func createQPVerb(req createQPReq) verb {
	return verb{cmd: cmdCreateQP, req: bytesFrom(req), resp: sizeOf[createQPResp](), uhwResp: sizeOf[rxeCreateQPResp]()}
}

func qpReq(typ rxe.QPType, pd, cq uint32) createQPReq {
	return createQPReq{UserHandle: 0x99, PDHandle: pd, SendCQHandle: cq, RecvCQHandle: cq, QPType: uint8(typ),
		MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 32, SQSigAll: 1}
}

func (u *user) createQP(typ rxe.QPType, pd, cq uint32) (createQPResp, rxeCreateQPResp) {
	u.t.Helper()
	a := u.call(createQPVerb(qpReq(typ, pd, cq)))
	return core[createQPResp](a), uhw[rxeCreateQPResp](a)
}

func createAHVerb(pd uint32, dgid wire.GID) verb {
	req := createAHReq{PDHandle: pd, Attr: ahAttr{DGID: dgid, IsGlobal: 1, PortNum: 1, HopLimit: 64}}
	return verb{cmd: cmdCreateAH, req: bytesFrom(req), resp: 4, uhwResp: 8}
}

func (u *user) createAH(pd uint32) (uint32, uint32) {
	u.t.Helper()
	a := u.call(createAHVerb(pd, wire.GIDFromAddr(stationAddr)))
	return core[createAHResp](a).AHHandle, uhw[rxeCreateAHResp](a).AHNum
}

func modifyVerb(req modifyQPReq) verb { return verb{cmd: cmdModifyQP, req: bytesFrom(req)} }

// connect takes a QP to RTS.
func (u *user) connect(qp uint32, typ rxe.QPType, peer uint32) {
	u.t.Helper()
	for _, req := range connectReqs(qp, typ, peer) {
		u.call(modifyVerb(req))
	}
}

func connectReqs(qp uint32, typ rxe.QPType, peer uint32) []modifyQPReq {
	req := modifyQPReq{
		QPHandle: qp, PortNum: 1, QKey: stationQKey, QPAccessFlags: uint32(stationRights), PathMTU: 3,
		DestQPNum: peer, MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1, RetryCnt: 7, RNRRetry: 7, Timeout: 14,
		Dest: qpDest{DGID: wire.GIDFromAddr(stationAddr), IsGlobal: 1, PortNum: 1, HopLimit: 64},
	}
	var reqs []modifyQPReq
	for from := range rxe.QPRTS {
		to := from + 1
		req.QPState, req.AttrMask = uint8(to), uint32(rxe.RequiredMask(typ, from, to))
		reqs = append(reqs, req)
	}
	return reqs
}

func (u *user) queryQP(qp uint32) queryQPResp {
	u.t.Helper()
	return core[queryQPResp](u.call(verb{cmd: cmdQueryQP, req: bytesFrom(queryQPReq{QPHandle: qp}), resp: sizeOf[queryQPResp]()}))
}

func destroyVerb(cmd, handle uint32) verb {
	switch cmd {
	case cmdDestroyCQ:
		return verb{cmd: cmd, req: bytesFrom(destroyReq{Handle: handle}), resp: sizeOf[destroyCQResp]()}
	case cmdDestroyQP, cmdDestroySRQ:
		return verb{cmd: cmd, req: bytesFrom(destroyReq{Handle: handle}), resp: sizeOf[destroyResp]()}
	default:
		return verb{cmd: cmd, req: bytesFrom(handleReq{handle})}
	}
}

func doorbellVerb(qp uint32) verb {
	return verb{cmd: cmdPostSend, req: bytesFrom(postSendReq{QPHandle: qp, WQESize: 128}), resp: 4}
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

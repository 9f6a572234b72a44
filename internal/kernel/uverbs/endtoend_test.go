package uverbs

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// endpoint is a QP of a program, with its queues mapped.
type endpoint struct {
	*user
	pd, qp, qpn      uint32
	cq               uapi.CreateCQResp
	channel          int32
	mr               uapi.RegMRResp
	send, recv, comp *librxeclient.Queue
}

// newLoop is an endpoint of a device of its own, connected with itself.
func newLoop(t testing.TB) *endpoint {
	t.Helper()
	d, _ := newDevice(t)
	e := newEndpoint(t, &user{opened(t, d), forms[0]}, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, e.qpn)
	e.reset()
	return e
}

func newEndpoint(t testing.TB, u *user, typ rxe.QPType) *endpoint {
	t.Helper()
	e := &endpoint{user: u, pd: u.allocPD(), channel: u.createChannel()}
	e.mr = u.regMR(e.pd, programData, 128<<10, rxedev.Rights)
	cq, mi := u.createCQ(50, e.channel, 0xc0ffee)
	e.cq = cq
	e.comp = librxeclient.Map(t, u.f.FD(), mi.Offset, mi.Size)
	qp, queues := u.createQP(typ, e.pd, cq.CQHandle)
	e.qp, e.qpn = qp.QPHandle, qp.QPN
	e.send = librxeclient.Map(t, u.f.FD(), queues.SQMI.Offset, queues.SQMI.Size)
	e.recv = librxeclient.Map(t, u.f.FD(), queues.RQMI.Offset, queues.RQMI.Size)
	return e
}

func (e *endpoint) sge(off uint64, n uint32) rxe.SGE {
	return rxe.SGE{Addr: programData + off, Length: n, LKey: wire.LKey(e.mr.LKey)}
}

func (e *endpoint) bytes(off uint64, n int) []byte { return e.mem.Bytes(programData+off, n) }

// TestPingPong: two programs, each in a form of its own, do what
// ibv_rc_pingpong -e does: everything from GET_CONTEXT to DESTROY by requests,
// all work through the mapped queues.
func TestPingPong(t *testing.T) {
	for _, typ := range []rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD} {
		t.Run(typ.String(), func(t *testing.T) {
			d, engine := newDevice(t)
			a := newEndpoint(t, &user{opened(t, d), forms[0]}, typ)
			b := newEndpoint(t, &user{opened(t, d), forms[1]}, typ)
			a.connect(a.qp, typ, b.qpn)
			b.connect(b.qp, typ, a.qpn)
			_, ahNum := a.createAH(a.pd)

			if !b.recv.PostRecv(7, b.sge(0, 2048)) {
				t.Fatal("receive queue full")
			}
			arm := func(e *endpoint) {
				e.call(verb{cmd: uapi.CmdReqNotifyCQ, req: bytesFrom(uapi.ReqNotifyCQReq{CQHandle: e.cq.CQHandle})})
			}
			arm(b)
			rxedev.Fill(a.bytes(0, 1024), 3)
			wr := &librxeclient.SendWR{SendWR: rxe.SendWR{ID: 9, Op: rxe.WRSend, Flags: rxe.SendSignaled, SGL: []rxe.SGE{a.sge(0, 1024)}}}
			if typ == rxe.QPUD {
				wr.AHNum, wr.RemoteQPN, wr.RemoteQKey = ahNum, wire.QPN(b.qpn), rxedev.QKey
			}
			if !a.send.PostSend(wr) {
				t.Fatal("send queue full")
			}
			a.call(doorbellVerb(a.qp))
			arm(a) // for the completion that is there already

			if got := next(t, a.real(a.channel)); got != 0xc0ffee {
				t.Errorf("completion event %#x", got)
			}
			if wc, ok := a.comp.Poll(); !ok || wc.ID != 9 || wc.Status != 0 {
				t.Fatalf("send completion %+v %v", wc, ok)
			}
			wc, ok := b.comp.Poll()
			if !ok || wc.ID != 7 || wc.Status != 0 {
				t.Fatalf("receive completion %+v %v", wc, ok)
			}
			grh, sl := 0, uint8(0)
			if typ == rxe.QPUD {
				grh, sl = 40, rxe.SLRoCEv2IPv4
			}
			if wc.SL != sl {
				t.Errorf("service level %d, want %d", wc.SL, sl)
			}
			if !bytes.Equal(a.bytes(0, 1024), b.bytes(uint64(grh), 1024)) {
				t.Error("data differ")
			}
			if got := next(t, b.real(b.channel)); got != 0xc0ffee {
				t.Errorf("completion event %#x", got)
			}
			// The program has read one event of b, and none of a.
			b.call(destroyVerb(uapi.CmdDestroyQP, b.qp))
			ev := core[uapi.DestroyCQResp](b.call(destroyVerb(uapi.CmdDestroyCQ, b.cq.CQHandle)))
			if ev.CompEventsReported != 1 || ev.AsyncEventsReported != 0 {
				t.Errorf("reported %+v", ev)
			}
			a.exit()
			b.exit()
			if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
				t.Errorf("left: %+v", n)
			}
		})
	}
}

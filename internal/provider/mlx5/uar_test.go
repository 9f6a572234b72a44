package mlx5

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestUARs: a page of registers stays while a queue pair rings there, a queue pair names a page
// that there is, and a program gets so many.
func TestUARs(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	p.sharesUAR = true
	q := p.newQP(rxe.QPRC, 1)
	if err := p.uar.Destroy(nil, false); err != unix.EBUSY {
		t.Errorf("the page of a queue pair: %v", err)
	}
	spare := must.Get[*uar](t)(p.ctx.newUAR(uarTypeBF))
	if spare.offset == p.uar.offset || spare.id == p.uar.id || len(q.mem.(*queuePair).register.words) != 4 {
		t.Errorf("pages %+v and %+v", spare, p.uar)
	}
	must.OK(t, spare.Destroy(nil, false))
	for what, req := range map[string]CreateQPReq{
		"a page that has ended": {Flags: qpFlagUARPage, BFRegIndex: spare.id},
		"no page":               {},
	} {
		req.SQWQECount = 1
		_, err := p.ctx.NewQP(ask(p, req), provider.QPRequest{Type: uapi.QPTypeRC, SendCQ: q.send.mem, RecvCQ: q.recv.mem, Keys: p})
		if err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	n := 2
	for ; ; n++ {
		if _, err := p.ctx.newUAR(uarTypeBF); err == unix.ENOMEM {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != mostUARs {
		t.Errorf("%d pages", n)
	}
}

// TestBegin: a request for DevX is refused, one of an old libmlx5 gets registers of the device, and
// it may be made twice.
func TestBegin(t *testing.T) {
	p := newProgramOf(t, rxedev.New(t), 0)
	u := ask(p, AllocContextReq{})
	must.OK(t, p.ctx.Begin(u))
	if resp := uapi.Load[AllocContextResp](u.resp); resp.TotBFRegs != uarPages*registersPerPage || resp.DumpFill != uint32(profile.NullLKey) {
		t.Errorf("%+v", resp)
	}
	if err := p.ctx.Begin(ask(p, AllocContextReq{Flags: contextDevX})); err != unix.EPROTONOSUPPORT {
		t.Errorf("DevX: %v", err)
	}
	p = newProgram(t, p.dev)
	must.OK(t, p.ctx.Begin(ask(p, AllocContextReq{LibCaps: libDynamicUAR})))
}

package uverbs

import (
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// steerDriver has a method that makes flow rules for all frames.
const (
	ownFlowMethod = 1 << 12
	ownFlowHandle = 1 << 12
	ownFlowQP     = 1<<12 + 1
	ownFlowTag    = 1<<12 + 2
)

func (d steerDriver) Methods() provider.Methods {
	m := maps.Clone(d.xrcDriver.Methods())
	m[dispatch.MethodKey{Object: uapi.ObjFlow, Method: ownFlowMethod}] = provider.Method{
		Name: "CREATE_FLOW",
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(ownFlowHandle, uapi.ObjFlow, dispatch.AccessNew)),
			dispatch.Handle(ownFlowQP, uapi.ObjQP, dispatch.AccessRead),
			dispatch.Constant(ownFlowTag),
		},
		Handle: func(ctx provider.Context, k *dispatch.Call) error {
			c, qp := ctx.(*steerContext), k.Attrs.Object(ownFlowQP)
			r, err := c.addFlow(k, provider.FlowRequest{QP: qp, Rule: ether.Rule{Drop: qp == nil, Tag: uint32(k.Attrs.U64(ownFlowTag))},
				Ended: func() { c.flowsEnded++ }})
			if err == nil {
				k.Attrs.Object(ownFlowHandle).Res = r
			}
			return err
		},
	}
	return m
}

// TestOwnFlows: the rules of a driver's own method are like those of create_flow. One without a
// queue pair holds the program's place on the segment.
func TestOwnFlows(t *testing.T) {
	b := quota.New(quota.Cost{})
	p := newSteerProgram(t, forms[1], b)
	c := p.f.ctx.(*steerContext)
	create := func(list ...uapi.IoctlAttr) (uint32, error) {
		p.reset()
		list = append([]uapi.IoctlAttr{newObj(ownFlowHandle)}, list...)
		err := p.ioctlList(uapi.ObjFlow, ownFlowMethod, list)
		return uint32(list[0].Data), err
	}
	made := func(list ...uapi.IoctlAttr) uint32 {
		t.Helper()
		h, err := create(list...)
		p.ok(err)
		return h
	}
	destroy := func(h uint32) { t.Helper(); p.call(exDestroyVerb(uapi.CmdExDestroyFlow, h)) }

	for i := range 2 {
		drop := made()
		if p.joined != i+1 {
			t.Errorf("with rule %d the station has come %d times", i, p.joined)
		}
		_, err := create(num(ownFlowTag, 5)) // a conflict
		p.want(err, unix.EEXIST)
		destroy(drop)
	}

	first, second := p.newCQ(), p.newCQ()
	raw, rc := p.newRaw(first), core[uapi.CreateQPResp](p.call(createQPVerb(qpReq(rxe.QPRC, p.pd, first)))).QPHandle
	wants := func(what string, x, y int) {
		t.Helper()
		if got := p.arrive(first, second); got[0] != x || got[1] != y {
			t.Errorf("%s: %v, want %d and %d", what, got, x, y)
		}
	}
	_, err := create(obj(ownFlowQP, rc))
	p.want(err, unix.EINVAL)
	mine := made(obj(ownFlowQP, raw), num(ownFlowTag, 6))
	wants("a rule", 1, 0)
	wcs := p.f.objects.Lookup(first).Res.(*cqRes).mem.(*xrcCQ).wcs
	if f := wcs[0].Frame(); f.Tag != 6 {
		t.Errorf("the tag: %+v", f)
	}
	p.wantErr("a queue pair with a rule", destroyVerb(uapi.CmdDestroyQP, raw), unix.EBUSY)
	destroy(mine)

	wqs := []uint32{p.newWQ(second)}
	p.call(wqStateVerb(wqs[0], uapi.WQReady))
	table := core[uapi.CreateRWQIndTblResp](p.call(tableVerb(0, wqs...))).IndTblHandle
	rss := core[uapi.ExCreateQPResp](p.call(rssVerb(p.pd, table))).Base.QPHandle
	made(obj(ownFlowQP, rss))
	wants("a rule for work queues", 0, 1)
	if s := p.f.Status(9); s.Flows != 1 {
		t.Errorf("%d flows in the status", s.Flows)
	}
	if c.flowsEnded != 3 {
		t.Errorf("%d rules have ended", c.flowsEnded)
	}
	p.exit()
	if c.flowsEnded != 4 {
		t.Errorf("%d rules have ended with the program", c.flowsEnded)
	}
	quotatest.WantGiven(t, b)

	d, err := NewDevice(Config{Device: rxedev.New(t), Driver: steerDriver{}}) // on no segment
	p.ok(err)
	t.Cleanup(d.Close)
	p.user = &user{openedOf(t, d, nil), forms[1]}
	_, err = create()
	p.want(err, unix.EOPNOTSUPP)
}

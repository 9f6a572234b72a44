package uverbs

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// steerDriver is an xrcDriver with flow rules and work queues.
type steerDriver struct{ xrcDriver }

func (steerDriver) HasSteering() bool { return true }

func (d steerDriver) Open(o provider.Open) (provider.Context, error) {
	c, err := d.xrcDriver.Open(o)
	if err != nil {
		return nil, err
	}
	return &steerContext{xrcContext: c.(*xrcContext), addFlow: o.AddFlow}, nil
}

type steerContext struct {
	*xrcContext
	lkey   uint32 // of programData
	counts []ether.Point
	// loopback of the queue pairs that are made
	loopback bool
	// of the driver's own method
	addFlow    func(*dispatch.Call, provider.FlowRequest) (dispatch.Resource, error)
	flowsEnded int
}

// NewFlow reads a word of the program's memory, if the private request says where.
func (c *steerContext) NewFlow(u provider.UData, read func(addr uint64, b []byte) error) ([]ether.Point, error) {
	if len(u.Request()) == 0 {
		return nil, nil
	}
	return c.counts, read(uapi.Load[uint64](u.Request()), make([]byte, 4))
}

func (c *steerContext) NewTable(provider.UData, uint32) error { return nil }

func (c *steerContext) NewRSS(provider.UData, uint32) (provider.RSS, error) {
	return provider.RSS{RSS: ether.RSS{Key: [ether.HashKeySize]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, Fields: ether.HashSrcIPv4 | ether.HashDstIPv4},
		SelfLoopback: c.loopback}, nil
}

func (c *steerContext) NewWQ(provider.UData, provider.WQRequest) (provider.WQ, error) {
	c.live++
	return &steerQueue{plainQP: plainQP{c: c.plainContext}, lkey: c.lkey}, nil
}

func (c *steerContext) NewQP(provider.UData, provider.QPRequest) (provider.QP, error) {
	c.live++
	return &steerQP{steerQueue{plainQP: plainQP{c: c.plainContext}, lkey: c.lkey}}, nil
}

// steerQueue always has a receive request, for programData.
type steerQueue struct {
	plainQP
	lkey   uint32
	resets int
}

func (q *steerQueue) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	w.ID, w.SGL = 77, append(w.SGL[:0], rxe.SGE{Addr: programData, Length: 2048, LKey: wire.LKey(q.lkey)})
	return true, false
}

func (q *steerQueue) Init(init *rxe.QPInitAttr) {
	init.Cap, init.RecvRing = rxe.QPCap{MaxRecvWR: 4, MaxRecvSGE: 1}, q
}
func (q *steerQueue) Created(provider.UData, *rxe.QP) error { return nil }
func (q *steerQueue) CheckModify(provider.UData) error      { return nil }
func (q *steerQueue) Reset()                                { q.resets++ }

type steerQP struct{ steerQueue }

func (q *steerQP) Init(init *rxe.QPInitAttr) { init.RecvRing = &q.steerQueue }

func (q *steerQP) Created(_ provider.UData, qp *rxe.QP) error {
	q.qp = qp
	return nil
}

func (q *steerQP) Modify(_ provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	return q.qp.Modify(attr, mask)
}

// steerProgram is a program of a device on a segment, which has one other station.
type steerProgram struct {
	*user
	engine *rxe.Device
	peer   *segment.Station
	pd     uint32
	frame  []byte
	joined int // how often the program's station has come
}

var steerMAC = [6]byte{2, 0, 0, 0, 0, 1}

func newSteerProgram(t *testing.T, fm form, b *quota.Budget) *steerProgram {
	t.Helper()
	engine := rxedev.New(t)
	var users segment.Users
	mtu := func() int { return 1500 }
	p := &steerProgram{engine: engine}
	station := func(user any, _ bool) *segment.Station {
		return must.Get[*segment.Station](t)(users.Station(user, engine, func() (segment.Config, error) {
			p.joined++
			return segment.Config{MAC: steerMAC, MTU: mtu, Wake: engine.Wake}, nil
		}))
	}
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: steerDriver{}, Station: station}))
	t.Cleanup(d.Close)
	p.user = &user{openedOf(t, d, b), fm}
	p.peer = must.Get[*segment.Station](t)(users.Station(p.f.budget, "peer", func() (segment.Config, error) {
		return segment.Config{MTU: mtu, Wake: func() {}}, nil
	}))
	t.Cleanup(p.peer.Release)
	p.pd = p.allocPD()
	p.f.ctx.(*steerContext).lkey = p.regMR(p.pd, programData, 4096, rxe.AccessLocalWrite).LKey
	p.frame = make([]byte, 60)
	copy(p.frame, steerMAC[:])
	binary.BigEndian.PutUint16(p.frame[12:], ether.TypeIPv4)
	p.frame[14], p.frame[17], p.frame[23] = 0x45, 46, 200
	return p
}

// find returns the newest object of a type.
func (p *steerProgram) find(typ uapi.ObjectType) (found *dispatch.Object) {
	p.f.objects.Each(func(o *dispatch.Object) {
		if found == nil && o.Type == typ {
			found = o
		}
	})
	return found
}

func (p *steerProgram) newCQ() uint32 {
	p.t.Helper()
	return core[uapi.CreateCQResp](p.call(verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 9, CompChannel: -1}),
		resp: uapi.SizeOf[uapi.CreateCQResp]()})).CQHandle
}

// newRaw makes a queue pair for raw packets that receives.
func (p *steerProgram) newRaw(cq uint32) uint32 {
	p.t.Helper()
	qp := core[uapi.CreateQPResp](p.call(createQPVerb(qpReq(rxe.QPRaw, p.pd, cq)))).QPHandle
	p.call(modifyVerb(uapi.ModifyQPReq{QPHandle: qp, AttrMask: uint32(rxe.QPAttrState | rxe.QPAttrPort), QPState: uint8(rxe.QPInit), PortNum: 1}))
	p.call(modifyVerb(uapi.ModifyQPReq{QPHandle: qp, AttrMask: uint32(rxe.QPAttrState), QPState: uint8(rxe.QPRTR)}))
	return qp
}

// arrive sends a frame of the peer, and returns the completions of a queue since then.
func (p *steerProgram) arrive(cqs ...uint32) (got []int) {
	p.t.Helper()
	wcs := func(cq uint32) []rxe.WC { return p.f.objects.Lookup(cq).Res.(*cqRes).mem.(*xrcCQ).wcs }
	for _, cq := range cqs {
		got = append(got, -len(wcs(cq)))
	}
	p.peer.SendFrames(nil, []rxe.FrameOut{{Data: p.frame}})
	p.engine.Deliver()
	for i, cq := range cqs {
		list := wcs(cq)
		if got[i] += len(list); got[i] > 0 && list[len(list)-1].Status != rxe.WCSuccess {
			p.t.Errorf("a frame completes with %+v", list[len(list)-1])
		}
	}
	return got
}

// spec makes a spec of a flow rule. Without parts it is an action.
func spec(typ uint32, parts ...any) []byte {
	var body []byte
	for _, part := range parts {
		b, err := binary.Append(nil, binary.NativeEndian, part)
		if err != nil {
			panic(err)
		}
		body = append(body, b...)
	}
	hdr := uapi.FlowSpecHdr{Type: typ, Size: uint16(specHdrSize + len(body))}
	return append(bytesFrom(hdr), body...)
}

func flowVerb(req uapi.CreateFlowReq, specs ...[]byte) verb {
	var all []byte
	for _, s := range specs {
		all = append(all, s...)
	}
	req.FlowAttr.NumOfSpecs, req.FlowAttr.Size = uint8(len(specs)), uint16(len(all))
	if req.FlowAttr.Port == 0 {
		req.FlowAttr.Port = 1
	}
	b := append(bytesFrom(req), all...)
	return verb{cmd: uapi.CmdExtended | uapi.CmdExCreateFlow, req: append(b, make([]byte, -len(b)&7)...), resp: 8}
}

func exDestroyVerb(cmd, handle uint32) verb {
	v := verb{cmd: uapi.CmdExtended | cmd, req: bytesFrom(uapi.ExHandleReq{Handle: handle})}
	if cmd == uapi.CmdExDestroyWQ {
		v.resp = uapi.SizeOf[uapi.DestroyWQResp]()
	}
	return v
}

func toMAC(mac [6]byte) []byte {
	return spec(uapi.FlowSpecEth, ether.Eth{Dst: mac}, ether.Eth{Dst: [6]byte{255, 255, 255, 255, 255, 255}})
}

// TestFlows: a queue pair receives what its rules take, and ends after them.
func TestFlows(t *testing.T) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			b := quota.New(quota.Cost{})
			p := newSteerProgram(t, fm, b)
			first, second := p.newCQ(), p.newCQ()
			one, two := p.newRaw(first), p.newRaw(second)
			wants := func(what string, a, b int) {
				t.Helper()
				if got := p.arrive(first, second); got[0] != a || got[1] != b {
					t.Errorf("%s: %v, want %d and %d", what, got, a, b)
				}
			}
			create := func(v verb) uint32 { t.Helper(); return core[uapi.CreateFlowResp](p.call(v)).FlowHandle }
			wants("no rule", 0, 0)
			mine := create(flowVerb(uapi.CreateFlowReq{QPHandle: one, FlowAttr: uapi.FlowAttr{Priority: 3}}, toMAC(steerMAC)))
			wants("a rule", 1, 0)
			all := create(flowVerb(uapi.CreateFlowReq{QPHandle: two, FlowAttr: uapi.FlowAttr{Type: uapi.FlowAllDefault}}))
			wants("a default behind it", 1, 0)
			copied := create(flowVerb(uapi.CreateFlowReq{QPHandle: two, FlowAttr: uapi.FlowAttr{Priority: 2, Flags: uapi.FlowDontTrap}},
				spec(uapi.FlowSpecIPv4, ether.IPv4{Proto: 200}, ether.IPv4{Proto: 255}), spec(uapi.FlowSpecActionTag, uint32(5), uint32(0))))
			wants("a copy in front of it", 1, 1)
			wcs := p.f.objects.Lookup(second).Res.(*cqRes).mem.(*xrcCQ).wcs
			if f := wcs[len(wcs)-1].Frame(); f.Tag != 5 || f.Flags&rxe.FrameTag == 0 {
				t.Errorf("the tag of the copy: %+v", f)
			}
			drop := create(flowVerb(uapi.CreateFlowReq{QPHandle: one}, spec(uapi.FlowSpecActionDrop)))
			wants("dropped", 0, 0)
			p.wantErr("the same match, another action", flowVerb(uapi.CreateFlowReq{QPHandle: one}), unix.EEXIST)
			p.wantErr("a queue pair with rules", destroyVerb(uapi.CmdDestroyQP, one), unix.EBUSY)
			p.call(exDestroyVerb(uapi.CmdExDestroyFlow, drop))
			wants("not any more", 1, 1)
			p.call(exDestroyVerb(uapi.CmdExDestroyFlow, mine))
			p.call(exDestroyVerb(uapi.CmdExDestroyFlow, copied))
			wants("the default", 0, 1)
			p.call(destroyVerb(uapi.CmdDestroyQP, one))
			p.reset()
			p.ok(p.ioctl(uapi.ObjFlow, uapi.MethodFlowDestroy, obj(uapi.AttrDestroyHandle, all)))
			wants("none", 0, 0)
			create(flowVerb(uapi.CreateFlowReq{QPHandle: two, FlowAttr: uapi.FlowAttr{Type: uapi.FlowSniffer}}))
			wants("a sniffer", 0, 1)
			p.exit()
			if n := p.engine.Objects(); n != (rxe.ObjectCounts{}) {
				t.Errorf("what is left at the end: %+v", n)
			}
			quotatest.WantGiven(t, b)
		})
	}
}

// TestFlowRefusals: requests that the kernel and mlx5_ib refuse.
func TestFlowRefusals(t *testing.T) { newSteerProgram(t, forms[0], nil).flowRefusals(t) }

func (p *steerProgram) flowRefusals(t *testing.T) {
	t.Helper()
	cq := p.newCQ()
	raw := p.newRaw(cq)
	rc := core[uapi.CreateQPResp](p.call(createQPVerb(qpReq(rxe.QPRC, p.pd, cq)))).QPHandle
	attr := func(a uapi.FlowAttr) uapi.CreateFlowReq { return uapi.CreateFlowReq{QPHandle: raw, FlowAttr: a} }
	good := attr(uapi.FlowAttr{})
	// sized says that the drop spec and zeros behind it have another size and number.
	sized := func(size uint16, specs uint8) verb {
		v := flowVerb(good, spec(uapi.FlowSpecActionDrop))
		req := uapi.Load[uapi.CreateFlowReq](v.req)
		req.FlowAttr.Size, req.FlowAttr.NumOfSpecs = size, specs
		copy(v.req, uapi.BytesOf(&req))
		v.req = append(v.req, make([]byte, 200)...)
		return v
	}
	short := spec(uapi.FlowSpecEth, uint32(0))
	reserved := spec(uapi.FlowSpecActionDrop)
	reserved[6] = 1
	tiny := spec(uapi.FlowSpecActionDrop)
	tiny[4] = 7
	for _, c := range []struct {
		what string
		v    verb
		want error
	}{
		{"no queue pair", flowVerb(uapi.CreateFlowReq{QPHandle: 999}), unix.ENOENT},
		{"no raw queue pair", flowVerb(uapi.CreateFlowReq{QPHandle: rc}), unix.EINVAL},
		{"comp_mask", flowVerb(uapi.CreateFlowReq{CompMask: 1, QPHandle: raw}), unix.EINVAL},
		{"port 2", flowVerb(attr(uapi.FlowAttr{Port: 2})), unix.EINVAL},
		{"unknown flags", flowVerb(attr(uapi.FlowAttr{Flags: 1 << 3})), unix.EINVAL},
		{"egress", flowVerb(attr(uapi.FlowAttr{Flags: uapi.FlowEgress})), unix.EINVAL},
		{"a default that does not trap", flowVerb(attr(uapi.FlowAttr{Type: uapi.FlowMCDefault, Flags: uapi.FlowDontTrap})), unix.EINVAL},
		{"an unknown type", flowVerb(attr(uapi.FlowAttr{Type: 4})), unix.EINVAL},
		{"priority 16", flowVerb(attr(uapi.FlowAttr{Priority: 16})), unix.ENOMEM},
		{"reserved", flowVerb(attr(uapi.FlowAttr{Reserved: [2]uint8{0, 1}})), unix.EINVAL},
		{"eleven specs", flowVerb(good, make([][]byte, 11)...), unix.EINVAL},
		{"an unknown spec", flowVerb(good, spec(0x77, uint32(0), uint32(0))), unix.EINVAL},
		{"the inner bit", flowVerb(good, spec(uapi.FlowSpecEth|flowInner, ether.Eth{}, ether.Eth{})), unix.EOPNOTSUPP},
		{"a tunnel", flowVerb(good, spec(flowSpecVXLAN, uint32(0), uint32(0))), unix.EOPNOTSUPP},
		{"half a filter", flowVerb(good, short), unix.EINVAL},
		{"reserved bits of a spec", flowVerb(good, reserved), unix.EINVAL},
		{"a spec without a header", flowVerb(good, tiny), unix.EINVAL},
		{"TTL", flowVerb(good, spec(uapi.FlowSpecIPv4, ether.IPv4{}, ether.IPv4{TTL: 1})), unix.EOPNOTSUPP},
		{"hop limit", flowVerb(good, spec(uapi.FlowSpecIPv6, make([]byte, 40), append(make([]byte, 38), 1, 0))), unix.EOPNOTSUPP},
		{"flow label", flowVerb(good, spec(uapi.FlowSpecIPv6, make([]byte, 40), append(append(make([]byte, 33), 0x10), make([]byte, 6)...))), unix.EINVAL},
		{"a large tag", flowVerb(good, spec(uapi.FlowSpecActionTag, uint32(1<<24), uint32(0))), unix.EINVAL},
		{"IPv4 and IPv6", flowVerb(good, spec(uapi.FlowSpecIPv4, ether.IPv4{}, ether.IPv4{}), spec(uapi.FlowSpecIPv6, make([]byte, 80))), unix.EINVAL},
		{"two counters objects", flowVerb(good, spec(uapi.FlowSpecActionCount, raw, uint32(0)), spec(uapi.FlowSpecActionCount, raw, uint32(0))), unix.EINVAL},
		{"more than the specs can have", sized(200, 1), unix.EINVAL},
		{"more than the specs have", sized(48, 1), unix.EINVAL},
		{"less than the specs have", sized(8, 2), unix.EINVAL},
		{"no counters object", flowVerb(good, spec(uapi.FlowSpecActionCount, raw, uint32(0))), unix.EINVAL},
		{"a mask for unknown fields", flowVerb(good, spec(uapi.FlowSpecTCP, make([]byte, 8), append(make([]byte, 7), 1))), unix.EINVAL},
		{"unknown fields without a mask", flowVerb(good, spec(uapi.FlowSpecTCP, append(make([]byte, 7), 1), make([]byte, 8))), nil},
	} {
		if err := p.try(c.v); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	long := flowVerb(good, toMAC(steerMAC))
	long.req = append(long.req, make([]byte, 8)...)
	if err := p.try(long); err != nil {
		t.Errorf("zeros behind the specs: %v", err)
	}
	long.req[len(long.req)-1] = 1
	p.wantErr("something behind the specs", long, unix.EOPNOTSUPP)
	long.req = long.req[:32]
	p.wantErr("less than the specs", long, unix.ENOSPC)
	long.req = long.req[:16]
	p.wantErr("less than the struct", long, unix.ENOSPC)
}

// TestFlowsAreBounded: a user's rules are bounded, and the errno is the kernel's.
func TestFlowsAreBounded(t *testing.T) {
	p := newSteerProgram(t, forms[0], nil)
	raw := p.newRaw(p.newCQ())
	for i := range ether.MaxRules + 1 {
		v := flowVerb(uapi.CreateFlowReq{QPHandle: raw}, toMAC([6]byte{2, 1, 0, 0, byte(i >> 8), byte(i)}))
		if err, full := p.try(v), i == ether.MaxRules; (err == unix.ENOSPC) != full || !full && err != nil {
			t.Fatalf("rule %d: %v", i, err)
		}
	}
}

// TestFlowCounters: a counters object counts what its rules take.
func TestFlowCounters(t *testing.T) { newSteerProgram(t, forms[0], nil).countersWalk(t) }

func (p *steerProgram) countersWalk(t *testing.T) {
	t.Helper()
	cq := p.newCQ()
	raw := p.newRaw(cq)
	newCounters := func() uint32 {
		p.reset()
		p.ok(p.ioctl(uapi.ObjCounters, uapi.MethodCountersCreate, newObj(uapi.AttrDestroyHandle)))
		return p.find(uapi.ObjCounters).Handle
	}
	c := newCounters()
	read := func(n int) ([]uint64, error) {
		p.reset()
		buf := p.out(uapi.AttrReadCountersBuff, n*8)
		err := p.ioctl(uapi.ObjCounters, uapi.MethodCountersRead, obj(uapi.AttrReadCountersHandle, c), buf, num32(uapi.AttrReadCountersFlags, 0))
		values := make([]uint64, n)
		for i := range values {
			values[i] = uapi.Load[uint64](p.mem.Bytes(buf.Data+uint64(8*i), 8))
		}
		return values, err
	}
	if _, err := read(4); err != unix.EINVAL {
		t.Errorf("counters without a rule: %v", err)
	}
	counted := flowVerb(uapi.CreateFlowReq{QPHandle: raw}, toMAC(steerMAC), spec(uapi.FlowSpecActionCount, c, uint32(0)))
	p.wantErr("counters that count nothing", counted, unix.EINVAL)
	p.f.ctx.(*steerContext).counts = []ether.Point{{Bytes: true, Index: 2}, {Index: 0}}
	described := counted
	described.uhw = bytesFrom(uint64(8))
	p.wantErr("a description in no memory", described, unix.EFAULT)
	described.uhw = bytesFrom(uint64(programData))
	flow := core[uapi.CreateFlowResp](p.call(described)).FlowHandle
	p.wantErr("described twice", described, unix.EINVAL)
	second := core[uapi.CreateFlowResp](p.call(counted)).FlowHandle
	p.arrive(cq)
	p.arrive(cq)
	if v, err := read(4); err != nil || v[0] != 2 || v[1] != 0 || v[2] != 120 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := read(2); err != unix.EINVAL {
		t.Errorf("an array that is too short: %v", err)
	}
	destroy := func() error {
		p.reset()
		return p.ioctl(uapi.ObjCounters, uapi.MethodCountersDestroy, obj(uapi.AttrDestroyHandle, c))
	}
	p.want(destroy(), unix.EBUSY)
	p.call(exDestroyVerb(uapi.CmdExDestroyFlow, flow))
	p.call(exDestroyVerb(uapi.CmdExDestroyFlow, second))
	p.ok(destroy())
}

func (p *steerProgram) newWQ(cq uint32) uint32 {
	p.t.Helper()
	return core[uapi.CreateWQResp](p.call(wqVerb(p.pd, cq))).WQHandle
}

func wqVerb(pd, cq uint32) verb {
	return verb{cmd: uapi.CmdExtended | uapi.CmdExCreateWQ, resp: uapi.SizeOf[uapi.CreateWQResp](),
		req: bytesFrom(uapi.CreateWQReq{PDHandle: pd, CQHandle: cq, MaxWR: 4, MaxSGE: 1, UserHandle: 0x77})}
}

func wqStateVerb(wq, state uint32) verb {
	return verb{cmd: uapi.CmdExtended | uapi.CmdExModifyWQ, req: bytesFrom(uapi.ModifyWQReq{AttrMask: uapi.WQAttrState, WQHandle: wq, WQState: state})}
}

func tableVerb(log uint32, wqs ...uint32) verb {
	b := bytesFrom(uapi.CreateRWQIndTblReq{LogIndTblSize: log})
	for _, wq := range wqs {
		b = binary.NativeEndian.AppendUint32(b, wq)
	}
	return verb{cmd: uapi.CmdExtended | uapi.CmdExCreateRWQIndTbl, req: append(b, make([]byte, -len(b)&7)...), resp: uapi.SizeOf[uapi.CreateRWQIndTblResp]()}
}

func rssVerb(pd, table uint32) verb {
	return verb{cmd: uapi.CmdExtended | uapi.CmdCreateQP, resp: uapi.SizeOf[uapi.ExCreateQPResp](),
		req: bytesFrom(uapi.ExCreateQPReq{PDHandle: pd, QPType: uapi.QPTypeRawPacket, CompMask: uapi.CreateQPMaskIndTable, RWQIndTblHandle: table})}
}

// TestRSS: frames are spread over work queues by their hash. Everything ends in its order, or with
// the program.
func TestRSS(t *testing.T) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			b := quota.New(quota.Cost{})
			p := newSteerProgram(t, fm, b)
			cqs := []uint32{p.newCQ(), p.newCQ()}
			wqs := []uint32{p.newWQ(cqs[0]), p.newWQ(cqs[1])}
			places := make([]uint32, 16)
			for i := range places {
				places[i] = wqs[i%2]
			}
			table := core[uapi.CreateRWQIndTblResp](p.call(tableVerb(4, places...))).IndTblHandle
			qp := core[uapi.ExCreateQPResp](p.call(rssVerb(p.pd, table))).Base.QPHandle
			flow := core[uapi.CreateFlowResp](p.call(flowVerb(uapi.CreateFlowReq{QPHandle: qp}))).FlowHandle
			if got := p.arrive(cqs...); got[0]+got[1] != 0 {
				t.Errorf("work queues in RESET receive %v", got)
			}
			for _, wq := range wqs {
				p.call(wqStateVerb(wq, uapi.WQReady))
			}
			rss, _ := p.f.ctx.(*steerContext).NewRSS(nil, 0)
			seen := [2]int{}
			for i := range 32 {
				p.frame[26], p.frame[29] = byte(i), byte(i)
				f := ether.Parse(p.frame)
				want := rss.Index(&f, 16) % 2
				seen[want]++
				if got := p.arrive(cqs...); got[want] != 1 || got[1-want] != 0 {
					t.Errorf("frame %d reaches %v, want queue %d", i, got, want)
				}
				wcs := p.f.objects.Lookup(cqs[want]).Res.(*cqRes).mem.(*xrcCQ).wcs
				if info := wcs[len(wcs)-1].Frame(); info.Hash != rss.Hash(&f) || info.Flags&rxe.FrameHash == 0 {
					t.Errorf("frame %d: %+v", i, info)
				}
			}
			if seen[0] == 0 || seen[1] == 0 {
				t.Fatalf("the frames have one hash: %v", seen)
			}
			p.wantErr("a queue pair without a state", modifyVerb(uapi.ModifyQPReq{QPHandle: qp, AttrMask: uint32(rxe.QPAttrState)}), unix.ENOSYS)
			p.wantErr("work queues of a table", exDestroyVerb(uapi.CmdExDestroyWQ, wqs[0]), unix.EBUSY)
			p.wantErr("a table of a queue pair", exDestroyVerb(uapi.CmdExDestroyRWQIndTbl, table), unix.EBUSY)
			p.wantErr("a queue pair of a rule", destroyVerb(uapi.CmdDestroyQP, qp), unix.EBUSY)
			if st := p.f.Status(9); st.Flows != 1 || st.WQs != 2 || st.RSS != 1 {
				t.Errorf("status: %d rules, %d work queues, %d queue pairs", st.Flows, st.WQs, st.RSS)
			}
			p.call(exDestroyVerb(uapi.CmdExDestroyFlow, flow))
			p.call(destroyVerb(uapi.CmdDestroyQP, qp))
			p.call(exDestroyVerb(uapi.CmdExDestroyRWQIndTbl, table))
			p.call(exDestroyVerb(uapi.CmdExDestroyWQ, wqs[0]))
			table = core[uapi.CreateRWQIndTblResp](p.call(tableVerb(0, wqs[1]))).IndTblHandle
			qp = core[uapi.ExCreateQPResp](p.call(rssVerb(p.pd, table))).Base.QPHandle
			p.call(flowVerb(uapi.CreateFlowReq{QPHandle: qp}))
			p.exit()
			if n := p.engine.Objects(); n != (rxe.ObjectCounts{}) {
				t.Errorf("what is left at the end: %+v", n)
			}
			quotatest.WantGiven(t, b)
		})
	}
}

// TestWorkQueueStates: a work queue goes from RESET to RDY, ERR and RESET, and tells of its
// failure.
func TestWorkQueueStates(t *testing.T) { newSteerProgram(t, forms[0], nil).workQueueWalk(t) }

func (p *steerProgram) workQueueWalk(t *testing.T) {
	t.Helper()
	cq := p.newCQ()
	wq := p.newWQ(cq)
	mem := p.f.objects.Lookup(wq).Res.(*wqRes).mem.(*steerQueue)
	for i, step := range []struct {
		state uint32
		want  error
		reset int
	}{
		{uapi.WQError, unix.EINVAL, 0}, {uapi.WQReady, nil, 0}, {uapi.WQReady, nil, 0}, {uapi.WQError, nil, 0},
		{uapi.WQReady, unix.EINVAL, 0}, {uapi.WQReset, nil, 1}, {uapi.WQReady, nil, 1}, {uapi.WQReset, nil, 2}, {3, unix.EINVAL, 2},
	} {
		if err := p.try(wqStateVerb(wq, step.state)); err != step.want || mem.resets != step.reset {
			t.Errorf("step %d, to %d: %v, %d resets", i, step.state, err, mem.resets)
		}
	}
	modify := func(req uapi.ModifyWQReq) verb {
		req.WQHandle = wq
		return verb{cmd: uapi.CmdExtended | uapi.CmdExModifyWQ, req: bytesFrom(req)}
	}
	p.wantErr("no attribute", modify(uapi.ModifyWQReq{}), unix.EINVAL)
	p.wantErr("unknown attributes", modify(uapi.ModifyWQReq{AttrMask: 8}), unix.EINVAL)
	p.wantErr("another state", modify(uapi.ModifyWQReq{AttrMask: uapi.WQAttrCurState, CurrWQState: uapi.WQError}), unix.EINVAL)
	p.wantErr("flags", modify(uapi.ModifyWQReq{AttrMask: uapi.WQAttrFlags, Flags: 1, FlagsMask: 1}), unix.EOPNOTSUPP)
	p.call(modify(uapi.ModifyWQReq{AttrMask: uapi.WQAttrCurState, CurrWQState: uapi.WQReset}))
	r := p.f.objects.Lookup(wq).Res.(*wqRes)
	x := &xrcProgram{user: p.user, async: firstFD(p.program)}
	p.dev.Event(rxe.Event{Type: rxe.EventQPAccessErr, QP: r.QP})
	p.dev.Event(rxe.Event{Type: rxe.EventQPLastWQEReached, QP: r.QP})
	if got := x.takeEvents(); len(got) != 1 || got[0] != segment.EventWQFatal {
		t.Errorf("events %v", got)
	}
	p.wantErr("an unknown type", verb{cmd: uapi.CmdExtended | uapi.CmdExCreateWQ, resp: uapi.SizeOf[uapi.CreateWQResp](),
		req: bytesFrom(uapi.CreateWQReq{PDHandle: p.pd, CQHandle: cq, WQType: 1})}, unix.EINVAL)
	p.wantErr("a table with too few handles", tableVerb(2, wq, wq), unix.ENOSPC)
	p.wantErr("a large table", tableVerb(14, wq), unix.EINVAL)
	p.wantErr("no work queue", tableVerb(1, wq, cq), unix.EINVAL)
	p.wantErr("more handles", tableVerb(0, wq, wq, wq), unix.EOPNOTSUPP)
	table := core[uapi.CreateRWQIndTblResp](p.call(tableVerb(1, wq, wq))).IndTblHandle
	bad := rssVerb(p.pd, table)
	bad.req = bytesFrom(uapi.ExCreateQPReq{PDHandle: p.pd, QPType: uapi.QPTypeRawPacket, CompMask: 1, RWQIndTblHandle: table, MaxRecvWR: 1})
	p.wantErr("a table and a receive queue", bad, unix.EINVAL)
	bad.req = bytesFrom(uapi.ExCreateQPReq{PDHandle: p.pd, QPType: uapi.QPTypeUD, CompMask: 1, RWQIndTblHandle: table})
	p.wantErr("RSS of datagrams", bad, unix.EOPNOTSUPP)
	p.call(exDestroyVerb(uapi.CmdExDestroyRWQIndTbl, table))
	p.call(exDestroyVerb(uapi.CmdExDestroyWQ, wq))
	p.call(destroyVerb(uapi.CmdDestroyCQ, cq))
}

// TestRSSByIoctl: WQ_CREATE, and QP_CREATE with a table.
func TestRSSByIoctl(t *testing.T) {
	p := newSteerProgram(t, forms[1], nil)
	cq := p.newCQ()
	p.reset()
	list := []uapi.IoctlAttr{newObj(uapi.AttrCreateWQHandle), obj(uapi.AttrCreateWQPD, p.pd), obj(uapi.AttrCreateWQCQ, cq),
		p.in(uapi.AttrCreateWQUserHandle, make([]byte, 8)), {AttrID: uapi.AttrCreateWQType, Len: 8, Flags: uapi.AttrFMandatory},
		num32(uapi.AttrCreateWQMaxWR, 3), num32(uapi.AttrCreateWQMaxSGE, 1), num32(uapi.AttrCreateWQFlags, 0),
		p.out(uapi.AttrCreateWQRespMaxSGE, 4), p.out(uapi.AttrCreateWQRespMaxWR, 4), p.out(uapi.AttrCreateWQRespWQNum, 4)}
	p.ok(p.ioctlList(uapi.ObjWQ, uapi.MethodWQCreate, list))
	wq := p.find(uapi.ObjWQ)
	most, num := get[uint32](p.program, list[9]), get[uint32](p.program, list[10])
	if num != uint32(wq.Res.(*wqRes).QP.Num()) || most != 4 {
		t.Errorf("number %d, max_wr %d", num, most)
	}
	table := core[uapi.CreateRWQIndTblResp](p.call(tableVerb(0, wq.Handle))).IndTblHandle
	create := func(cap uapi.QPCap, more ...uapi.IoctlAttr) error {
		p.reset()
		list := append([]uapi.IoctlAttr{newObj(uapi.AttrCreateQPHandle), p.in(uapi.AttrCreateQPUserHandle, make([]byte, 8)),
			p.in(uapi.AttrCreateQPCap, bytesFrom(cap)), {AttrID: uapi.AttrCreateQPType, Len: 8, Flags: uapi.AttrFMandatory, Data: uapi.QPTypeRawPacket},
			p.out(uapi.AttrCreateQPRespCap, uapi.SizeOf[uapi.QPCap]()), p.out(uapi.AttrCreateQPRespQPNum, 4), obj(uapi.AttrCreateQPIndTable, table)}, more...)
		return p.ioctl(uapi.ObjQP, uapi.MethodQPCreate, list...)
	}
	p.want(create(uapi.QPCap{}), unix.ENOENT)
	p.want(create(uapi.QPCap{}, obj(uapi.AttrCreateQPPD, p.pd), obj(uapi.AttrCreateQPRecvCQ, cq)), unix.EINVAL)
	p.want(create(uapi.QPCap{MaxRecvWR: 1}, obj(uapi.AttrCreateQPPD, p.pd)), unix.EINVAL)
	p.ok(create(uapi.QPCap{}, obj(uapi.AttrCreateQPPD, p.pd)))
	qp := p.find(uapi.ObjQP)
	p.call(flowVerb(uapi.CreateFlowReq{QPHandle: qp.Handle}))
	p.call(wqStateVerb(wq.Handle, uapi.WQReady))
	if got := p.arrive(cq); got[0] != 1 {
		t.Errorf("%d frames", got[0])
	}
	p.reset()
	p.want(p.ioctl(uapi.ObjWQ, uapi.MethodWQDestroy, obj(uapi.AttrDestroyHandle, wq.Handle), p.out(uapi.AttrDestroyResp, 4)), unix.EBUSY)
	p.reset()
	p.want(p.ioctl(uapi.ObjRWQIndTbl, uapi.MethodRWQIndTblDestroy, obj(uapi.AttrDestroyHandle, table)), unix.EBUSY)
}

// TestSteeringAnnounced: a device tells of flow rules if its driver has them and it is on a
// segment.
func TestSteeringAnnounced(t *testing.T) {
	with := newSteerProgram(t, forms[0], nil)
	engine := rxedev.New(t)
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: steerDriver{}}))
	t.Cleanup(d.Close)
	without := &user{opened(t, d), forms[0]}
	for u, want := range map[*user]rxe.DeviceCap{with.user: rxe.CapManagedFlowSteering, without: 0} {
		a := core[uapi.QueryDeviceResp](u.call(verb{cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()}))
		if got := rxe.DeviceCap(a.DeviceCapFlags) & rxe.CapManagedFlowSteering; got != want {
			t.Errorf("capability %#x, want %#x", got, want)
		}
	}
	without.wantErr("no work queues", wqVerb(without.allocPD(), 0), unix.EOPNOTSUPP)
}

// FuzzFlow: no request for a flow rule does harm.
func FuzzFlow(f *testing.F) {
	f.Add(flowVerb(uapi.CreateFlowReq{}, toMAC(steerMAC), spec(uapi.FlowSpecActionDrop)).req)
	f.Add(flowVerb(uapi.CreateFlowReq{}, spec(uapi.FlowSpecIPv6, make([]byte, 80)), spec(uapi.FlowSpecTCP, uint64(0), uint64(0))).req)
	f.Add(flowVerb(uapi.CreateFlowReq{}, spec(uapi.FlowSpecActionCount, uint64(0)), spec(uapi.FlowSpecIPv4, ether.IPv4{}, ether.IPv4{})).req)
	f.Fuzz(func(t *testing.T, b []byte) {
		req, specs, err := parseFlow(b)
		if err != nil {
			return
		}
		s, err := parseSpecs(specs, int(req.FlowAttr.NumOfSpecs))
		if err == nil && (s.match.Never() || s.tag >= mostFlowTag) {
			t.Errorf("%+v", s)
		}
	})
}

// TestSelfLoopback: a queue pair with a table does not get what its own open of the device sends,
// unless it was asked for, but what other opens send.
func TestSelfLoopback(t *testing.T) {
	for _, fm := range forms {
		for _, loopback := range []bool{false, true} {
			b := quota.New(quota.Cost{})
			p := newSteerProgram(t, fm, b)
			p.f.ctx.(*steerContext).loopback = loopback
			cq := p.newCQ()
			wq := p.newWQ(cq)
			table := core[uapi.CreateRWQIndTblResp](p.call(tableVerb(0, wq))).IndTblHandle
			p.call(flowVerb(uapi.CreateFlowReq{QPHandle: core[uapi.ExCreateQPResp](p.call(rssVerb(p.pd, table))).Base.QPHandle}))
			p.call(wqStateVerb(wq, uapi.WQReady))
			other := &steerProgram{user: &user{openedOf(t, p.f.dev, b), fm}, engine: p.engine}
			other.pd = other.allocPD()
			for _, c := range []struct {
				sender *steerProgram
				want   int
			}{{p, map[bool]int{true: 1}[loopback]}, {other, 1}} {
				qp := c.sender.f.objects.Lookup(c.sender.newRaw(c.sender.newCQ())).Res.(*qpRes).qp
				before := len(p.f.objects.Lookup(cq).Res.(*cqRes).mem.(*xrcCQ).wcs)
				qp.FramePort().SendFrames(qp, []rxe.FrameOut{{Data: p.frame}})
				p.engine.Deliver()
				if n := len(p.f.objects.Lookup(cq).Res.(*cqRes).mem.(*xrcCQ).wcs) - before; n != c.want {
					t.Errorf("%s, loopback %t: %d frames of an open (own: %t), want %d", fm.name, loopback, n, c.sender == p, c.want)
				}
			}
		}
	}
}

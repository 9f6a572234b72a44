package mlx5

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// nothing is a port for frames that nobody sends.
type nothing struct{}

func (nothing) SendFrames(*rxe.QP, []rxe.FrameOut) {}

const wqShift = 5

// workQueue makes a work queue as libmlx5 does, and the engine's queue pair behind it.
func (p *program) workQueue(cq *queue, change func(*CreateWQReq)) (provider.WQ, *rxe.QP, CreateWQReq) {
	p.t.Helper()
	req := CreateWQReq{BufAddr: p.alloc(4 << wqShift), DBAddr: p.alloc(recordSize), RQWQECount: 4, RQWQEShift: wqShift, UserIndex: 0x77}
	if change != nil {
		change(&req)
	}
	q := must.Get[provider.WQ](p.t)(p.ctx.NewWQ(ask(p, req), provider.WQRequest{MaxWR: 3, MaxSGE: 2, CQ: cq.mem}))
	init := rxe.QPInitAttr{Type: rxe.QPRaw, SendCQ: cq.cq, RecvCQ: cq.cq, Frames: &rxe.FrameInit{Port: nothing{}}}
	q.Init(&init)
	qp := must.Get[*rxe.QP](p.t)(p.dom.CreateQP(init))
	must.OK(p.t, q.Created(ask(p, uint64(0)), qp))
	return q, qp, req
}

func ready(t testing.TB, qp *rxe.QP) {
	t.Helper()
	must.OK(t, qp.Modify(&rxe.QPAttr{State: rxe.QPInit, PortNum: 1}, rxe.QPAttrState|rxe.QPAttrPort))
	must.OK(t, qp.Modify(&rxe.QPAttr{State: rxe.QPRTR}, rxe.QPAttrState))
}

// TestWorkQueue: frames land in the requests that libmlx5 has posted, and complete with the user
// index of the queue. After a reset the queue begins with its first request again.
func TestWorkQueue(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	cq := p.newCQ(16, cqeSize, false)
	q, qp, own := p.workQueue(cq, nil)
	frame := append(bytes.Repeat([]byte{2}, 14), "a frame"...)
	post := func(i, to int) {
		copy(p.bytes(own.BufAddr+uint64(i)<<wqShift, 32), append(seg(uint32(64), uint32(p.mr.LKey()), uint64(dataAt+to)), seg(uint32(0), uint32(lastKey), uint64(0))...))
		p.put32(own.DBAddr+qpRecordReceive, uint32(i+1))
	}
	receive := func(counter uint16, at int) {
		t.Helper()
		qp.ReceiveFrame(frame, rxe.FrameInfo{})
		p.dev.Deliver()
		if c := cq.one(); c.op != cqeRespSend || c.user != 0x77 || c.counter != counter || int(c.bytes) != len(frame) {
			t.Errorf("completion %+v", c)
		}
		if got := p.bytes(dataAt+uint64(at), len(frame)); !bytes.Equal(got, frame) {
			t.Errorf("received % x", got)
		}
	}
	ready(t, qp)
	post(0, 0)
	receive(0, 0)
	post(1, 100)
	receive(1, 100)
	qp.ReceiveFrame(frame, rxe.FrameInfo{})
	p.dev.Deliver()
	cq.none()
	if waiting, entries := q.Receives(); waiting != 0 || entries != 4 {
		t.Errorf("%d of %d requests wait", waiting, entries)
	}
	must.OK(t, qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	q.Reset()
	p.put32(own.DBAddr+qpRecordReceive, 0)
	ready(t, qp)
	post(0, 200)
	receive(0, 200)
	must.OK(t, qp.Destroy())
	q.Free()
}

// TestOrphanedWorkQueue: when the daemon has ended, the keeper completes the requests of a work
// queue, except those that have completed.
func TestOrphanedWorkQueue(t *testing.T) {
	p, flush := newOrphan(t)
	cq := p.newCQ(16, cqeSize, false)
	q, qp, own := p.workQueue(cq, nil)
	ready(t, qp)
	for i := range 3 {
		copy(p.bytes(own.BufAddr+uint64(i)<<wqShift, 16), seg(uint32(64), uint32(p.mr.LKey()), uint64(dataAt)))
		p.put32(own.DBAddr+qpRecordReceive, uint32(i+1))
	}
	qp.ReceiveFrame(make([]byte, 60), rxe.FrameInfo{})
	p.dev.Deliver()
	cq.one()
	if n, has := flush(); n != 2 || !has {
		t.Fatalf("%d completed, %t", n, has)
	}
	for i := range uint16(2) {
		if c := cq.one(); c.op != cqeRespErr || c.syndrome != 0x05 || c.counter != i+1 || c.user != 0x77 {
			t.Errorf("completion %+v", c)
		}
	}
	must.OK(t, qp.Destroy())
	q.Free()
	if n, has := flush(); n != 0 || has {
		t.Errorf("of a queue that has ended: %d, %t", n, has)
	}
}

// TestWorkQueueRefused: private requests that mlx5_ib refuses.
func TestWorkQueueRefused(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	good := CreateWQReq{BufAddr: memBase, DBAddr: memBase, RQWQECount: 4, RQWQEShift: wqShift}
	for _, c := range []struct {
		what   string
		change func(*CreateWQReq, *provider.WQRequest)
		want   error
	}{
		{"as it was", func(*CreateWQReq, *provider.WQRequest) {}, nil},
		{"an unknown mask", func(r *CreateWQReq, _ *provider.WQRequest) { r.CompMask = 2 }, unix.EOPNOTSUPP},
		{"signatures", func(r *CreateWQReq, _ *provider.WQRequest) { r.Flags = 1 }, unix.EOPNOTSUPP},
		{"delay drop", func(_ *CreateWQReq, q *provider.WQRequest) { q.Flags = 1 << 2 }, unix.EOPNOTSUPP},
		{"no requests", func(r *CreateWQReq, _ *provider.WQRequest) { r.RQWQECount = 0 }, rxe.ErrInvalid},
		{"no power of two", func(r *CreateWQReq, _ *provider.WQRequest) { r.RQWQECount = 3 }, rxe.ErrInvalid},
		{"too many", func(r *CreateWQReq, _ *provider.WQRequest) { r.RQWQECount = maxRecvWR * 2 }, rxe.ErrInvalid},
		{"long requests", func(r *CreateWQReq, _ *provider.WQRequest) { r.RQWQEShift = 10 }, rxe.ErrInvalid},
		{"short requests", func(r *CreateWQReq, _ *provider.WQRequest) { r.RQWQEShift = 3 }, rxe.ErrInvalid},
		{"more than there is room for", func(_ *CreateWQReq, q *provider.WQRequest) { q.MaxWR = 5 }, rxe.ErrInvalid},
		{"long lists", func(_ *CreateWQReq, q *provider.WQRequest) { q.MaxSGE = 33 }, rxe.ErrInvalid},
	} {
		own, req := good, provider.WQRequest{MaxWR: 4, MaxSGE: 1}
		c.change(&own, &req)
		if _, err := p.ctx.NewWQ(ask(p, own), req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	u := ask(p, good)
	u.req = append(u.req, make([]byte, 8)...)
	if _, err := p.ctx.NewWQ(u, provider.WQRequest{}); err != nil {
		t.Errorf("zeros behind the request: %v", err)
	}
	u.req[len(u.req)-1] = 1
	if _, err := p.ctx.NewWQ(u, provider.WQRequest{}); err != unix.EOPNOTSUPP {
		t.Errorf("something behind the request: %v", err)
	}
	u.req = u.req[:wqToStride-1]
	if _, err := p.ctx.NewWQ(u, provider.WQRequest{}); !errors.Is(err, rxe.ErrInvalid) {
		t.Errorf("a short request: %v", err)
	}
	q, _, _ := p.workQueue(p.newCQ(16, cqeSize, false), nil)
	for req, want := range map[ModifyWQReq]error{{}: nil, {CompMask: 1}: unix.EOPNOTSUPP, {Reserved: 1}: unix.EOPNOTSUPP} {
		if err := q.CheckModify(ask(p, req)); err != want {
			t.Errorf("%+v: %v, want %v", req, err, want)
		}
	}
}

// TestNewRSS: what a queue pair may hash, and what mlx5_ib refuses.
func TestNewRSS(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for _, c := range []struct {
		what   string
		log    uint32
		change func(*CreateRSSReq)
		want   error
	}{
		{"as it was", 3, func(*CreateRSSReq) {}, nil},
		{"loopback", 3, func(r *CreateRSSReq) { r.Flags = rssSelfLoopback }, nil},
		{"one queue without a hash", 0, func(r *CreateRSSReq) { r.RxHashFieldsMask = 0 }, nil},
		{"several without a hash", 1, func(r *CreateRSSReq) { r.RxHashFieldsMask = 0 }, rxe.ErrInvalid},
		{"IPv4 and IPv6", 3, func(r *CreateRSSReq) { r.RxHashFieldsMask = 5 }, rxe.ErrInvalid},
		{"TCP and UDP", 3, func(r *CreateRSSReq) { r.RxHashFieldsMask = 1<<4 | 1<<7 }, rxe.ErrInvalid},
		{"SPI", 3, func(r *CreateRSSReq) { r.RxHashFieldsMask = 1 << 8 }, rxe.ErrInvalid},
		{"64 bits", 3, func(r *CreateRSSReq) { r.RxHashFieldsMask = 1 << 40 }, rxe.ErrInvalid},
		{"inner headers", 3, func(r *CreateRSSReq) { r.RxHashFieldsMask = hashInner | 1 }, unix.EOPNOTSUPP},
		{"another function", 3, func(r *CreateRSSReq) { r.RxHashFunction = 2 }, unix.EOPNOTSUPP},
		{"a short key", 3, func(r *CreateRSSReq) { r.RxKeyLen = 39 }, rxe.ErrInvalid},
		{"tunnels", 3, func(r *CreateRSSReq) { r.Flags = 1 << 2 }, unix.EOPNOTSUPP},
		{"comp_mask", 3, func(r *CreateRSSReq) { r.CompMask = 1 }, unix.EOPNOTSUPP},
	} {
		req := CreateRSSReq{RxHashFieldsMask: uint64(ether.HashSrcIPv4 | ether.HashDstTCP), RxHashFunction: hashToeplitz,
			RxKeyLen: ether.HashKeySize, RxHashKey: [128]uint8{1, 2, 39: 3}}
		c.change(&req)
		rss, err := p.ctx.NewRSS(ask(p, req), c.log)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil && (rss.Key != [ether.HashKeySize]byte{1, 2, 39: 3} || uint64(rss.Fields) != req.RxHashFieldsMask ||
			rss.SelfLoopback != (c.what == "loopback")) {
			t.Errorf("%s: %+v", c.what, rss)
		}
	}
	if _, err := p.ctx.NewRSS(ask(p, uint64(0)), 0); !errors.Is(err, rxe.ErrInvalid) {
		t.Errorf("a short request: %v", err)
	}
	for log, want := range map[uint32]error{logMostTable: nil, logMostTable + 1: rxe.ErrInvalid} {
		if err := p.ctx.NewTable(ask(p, uint64(0)), log); !errors.Is(err, want) {
			t.Errorf("a table of 1<<%d: %v", log, err)
		}
	}
	if err := p.ctx.NewTable(ask(p, uint64(1)), 0); err != unix.EOPNOTSUPP {
		t.Errorf("a private request for a table: %v", err)
	}
}

// TestNewFlow: what a counters object counts is in the program's memory.
func TestNewFlow(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	read := func(addr uint64, b []byte) error { return p.mem.ReadV([]rxe.Span{{VA: addr, Buf: b}}) }
	desc := []FlowCountersDesc{{Description: 0, Index: 3}, {Description: 1, Index: 0}}
	for i := range desc {
		copy(p.bytes(dataAt+uint64(8*i), 8), uapi.BytesOf(&desc[i]))
	}
	type request struct {
		CreateFlowReq
		FlowCountersData
	}
	ok := request{CreateFlowReq{NCountersData: 1}, FlowCountersData{CountersData: dataAt, NCounters: 2}}
	list, err := p.ctx.NewFlow(ask(p, ok), read)
	if want := []ether.Point{{Index: 3}, {Bytes: true}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v, want %+v", list, err, want)
	}
	for _, c := range []struct {
		what   string
		change func(*request)
		want   error
	}{
		{"two objects", func(r *request) { r.NCountersData = 2 }, rxe.ErrInvalid},
		{"many values", func(r *request) { r.NCounters = mostFlowCounters + 1 }, rxe.ErrInvalid},
		{"no memory", func(r *request) { r.CountersData = 8 }, unix.EFAULT},
		{"an object that nobody described", func(r *request) { r.NCountersData = 0 }, unix.EOPNOTSUPP},
	} {
		req := ok
		c.change(&req)
		if _, err := p.ctx.NewFlow(ask(p, req), read); err == nil || c.want != unix.EFAULT && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	for _, bad := range []FlowCountersDesc{{Description: 2}, {Index: mostFlowCounters}} {
		copy(p.bytes(dataAt, 8), uapi.BytesOf(&bad))
		if _, err := p.ctx.NewFlow(ask(p, ok), read); !errors.Is(err, rxe.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if list, err := p.ctx.NewFlow(&udata{p: p}, read); list != nil || err != nil {
		t.Errorf("an old libmlx5: %v, %v", list, err)
	}
	if _, err := p.ctx.NewFlow(&udata{p: p, req: make([]byte, 4)}, read); err != unix.EOPNOTSUPP {
		t.Errorf("half a request: %v", err)
	}
}

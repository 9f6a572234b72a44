package mlx5

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// A program plays libmlx5 and its application: it has one address space and one open of the device,
// writes work requests as libmlx5 does, and reads completions.
type program struct {
	t   testing.TB
	dev *rxe.Device
	ctx *userContext
	dom *rxe.PD
	mem *simnet.Memory

	space rxe.Memory // mem, or what has more methods
	mr    *rxe.MR
	mw    *rxe.MW
	uar   *uar // for queue pairs; nil: the device gives registers
	// sharesUAR: queue pairs use one page of registers, and not one each
	sharesUAR bool
	process   *process // lends its faults; nil: none does
	end       uint64   // of what is allocated
	frames    framing  // of raw packets
}

const (
	memBase = 0x10000
	memSize = 1 << 20
	dataAt  = memBase + memSize/2 // messages are behind the queues
)

// newProgram makes a program whose libmlx5 asks for registers, as those of the last years do.
func newProgram(t testing.TB, dev *rxe.Device) *program {
	t.Helper()
	p := newProgramOf(t, dev, libDynamicUAR)
	p.uar = must.Get[*uar](t)(p.ctx.newUAR(uarTypeBF))
	return p
}

func newProgramOf(t testing.TB, dev *rxe.Device, libCaps uint64) *program {
	t.Helper()
	c := must.Get[provider.Context](t)(New(profile.ConnectX6, nil).Open(provider.Open{
		Device: dev.Whole(), Budget: quota.New(quota.Cost{}), Offsets: provider.NewOffsets()}))
	t.Cleanup(func() { c.Close(false) })
	p := &program{t: t, dev: dev, ctx: c.(*userContext), end: memBase,
		mem: &simnet.Memory{Base: memBase, Data: make([]byte, memSize)}}
	p.dom = must.Get[*rxe.PD](t)(dev.AllocPD())
	p.mr = must.Get[*rxe.MR](t)(p.dom.RegMR(p.mem, memBase, memSize, memBase, rxedev.Rights))
	p.mw = must.Get[*rxe.MW](t)(p.dom.AllocMW(rxe.MWType2))
	must.OK(t, p.ctx.Begin(ask(p, AllocContextReq{LibCaps: libCaps})))
	return p
}

func (p *program) PD() *rxe.PD { return p.dom }

func (p *program) MRByLKey(lkey uint32) *rxe.MR {
	if lkey == uint32(p.mr.LKey()) {
		return p.mr
	}
	return nil
}

func (p *program) MWByRKey(rkey uint32) *rxe.MW {
	if rkey>>8 == uint32(p.mw.RKey())>>8 {
		return p.mw
	}
	return nil
}

// alloc returns the address of zeroed memory, at the beginning of a cache line.
func (p *program) alloc(n int) uint64 {
	at := p.end
	p.end += uint64(n+cacheLine-1) &^ (cacheLine - 1)
	if p.end > dataAt {
		p.t.Fatal("no memory for queues")
	}
	return at
}

func (p *program) bytes(va uint64, n int) []byte { return p.mem.Data[va-memBase:][:n] }

func (p *program) put32(va uint64, v uint32) { binary.BigEndian.PutUint32(p.bytes(va, 4), v) }

// A udata is the private part of one request.
type udata struct {
	p    *program
	req  []byte
	room int
	resp []byte
}

func (u *udata) Request() []byte { return u.req }
func (u *udata) Room() int       { return u.room }
func (u *udata) Probe(int) error { return nil }
func (u *udata) Respond(b []byte) error {
	u.resp = append([]byte(nil), b[:min(len(b), u.room)]...)
	return nil
}
func (u *udata) Write(uint64, []byte) error { return unix.EFAULT }
func (u *udata) Space() (rxe.Memory, error) {
	if u.p.space != nil {
		return u.p.space, nil
	}
	return u.p.mem, nil
}

func (u *udata) LendFaults(got func(int, error)) {
	if u.p.process == nil {
		got(-1, unix.EPERM)
	} else {
		got(u.p.process.lend())
	}
}
func (u *udata) Mappings() string {
	if u.p.process == nil {
		return ""
	}
	return u.p.process.maps()
}

// ask makes the private part of a request.
func ask[T any](p *program, req T) *udata {
	return &udata{p: p, req: append([]byte(nil), uapi.BytesOf(&req)...), room: 256}
}

// queue is a completion queue as libmlx5 has it.
type queue struct {
	p        *program
	mem      provider.CQ
	cq       *rxe.CQ
	buf, rec uint64
	size     int // of a completion
	entries  uint32
	cons     uint32
	seq      uint32
	events   atomic.Int32
}

func (p *program) newCQ(entries, size int, channel bool) *queue {
	p.t.Helper()
	q := &queue{p: p, size: size, entries: uint32(entries), rec: p.alloc(recordSize)}
	q.buf = q.newBuf(entries)
	req := provider.CQRequest{Entries: uint32(entries - 1)}
	if channel {
		req.Notify = func() { q.events.Add(1) }
	}
	u := ask(p, CreateCQReq{BufAddr: q.buf, DBAddr: q.rec, CQESize: uint32(size)})
	q.mem = must.Get[provider.CQ](p.t)(p.ctx.NewCQ(u, req))
	q.cq = must.Get[*rxe.CQ](p.t)(p.dev.CreateCQ(rxe.CQInit{Entries: q.mem.Entries(), Ring: q.mem.Ring()}))
	must.OK(p.t, q.mem.Created(u, q.cq))
	return q
}

func (q *queue) newBuf(entries int) uint64 {
	at := q.p.alloc(entries * q.size)
	for i := range entries {
		q.p.bytes(at+uint64((i+1)*q.size-1), 1)[0] = 0xf0 // MLX5_CQE_INVALID
	}
	return at
}

// cqe is what a program looks at.
type cqe struct {
	op, syndrome, wqeOp   uint8
	solicited             bool
	user, qpn, bytes, imm uint32
	flags                 uint32
	counter               uint16
	vendor                uint8
}

// poll returns the next completion.
func (q *queue) poll() (c cqe, ok bool) {
	b := q.p.bytes(q.buf+uint64((q.cons&(q.entries-1)+1))*uint64(q.size)-cqeSize, cqeSize)
	if b[63]>>4 == 0xf || b[63]&1 != uint8(q.cons/q.entries&1) {
		return c, false
	}
	be := binary.BigEndian
	q.cons++
	q.p.put32(q.rec, q.cons&0xffffff)
	if b[63]>>4 >= cqeReqErr {
		c.syndrome, c.vendor = b[55], b[54]
	}
	return cqe{op: b[63] >> 4, syndrome: c.syndrome, vendor: c.vendor, solicited: b[63]&2 != 0, wqeOp: b[56], qpn: be.Uint32(b[56:]) & 0xffffff,
		user: be.Uint32(b[32:]), bytes: be.Uint32(b[44:]), imm: be.Uint32(b[36:]), flags: be.Uint32(b[24:]),
		counter: be.Uint16(b[60:])}, true
}

// one returns the next completion, which must be there.
func (q *queue) one() cqe {
	q.p.t.Helper()
	c, ok := q.poll()
	if !ok {
		q.p.t.Fatal("no completion")
	}
	return c
}

func (q *queue) none() {
	q.p.t.Helper()
	if c, ok := q.poll(); ok {
		q.p.t.Fatalf("a completion: %+v", c)
	}
}

// arm asks for an event (mlx5_arm_cq).
func (q *queue) arm(solicited bool) {
	request := q.seq&3<<28 | q.cons&0xffffff
	if solicited {
		request |= 1 << 24
	}
	q.ask(request)
	q.p.ring(q.p.ctx.doorbells.registers[0].arm[0])
}

// ask writes a request for an event. The next completion finds it without a doorbell.
func (q *queue) ask(request uint32) { q.p.put32(q.rec+4, request) }

// ring stores something in a register.
func (p *program) ring(w word) {
	p.ctx.pages.access(func() { atomic.StoreUint64(w.pointer(), 1<<63|5) })
}

// pair is a queue pair as libmlx5 has it.
type pair struct {
	*program
	mem            provider.QP
	qp             *rxe.QP
	send, recv     *queue
	sq, rq, rec    uint64
	blocks, recvs  uint32
	posted, placed uint16
}

const (
	sqBlocks  = 16
	rqEntries = 8
	rqShift   = 6
)

func (p *program) newQP(typ rxe.QPType, user uint32) *pair {
	send, recv := p.newCQ(64, 64, false), p.newCQ(64, 128, false)
	if typ == rxe.QPXRCIni {
		recv = nil
	}
	return p.newQPOn(typ, user, send, recv, nil)
}

func (p *program) newQPOn(typ rxe.QPType, user uint32, send, recv *queue, srq *rxe.SRQ) *pair {
	p.t.Helper()
	q := &pair{program: p, send: send, recv: recv, blocks: sqBlocks, recvs: rqEntries, rec: p.alloc(recordSize)}
	req := CreateQPReq{DBAddr: q.rec, SQWQECount: sqBlocks, UIdx: user}
	if p.uar != nil && !p.sharesUAR {
		p.uar = must.Get[*uar](p.t)(p.ctx.newUAR(uarTypeBF))
	}
	if p.uar != nil {
		req.Flags, req.BFRegIndex = qpFlagUARPage, p.uar.id
	}
	if srq == nil && recv != nil {
		req.RQWQECount, req.RQWQEShift = rqEntries, rqShift
	}
	q.rq = p.alloc(int(req.RQWQECount)<<rqShift + sqBlocks*blockSize)
	q.sq, req.BufAddr = q.rq+uint64(req.RQWQECount)<<rqShift, q.rq
	init := rxe.QPInitAttr{Type: typ, SendCQ: send.cq, SRQ: srq,
		Cap: rxe.QPCap{MaxSendWR: 4, MaxSendSGE: 4, MaxInlineData: 64}}
	wanted := provider.QPRequest{Type: uint64(typ), SendCQ: send.mem, SRQ: srq != nil, Keys: p}
	if recv != nil {
		init.RecvCQ, wanted.RecvCQ = recv.cq, recv.mem
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = 4, 4
	}
	if typ == rxe.QPRaw {
		q.sq = p.alloc(sqBlocks * blockSize) // libmlx5 has a buffer of its own for it
		req.SQBufAddr = q.sq
		init.Frames = &rxe.FrameInit{Port: &p.frames, StripVLAN: p.frames.strip}
	}
	wanted.Cap = init.Cap
	u := ask(p, req)
	q.mem = must.Get[provider.QP](p.t)(p.ctx.NewQP(u, wanted))
	q.mem.Init(&init)
	q.qp = must.Get[*rxe.QP](p.t)(p.dom.CreateQP(init))
	must.OK(p.t, q.mem.Created(u, q.qp))
	p.t.Cleanup(q.mem.Free)
	return q
}

// connect takes the queue pair to RTS.
func (q *pair) connect(peer *pair) {
	q.t.Helper()
	a := rxe.QPAttr{PortNum: 1, QKey: rxedev.QKey, Access: rxedev.Rights,
		PathMTU: 1024, DestQPN: peer.qp.Num(), MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1,
		RetryCnt: 7, RNRRetry: 7, Timeout: 14, AH: rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1}}
	masks := [...]rxe.QPAttrMask{
		rxe.QPAttrState | rxe.QPAttrPKeyIndex | rxe.QPAttrPort,
		rxe.QPAttrState,
		rxe.QPAttrState | rxe.QPAttrSQPSN,
	}
	switch q.qp.Type() {
	case rxe.QPUD:
		masks[0] |= rxe.QPAttrQKey
	case rxe.QPRaw:
		masks = [...]rxe.QPAttrMask{rxe.QPAttrState | rxe.QPAttrPort, rxe.QPAttrState, rxe.QPAttrState}
	case rxe.QPRC, rxe.QPXRCIni, rxe.QPXRCTgt:
		masks[1] |= (rxe.QPAttrMaxDestRdAtomic | rxe.QPAttrMinRNRTimer) &^ halfLacks[q.qp.Type()]
		masks[2] |= (rxe.QPAttrMaxRdAtomic | rxe.QPAttrRetryCnt | rxe.QPAttrRNRRetry | rxe.QPAttrTimeout) &^ halfLacks[q.qp.Type()]
		fallthrough
	default:
		masks[0] |= rxe.QPAttrAccessFlags
		masks[1] |= rxe.QPAttrAV | rxe.QPAttrPathMTU | rxe.QPAttrDestQPN | rxe.QPAttrRQPSN
	}
	for i, m := range masks {
		a.State = rxe.QPState(i + 1)
		must.OK(q.t, q.mem.Modify(ask(q.program, [0]byte{}), &a, m))
	}
}

// halfLacks are the attributes that a half of XRC does not have.
var halfLacks = map[rxe.QPType]rxe.QPAttrMask{
	rxe.QPXRCIni: rxe.QPAttrMaxDestRdAtomic | rxe.QPAttrMinRNRTimer,
	rxe.QPXRCTgt: rxe.QPAttrMaxRdAtomic | rxe.QPAttrRetryCnt | rxe.QPAttrRNRRetry,
}

func (q *pair) to(state rxe.QPState) {
	q.t.Helper()
	must.OK(q.t, q.mem.Modify(ask(q.program, [0]byte{}), &rxe.QPAttr{State: state}, rxe.QPAttrState))
	if state == rxe.QPReset {
		q.posted, q.placed = 0, 0
		q.put32(q.rec, 0)
		q.put32(q.rec+4, 0)
	}
}

// segments of a request.
func seg(words ...any) (b []byte) {
	for _, w := range words {
		b, _ = binary.Append(b, binary.BigEndian, w)
	}
	return b
}

func (p *program) piece(off uint64, n int) []byte {
	return seg(uint32(n), uint32(p.mr.LKey()), dataAt+off)
}

func inlined(b []byte) []byte {
	s := append(seg(uint32(len(b))|1<<31), b...)
	return append(s, make([]byte, -len(s)&15)...)
}

func (p *program) remote(off uint64) []byte {
	return seg(dataAt+off, uint32(p.mr.RKey()), uint32(0))
}

const signaled = flagsUpdate

// put writes a request, and returns its index.
func (q *pair) put(op, flags uint8, imm uint32, segs ...[]byte) (index uint16) {
	index = q.posted
	b := make([]byte, ctrlSize)
	for _, s := range segs {
		b = append(b, s...)
	}
	binary.BigEndian.PutUint32(b, uint32(index)<<8|uint32(op))
	binary.BigEndian.PutUint32(b[4:], uint32(q.qp.Num())<<8|uint32(len(b)+15)/16)
	b[11] = flags
	binary.BigEndian.PutUint32(b[12:], imm)
	for i := 0; i < len(b); i += 16 {
		at := (uint32(index)*blockSize + uint32(i)) % (q.blocks * blockSize)
		copy(q.bytes(q.sq+uint64(at), 16), b[i:])
	}
	q.posted += uint16((len(b) + blockSize - 1) / blockSize)
	return index
}

// doorbell writes the doorbell record, and has the queue served at once, in this thread.
func (q *pair) doorbell() {
	q.put32(q.rec+4, uint32(q.posted))
	must.OK(q.t, q.mem.Doorbell())
}

func (q *pair) post(op, flags uint8, imm uint32, segs ...[]byte) (index uint16) {
	index = q.put(op, flags, imm, segs...)
	q.doorbell()
	return index
}

// receive posts a receive request.
func (q *pair) receive(segs ...[]byte) {
	b := q.bytes(q.rq+uint64(uint32(q.placed)%q.recvs)<<rqShift, 1<<rqShift)
	clear(b)
	n := 0
	for _, s := range segs {
		n += copy(b[n:], s)
	}
	if n < len(b) {
		copy(b[n:], seg(uint32(0), uint32(lastKey), uint64(0)))
	}
	q.placed++
	q.put32(q.rec, uint32(q.placed))
}

// two returns connected queue pairs of one program.
func two(t testing.TB, typ rxe.QPType) (a, b *pair) {
	t.Helper()
	p := newProgram(t, rxedev.New(t))
	a, b = p.newQP(typ, 0x000101), p.newQP(typ, 0xabcdef)
	a.connect(b)
	b.connect(a)
	return a, b
}

package rxe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// A bench is one QP of a device with memory, driven packet by packet: the test
// plays its peer. The test delivers packets through Device.Receive and reads what
// the QP sends from a link that keeps it.

const (
	benchBase   = 0x100000 // of the address space
	benchSize   = 64 << 10
	remoteVA    = benchBase + 0x2000 // region with all rights
	remoteLen   = 0x4000
	localVA     = benchBase + 0x8000 // region for receive buffers
	localLen    = 0x6000
	benchGuard  = 0xa5 // all other memory
	benchPSN    = 100
	benchMTU    = 256
	benchPeerQP = 0x777
	benchQKey   = 0x1234
)

var (
	benchHere   = netip.MustParseAddr("10.0.0.1")
	benchThere3 = netip.MustParseAddr("10.0.0.3")
	benchThere  = netip.MustParseAddr("10.0.0.2")
	errUnmap    = errors.New("not mapped")
)

// sliceMem is an address space of bytes at benchBase. Unmapped, every access
// fails.
type sliceMem struct {
	mu     sync.Mutex
	b      []byte
	unmap  bool
	ended  bool // with its program
	writes int  // calls of WriteV
}

func newSliceMem() *sliceMem {
	m := &sliceMem{b: make([]byte, benchSize)}
	for i := range m.b {
		m.b[i] = benchGuard
	}
	return m
}

func (m *sliceMem) at(va uint64, n int) ([]byte, error) {
	if m.ended {
		return nil, fmt.Errorf("memory: %w", ErrSpaceEnded)
	}
	off := va - benchBase
	if size := uint64(len(m.b)); m.unmap || off > size || uint64(n) > size-off {
		return nil, errUnmap
	}
	return m.b[off : off+uint64(n)], nil
}

func (m *sliceMem) ReadV(spans []Span) error {
	for _, s := range spans {
		b, err := m.at(s.VA, len(s.Buf))
		if err != nil {
			return err
		}
		copy(s.Buf, b)
	}
	return nil
}

func (m *sliceMem) WriteV(spans []Span) error {
	m.writes++
	for _, s := range spans {
		b, err := m.at(s.VA, len(s.Buf))
		if err != nil {
			return err
		}
		copy(b, s.Buf)
	}
	return nil
}

func (m *sliceMem) word(va uint64, f func(uint64) uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.at(va, 8)
	if err != nil {
		return 0, err
	}
	if va%8 != 0 {
		return 0, errUnmap
	}
	old := binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, f(old))
	return old, nil
}

func (m *sliceMem) CompareSwap(va, compare, swap uint64) (uint64, error) {
	return m.word(va, func(v uint64) uint64 {
		if v == compare {
			return swap
		}
		return v
	})
}

func (m *sliceMem) FetchAdd(va, add uint64) (uint64, error) {
	return m.word(va, func(v uint64) uint64 { return v + add })
}

func (m *sliceMem) Store(va, value uint64) error {
	_, err := m.word(va, func(uint64) uint64 { return value })
	return err
}

type bench struct {
	t      testing.TB
	link   *captureLink
	clock  *armRecorder
	dev    *Device
	pd     *PD
	cq     *CQ
	qp     *QP
	mem    *sliceMem
	remote *MR
	local  *MR
	events []EventType
	from   netip.Addr // of what send delivers
	mark   uint8      // its ECN field
}

const benchRights = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic |
	AccessMWBind | AccessFlushGlobal | AccessFlushPersist

// newBench makes a QP in RTR that expects benchPSN and grants every right.
// change, unless nil, edits the attributes first.
func newBench(t testing.TB, typ QPType, change func(*QPAttr)) *bench {
	t.Helper()
	return newBenchCQ(t, typ, 64, change)
}

func newBenchCQ(t testing.TB, typ QPType, cqe int, change func(*QPAttr)) *bench {
	t.Helper()
	b := &bench{t: t, from: benchThere, link: &captureLink{}, clock: &armRecorder{now: 1}, mem: newSliceMem()}
	var err error
	b.dev, err = New(Config{Name: "rxe0", Link: b.link, Clock: b.clock, Seed: [32]byte{9},
		OnEvent: func(e Event) { b.events = append(b.events, e.Type) }})
	b.must(err)
	b.must(b.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(benchHere)}))
	b.must(b.dev.SetPort(PortActive, 4096))
	b.pd, err = b.dev.AllocPD()
	b.must(err)
	b.cq, err = b.dev.CreateCQ(CQInit{Entries: cqe})
	b.must(err)
	b.remote, err = b.pd.RegMR(b.mem, remoteVA, remoteLen, remoteVA, benchRights)
	b.must(err)
	b.local, err = b.pd.RegMR(b.mem, localVA, localLen, localVA, AccessLocalWrite)
	b.must(err)
	b.qp, err = b.pd.CreateQP(QPInitAttr{Type: typ, SendCQ: b.cq, RecvCQ: b.cq,
		Cap: QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4}})
	b.must(err)
	b.toRTR(typ, change)
	b.events = nil
	return b
}

func (b *bench) toRTR(typ QPType, change func(*QPAttr)) {
	b.t.Helper()
	a := QPAttr{PortNum: 1, QKey: benchQKey, Access: benchRights,
		PathMTU: benchMTU, DestQPN: benchPeerQP, RQPSN: benchPSN, MaxDestRdAtomic: 2, MinRNRTimer: 12,
		AH: AHAttr{DGID: wire.GIDFromAddr(benchThere), PortNum: 1}}
	if change != nil {
		change(&a)
	}
	for from := range QPRTR {
		a.State = from + 1
		b.must(b.qp.Modify(&a, RequiredMask(typ, from, a.State)))
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// post posts one receive work request; its buffers follow each other in the
// local region, off bytes into it.
func (b *bench) post(id uint64, off uint64, sizes ...uint32) {
	b.t.Helper()
	var sgl []SGE
	for _, n := range sizes {
		sgl = append(sgl, SGE{Addr: localVA + off, Length: n, LKey: b.local.LKey()})
		off += uint64(n)
	}
	_, err := b.qp.PostRecv([]RecvWR{{ID: id, SGL: sgl}})
	b.must(err)
}

// pkt is one packet that the peer sends.
type pkt struct {
	h    wire.Headers
	data []byte
}

// send delivers packets as one batch, addressed to the QP.
func (b *bench) send(pkts ...pkt) {
	batch := make([]wire.Datagram, len(pkts))
	for i, p := range pkts {
		p.h.PKey, p.h.DestQP = wire.DefaultPKey, b.qp.qpn
		p.h.Pad = uint8(wire.PadLen(len(p.data)))
		raw := append(p.h.Append(nil), p.data...)
		raw = append(raw, make([]byte, p.h.Pad)...)
		batch[i] = wire.Datagram{Data: raw, Src: b.from, Dst: benchHere, TrafficClass: b.mark, HopLimit: 64}
	}
	b.dev.Receive(batch)
}

// take returns the packets sent since the last call.
func (b *bench) take() []wire.Packet {
	b.t.Helper()
	var out []wire.Packet
	for i := range b.link.bursts {
		burst := &b.link.bursts[i]
		for j := range burst.N() {
			raw := burst.Packet(j)
			pkt, err := wire.Parse(raw[:len(raw)-wire.ICRCLen])
			if err != nil {
				b.t.Fatalf("the QP sent a malformed packet: %v", err)
			}
			out = append(out, pkt)
		}
	}
	b.link.bursts = nil
	return out
}

// check returns what is wrong with a packet, "" if nothing is.
type check func(pkt wire.Packet) string

// want compares the packets sent with one check for each.
func (b *bench) want(checks ...check) {
	b.t.Helper()
	got := b.take()
	for i, pkt := range got {
		if i >= len(checks) {
			b.t.Errorf("packet %d: %v PSN %d was not expected", i, pkt.Opcode(), pkt.PSN())
			continue
		}
		if why := checks[i](pkt); why != "" {
			b.t.Errorf("packet %d (%v PSN %d %v): %s", i, pkt.Opcode(), pkt.PSN(), pkt.Syndrome(), why)
		}
	}
	if len(got) < len(checks) {
		b.t.Errorf("%d packets sent, want %d", len(got), len(checks))
	}
}

// polled returns the completions since the last call.
func (b *bench) polled() []WC {
	b.t.Helper()
	wcs := make([]WC, 64)
	n, err := b.cq.Poll(wcs)
	b.must(err)
	return wcs[:n]
}

// wantWC compares the completions' ids and statuses.
func (b *bench) wantWC(want ...WC) []WC {
	b.t.Helper()
	got := b.polled()
	if len(got) != len(want) {
		b.t.Errorf("%d completions %+v, want %d", len(got), got, len(want))
		return nil
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Status != want[i].Status {
			b.t.Errorf("completion %d: id %d status %d, want id %d status %d",
				i, got[i].ID, got[i].Status, want[i].ID, want[i].Status)
		}
	}
	return got
}

func (b *bench) wantState(s QPState) {
	b.t.Helper()
	if got := b.qp.State(); got != s {
		b.t.Errorf("the QP is in %v, want %v", got, s)
	}
}

// wantEvents compares the events, except that the connection came up.
func (b *bench) wantEvents(want ...EventType) {
	b.t.Helper()
	var got []EventType
	for _, e := range b.events {
		if e != EventCommEst {
			got = append(got, e)
		}
	}
	if len(got) != len(want) {
		b.t.Errorf("events %v, want %v", got, want)
		return
	}
	for i := range want {
		if got[i] != want[i] {
			b.t.Errorf("event %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// wantGuard checks that memory outside of both regions was never written.
func (b *bench) wantGuard() {
	b.t.Helper()
	for i, v := range b.mem.b {
		va := uint64(benchBase + i)
		inside := va-remoteVA < remoteLen || va-localVA < localLen
		if !inside && v != benchGuard {
			b.t.Fatalf("memory at 0x%x, outside of every region, was written", va)
		}
	}
}

// bytes returns n bytes of memory at va.
func (b *bench) bytes(va uint64, n int) []byte {
	b.t.Helper()
	got, err := b.mem.at(va, n)
	b.must(err)
	return got
}

// pattern is n bytes that differ from their neighbours.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

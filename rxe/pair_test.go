package rxe

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// byteMemory is a flat address space from 0.
type byteMemory struct{ b []byte }

var errUnmapped = errors.New("unmapped")

func (m *byteMemory) span(s Span) ([]byte, error) {
	if s.VA+uint64(len(s.Buf)) > uint64(len(m.b)) {
		return nil, errUnmapped
	}
	return m.b[s.VA : s.VA+uint64(len(s.Buf))], nil
}

func (m *byteMemory) ReadV(spans []Span) error {
	for _, s := range spans {
		b, err := m.span(s)
		if err != nil {
			return err
		}
		copy(s.Buf, b)
	}
	return nil
}

func (m *byteMemory) WriteV(spans []Span) error {
	for _, s := range spans {
		b, err := m.span(s)
		if err != nil {
			return err
		}
		copy(b, s.Buf)
	}
	return nil
}

func (m *byteMemory) word(va uint64, f func(uint64) uint64) (uint64, error) {
	b, err := m.span(Span{VA: va, Buf: make([]byte, 8)})
	if err != nil {
		return 0, err
	}
	old := hostWord(b)
	putHostWord(b, f(old))
	return old, nil
}

func putHostWord(b []byte, v uint64) {
	for i := range 8 {
		b[i] = byte(v >> (8 * i))
	}
}

func (m *byteMemory) CompareSwap(va, compare, swap uint64) (uint64, error) {
	return m.word(va, func(v uint64) uint64 {
		if v == compare {
			return swap
		}
		return v
	})
}
func (m *byteMemory) FetchAdd(va, add uint64) (uint64, error) {
	return m.word(va, func(v uint64) uint64 { return v + add })
}
func (m *byteMemory) Store(va, value uint64) error {
	_, err := m.word(va, func(uint64) uint64 { return value })
	return err
}

// pipe joins two devices without loss. Packets wait until pump.
type pipe struct {
	to    *Device
	buf   []byte
	queue []wire.Datagram
	ends  []int
}

func (l *pipe) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		for at := 0; at < len(b.Buf); at += b.Seg {
			p := b.Buf[at:min(at+b.Seg, len(b.Buf))]
			l.buf = append(l.buf, p[:len(p)-wire.ICRCLen]...)
			l.ends = append(l.ends, len(l.buf))
			l.queue = append(l.queue, wire.Datagram{Src: b.Route.Src, Dst: b.Route.Dst, HopLimit: b.Route.HopLimit})
		}
	}
}
func (l *pipe) Join(wire.GID) error  { return nil }
func (l *pipe) Leave(wire.GID) error { return nil }

// deliver passes on all that was sent and reports whether there was anything.
func (l *pipe) deliver(spare *pipe) bool {
	if len(l.queue) == 0 {
		return false
	}
	l.buf, spare.buf = spare.buf[:0], l.buf
	l.ends, spare.ends = spare.ends[:0], l.ends
	l.queue, spare.queue = spare.queue[:0], l.queue
	at := 0
	for i := range spare.queue {
		spare.queue[i].Data = spare.buf[at:spare.ends[i]]
		at = spare.ends[i]
	}
	l.to.Receive(spare.queue)
	return true
}

// pairEnd is one device with what a test needs on it.
type pairEnd struct {
	dev  *Device
	pd   *PD
	cq   *CQ
	mem  *byteMemory
	mr   *MR
	qps  []*QP
	gid  wire.GID
	link *pipe
}

type pair struct {
	a, b  *pairEnd
	clock *armRecorder
	spare pipe
}

const allRemote = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

func newPairEnd(t testing.TB, clock Clock, addr string, memory int) *pairEnd {
	t.Helper()
	e := &pairEnd{link: &pipe{}, mem: &byteMemory{make([]byte, memory)}}
	var err error
	e.dev, err = New(Config{Name: "rxe0", Link: e.link, Clock: clock, Seed: [32]byte{1}})
	must.OK(t, err)
	e.gid = wire.GIDFromAddr(netip.MustParseAddr(addr))
	must.OK(t, e.dev.SetGIDs([]wire.GID{e.gid}))
	must.OK(t, e.dev.SetPort(PortActive, 4096))
	e.pd, err = e.dev.AllocPD()
	must.OK(t, err)
	e.cq, err = e.dev.CreateCQ(CQInit{Entries: 4096})
	must.OK(t, err)
	e.mr, err = e.pd.RegMR(e.mem, 0, uint64(memory), 0, allRemote)
	must.OK(t, err)
	return e
}

// newPair connects n RC QPs of two devices.
func newPair(t testing.TB, n, memory int, mtu MTU) *pair {
	t.Helper()
	p := &pair{clock: &armRecorder{now: 1}}
	p.a = newPairEnd(t, p.clock, "10.0.0.1", memory)
	p.b = newPairEnd(t, p.clock, "10.0.0.2", memory)
	p.a.link.to, p.b.link.to = p.b.dev, p.a.dev
	for range n {
		for _, e := range []*pairEnd{p.a, p.b} {
			q, err := e.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq,
				Cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2}})
			must.OK(t, err)
			e.qps = append(e.qps, q)
		}
	}
	for i := range n {
		connect(t, p.a.qps[i], p.b.qps[i], p.b.gid, mtu)
		connect(t, p.b.qps[i], p.a.qps[i], p.a.gid, mtu)
	}
	return p
}

func connect(t testing.TB, q, peer *QP, gid wire.GID, mtu MTU) {
	t.Helper()
	connectAs(t, QPRC, q, peer, gid, mtu)
}

func connectAs(t testing.TB, typ QPType, q, peer *QP, gid wire.GID, mtu MTU) {
	t.Helper()
	a := QPAttr{PortNum: 1, Access: allRemote, PathMTU: mtu, DestQPN: peer.Num(), RQPSN: 0xfffff0,
		MaxDestRdAtomic: 16, MinRNRTimer: 12, AH: AHAttr{DGID: gid, PortNum: 1},
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, SQPSN: 0xfffff0, MaxRdAtomic: 16}
	for from := range QPRTS {
		a.State = from + 1
		must.OK(t, q.Modify(&a, RequiredMask(typ, from, a.State)))
	}
}

// pump runs both links until nothing moves.
func (p *pair) pump() {
	for p.a.link.deliver(&p.spare) || p.b.link.deliver(&p.spare) {
	}
}

func (e *pairEnd) take(t testing.TB, want int) []WC {
	t.Helper()
	wcs := make([]WC, want+1)
	n, err := e.cq.Poll(wcs)
	must.OK(t, err)
	if n != want {
		t.Fatalf("%d completions, want %d: %+v", n, want, wcs[:n])
	}
	for _, wc := range wcs[:n] {
		if wc.Status != WCSuccess {
			t.Fatalf("completion %+v", wc)
		}
	}
	return wcs[:n]
}

// Every one-sided operation and SEND across the PSN wrap, at each path MTU.
func TestPairMovesData(t *testing.T) {
	const half = 2 << 20
	atA, atB := make([]byte, half), make([]byte, half)
	for i := range half {
		atA[i], atB[i] = byte(i*7), byte(i*13)
	}
	for _, mtu := range []MTU{256, 512, 1024, 2048, 4096} {
		for _, size := range []uint32{0, 1, 255, 4096, 4097, 70_001, 1 << 20} {
			t.Run(fmt.Sprintf("mtu=%d/size=%d", mtu, size), func(t *testing.T) {
				p := newPair(t, 1, 2*half, mtu)
				copy(p.a.mem.b, atA)
				copy(p.b.mem.b, atB)
				q := p.a.qps[0]
				sge := func(at uint64) []SGE { return []SGE{{Addr: at, Length: size, LKey: p.a.mr.LKey()}} }
				_, err := p.b.qps[0].PostRecv([]RecvWR{{ID: 9,
					SGL: []SGE{{Addr: half + 1, Length: 1 << 20, LKey: p.b.mr.LKey()}}}})
				must.OK(t, err)
				_, err = q.PostSend([]SendWR{{ID: 1, Op: WRSend, Flags: SendSignaled, SGL: sge(3)}})
				must.OK(t, err)
				p.pump()
				p.a.take(t, 1)
				if got := p.b.take(t, 1)[0]; got.ByteLen != size || got.ID != 9 {
					t.Fatalf("receive completion %+v", got)
				}
				equal(t, "SEND", p.b.mem.b[half+1:][:size], p.a.mem.b[3:][:size])

				_, err = q.PostSend([]SendWR{
					{ID: 2, Op: WRWrite, Flags: SendSignaled, SGL: sge(5), RemoteAddr: half + 7, RKey: p.b.mr.RKey()},
					{ID: 3, Op: WRRead, Flags: SendSignaled, SGL: sge(half), RemoteAddr: 11, RKey: p.b.mr.RKey()},
				})
				must.OK(t, err)
				p.pump()
				p.a.take(t, 2)
				equal(t, "WRITE", p.b.mem.b[half+7:][:size], p.a.mem.b[5:][:size])
				equal(t, "READ", p.a.mem.b[half:][:size], p.b.mem.b[11:][:size])
			})
		}
	}
}

func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return // at once: the loop takes long under the race detector
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
		}
	}
}

// A steady state allocates nothing, whatever the operation.
func TestPairAllocatesNothing(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	wcs := make([]WC, 8)
	for _, op := range []WROpcode{WRSend, WRWrite, WRRead, WRFetchAdd} {
		wr := []SendWR{{Op: op, Flags: SendSignaled, RemoteAddr: 8, RKey: p.b.mr.RKey(),
			SGL: []SGE{{Addr: 4096, Length: 100_000, LKey: p.a.mr.LKey()}}}}
		if op == WRFetchAdd {
			wr[0].SGL[0].Length = 8
		}
		recv := []RecvWR{{SGL: []SGE{{Addr: 200_000, Length: 100_000, LKey: p.b.mr.LKey()}}}}
		once := func() {
			if op == WRSend {
				if _, err := p.b.qps[0].PostRecv(recv); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.a.qps[0].PostSend(wr); err != nil {
				t.Fatal(err)
			}
			p.pump()
			if n, err := p.a.cq.Poll(wcs); n != 1 || err != nil || wcs[0].Status != WCSuccess {
				t.Fatalf("%v: %d completions, %v, %+v", op, n, err, wcs[0])
			}
			if _, err := p.b.cq.Poll(wcs); err != nil {
				t.Fatal(err)
			}
		}
		if op == WRFetchAdd {
			continue // byteMemory's word allocates; the engine's path is READ's
		}
		for range 2 * 64 { // every slot of the queues gets its storage
			once()
		}
		// Under the race detector sync.Pool drops what it is given at random.
		if n := testing.AllocsPerRun(200, once); n >= 1 && !race.Enabled {
			t.Errorf("%v: %v allocations per work request", op, n)
		}
	}
}

// BenchmarkEngine measures the engine alone, with both ends in one thread: the cost
// of a message without sockets, and the cost of many connected QPs.
func BenchmarkEngine(b *testing.B) {
	for _, bc := range []struct {
		qps, size int
	}{{1, 8}, {1000, 8}, {1, 65536}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("WRITE/qps=%d/size=%d", bc.qps, bc.size), func(b *testing.B) {
			p := newPair(b, bc.qps, 2<<20, 4096)
			wr := []SendWR{{Op: WRWrite, Flags: SendSignaled, RemoteAddr: 0, RKey: p.b.mr.RKey(),
				SGL: []SGE{{Addr: 0, Length: uint32(bc.size), LKey: p.a.mr.LKey()}}}}
			wcs := make([]WC, 16)
			b.SetBytes(int64(bc.size))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := p.a.qps[i%bc.qps].PostSend(wr); err != nil {
					b.Fatal(err)
				}
				i++
				p.pump()
				if n, _ := p.a.cq.Poll(wcs); n != 1 || wcs[0].Status != WCSuccess {
					b.Fatalf("%d completions, %+v", n, wcs[0])
				}
			}
		})
	}
}

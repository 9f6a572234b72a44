package sim

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// With costly memory the engine reads the payloads of several messages with one call. It may not
// send anything else because of that, nor at another time. So a run with costly memory is compared
// with the same run with cheap memory.

// longRuns returns how many runs such a test makes. One of TestCostlyMemory takes as long as ten of
// TestSeeds.
func longRuns(t testing.TB) uint64 { return uint64(max(seedCount(t)/100, 1)) }

// TestCostlyMemory compares runs of TestSeeds with long messages. Their completion queues are not
// shared by SENDs and receives: a receive completes behind the others of its batch, and so possibly
// behind a SEND.
func TestCostlyMemory(t *testing.T) {
	first := seedFirst(t)
	for seed := first; seed < first+longRuns(t); seed++ {
		p := drawParams(seed, longMessages)
		p.oneCQ, p.chaos = false, false
		compareRuns(t, p, [2]string{"cheap memory", "costly memory"}, func(p *params, second bool) { p.costlyMemory = second })
	}
}

// TestCostlyMistakes compares runs in which some payloads cannot be read: of a key that is wrong,
// or of memory that is missing. Queue pairs pause, regions go away, and peers refuse what they get.
func TestCostlyMistakes(t *testing.T) {
	n := 10 * longRuns(t)
	first := seedFirst(t)
	failures := map[rxe.Cause]int{}
	for seed := first; seed < first+n; seed++ {
		cheap := newLongMistakes(seed, false).run(t, nil)
		costly := newLongMistakes(seed, true).run(t, failures)
		if cheap != costly {
			t.Fatalf("seed %d: %s", seed, diff(cheap, costly, "cheap", "costly"))
		}
	}
	t.Logf("failures by cause: %v", failures)
	for _, c := range []rxe.Cause{rxe.CauseKey, rxe.CauseMemory, rxe.CauseRemoteKey, rxe.CauseNAK} {
		if failures[c] == 0 && n >= 200 {
			t.Errorf("no run had a failure with cause %v", c)
		}
	}
}

// longMistakes is one such run: two queue pairs of two devices, or of one. Its decisions depend on
// the seed only.
//
// Only the first queue pair posts requests, and no READs. If a request fails, its queue pair
// flushes receives and READs of the same batch whose payloads wait for others. With cheap memory
// these have completed.
type longMistakes struct {
	rng  *rand.Rand
	net  *simnet.Network
	ends [2]*longEnd
	odds int // one in so many is wrong
	log  strings.Builder
	seen map[rxe.Cause]int
}

// longEnd is a queue pair with memory of its own. The first half of it has payloads, and the other
// takes messages.
type longEnd struct {
	run            *longMistakes
	i              int
	dev            *rxe.Device
	pd             *rxe.PD
	mem            *simnet.Memory
	mrs            []*rxe.MR // the last is of memory that is missing
	sendCQ, recvCQ *rxe.CQ
	q              *rxe.QP
}

const (
	longHalf = 512 << 10
	longGap  = 128 << 10 // of the missing memory
)

func newLongMistakes(seed uint64, costly bool) *longMistakes {
	m := &longMistakes{rng: rand.New(rand.NewPCG(seed, 78))}
	faults := drawFaults(m.rng)
	faults.Seed, faults.MaxBatch = seed, max(faults.MaxBatch, 4)
	if m.rng.IntN(2) == 0 {
		faults.Loss, faults.Corrupt, faults.Reorder = 0, 0, 0
	}
	m.net = simnet.New(faults)
	m.odds = pick(m.rng, 10, 30, 100)
	devices, addrs := 1+m.rng.IntN(2), [2]netip.Addr{nearAddr, farAddr}
	for i := range m.ends {
		e := &longEnd{run: m, i: i}
		if m.ends[i] = e; i < devices {
			e.dev = m.newDevice(addrs[i], costly && i == 0)
		} else {
			e.dev = m.ends[0].dev
		}
		e.populate()
	}
	mtu, psn := pick[rxe.MTU](m.rng, 1024, 4096), wire.PSN(0).Sub(m.rng.Uint32N(256))
	for i, e := range m.ends {
		e.connect(m.ends[1-i].q.Num(), addrs[(1-i)%devices], mtu, psn)
	}
	return m
}

func (m *longMistakes) newDevice(addr netip.Addr, costly bool) *rxe.Device {
	port := m.net.NewPort(addr)
	dev, err := rxe.New(rxe.Config{Name: addr.String(), GUID: 1, Link: port, Clock: port, Seed: [32]byte{1},
		OnEvent: m.event, CostlyMemory: costly})
	must(err)
	port.Attach(dev)
	must(dev.SetGIDs([]wire.GID{wire.GIDFromAddr(addr)}))
	must(dev.SetPort(rxe.PortActive, 4096))
	return dev
}

func (m *longMistakes) note(format string, args ...any) {
	fmt.Fprintf(&m.log, "%v: "+format+"\n", append([]any{m.net.Now()}, args...)...)
}

func (m *longMistakes) event(e rxe.Event) { m.note("event %v", e.Type) }

// Failed implements rxe.Reports.
func (m *longMistakes) Failed(q *rxe.QP, f *rxe.Failure) {
	m.note("QP %v: %+v", q.Num(), *f)
	if m.seen != nil {
		m.seen[f.Cause]++
	}
}

// wrong draws whether something is.
func (m *longMistakes) wrong() bool { return m.rng.IntN(m.odds) == 0 }

// populate makes memory and its regions, of two address spaces. The engine may not mix these in one
// call.
func (e *longEnd) populate() {
	var err error
	e.pd, err = e.dev.AllocPD()
	must(err)
	e.mem = &simnet.Memory{Base: memBase, Data: append([]byte(nil), template[:2*longHalf]...)}
	other := &simnet.Memory{Base: memBase, Data: e.mem.Data}
	for _, r := range []struct {
		mem      rxe.Memory
		from, to int
	}{{e.mem, 0, 2 * longHalf}, {e.mem, 0, 2 * longHalf}, {other, 0, 2 * longHalf}, {e.mem, 2*longHalf - longGap, 2*longHalf + longGap}} {
		mr, err := e.pd.RegMR(r.mem, uint64(memBase+r.from), uint64(r.to-r.from), uint64(memBase+r.from),
			rxe.AccessLocalWrite|rxe.AccessRemoteRead|rxe.AccessRemoteWrite)
		must(err)
		e.mrs = append(e.mrs, mr)
	}
	for _, cq := range []**rxe.CQ{&e.sendCQ, &e.recvCQ} {
		*cq, err = e.dev.CreateCQ(rxe.CQInit{Entries: 256})
		must(err)
	}
	e.q, err = e.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, Reports: e.run, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 32, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4}})
	must(err)
}

func (e *longEnd) connect(peer wire.QPN, addr netip.Addr, mtu rxe.MTU, psn wire.PSN) {
	rng := e.run.rng
	a := rxe.QPAttr{PortNum: 1, PathMTU: mtu, DestQPN: peer, SQPSN: psn, RQPSN: psn, Access: rxe.AccessRemoteRead | rxe.AccessRemoteWrite,
		AH: rxe.AHAttr{DGID: wire.GIDFromAddr(addr), PortNum: 1}, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
		MinRNRTimer: uint8(1 + rng.IntN(5)), Timeout: uint8(10 + rng.IntN(3)), RetryCnt: 7, RNRRetry: uint8(3 + rng.IntN(4))}
	for from := range rxe.QPRTS {
		a.State = from + 1
		must(e.q.Modify(&a, rxe.RequiredMask(rxe.QPRC, from, a.State)))
	}
}

// place draws n bytes of one half of the memory, and the key of a region. Either may be wrong. Only
// payloads may be in the missing memory: which packet reveals that memory of a receiver is missing
// depends on how many are written together.
func (e *longEnd) place(half, n int) (va uint64, key uint32) {
	rng := e.run.rng
	va = uint64(memBase + half*longHalf + rng.IntN(longHalf-n))
	mr := e.mrs[pick(rng, 0, 0, 0, 1, 2)]
	if !e.run.wrong() {
		return va, uint32(mr.LKey())
	}
	if half == 0 && rng.IntN(2) == 0 {
		return uint64(memBase + 2*longHalf - rng.IntN(n+1)), uint32(e.mrs[3].LKey())
	}
	return va, uint32(mr.LKey()) + 1
}

// sgl draws n bytes in up to three pieces.
func (e *longEnd) sgl(half, n int) (s []rxe.SGE) {
	for k := 1 + e.run.rng.IntN(3); k > 0; k-- {
		part := n
		if k > 1 {
			part = e.run.rng.IntN(n + 1)
		}
		va, key := e.place(half, part)
		s = append(s, rxe.SGE{Addr: va, Length: uint32(part), LKey: wire.LKey(key)})
		n -= part
	}
	return s
}

func (m *longMistakes) size() int {
	if m.rng.IntN(8) > 0 {
		return 16<<10 + 1 + m.rng.IntN(48<<10)
	}
	return pick(m.rng, 0, 1, 4096, 16<<10, 64<<10, 64<<10+1, 100_000)
}

func (e *longEnd) post() {
	m := e.run
	var wrs []rxe.SendWR
	for range 2 + m.rng.IntN(8) {
		wr := rxe.SendWR{ID: m.rng.Uint64() >> 1, Imm: m.rng.Uint32(), Op: pick(m.rng, rxe.WRWrite, rxe.WRWrite,
			rxe.WRWriteImm, rxe.WRSend, rxe.WRSendImm)}
		if m.rng.IntN(16) == 0 {
			wr.Flags |= rxe.SendFence
		}
		n := m.size()
		wr.SGL = e.sgl(0, n)
		va, key := m.ends[1].place(1, n)
		wr.RemoteAddr, wr.RKey = va, wire.RKey(key)
		wrs = append(wrs, wr)
	}
	n, err := e.q.PostSend(wrs)
	m.note("QP %d: %d of %d posted: %v", e.i, n, len(wrs), err)
}

func (e *longEnd) postRecv() {
	m := e.run
	var wrs []rxe.RecvWR
	for range 4 + m.rng.IntN(8) {
		wrs = append(wrs, rxe.RecvWR{ID: m.rng.Uint64(), SGL: e.sgl(1, 110_000)})
	}
	n, err := e.q.PostRecv(wrs)
	m.note("QP %d: %d of %d receives posted: %v", e.i, n, len(wrs), err)
}

// modify pauses or resumes the queue pair, or has it fail.
func (e *longEnd) modify() {
	m := e.run
	a := rxe.QPAttr{State: rxe.QPSQD}
	switch {
	case e.q.State() == rxe.QPSQD:
		a.State = rxe.QPRTS
	case m.wrong():
		a.State = rxe.QPErr
	}
	m.note("QP %d to %v: %v", e.i, a.State, e.q.Modify(&a, rxe.QPAttrState))
}

// run does a few dozen things and returns all that can be seen of them.
func (m *longMistakes) run(t *testing.T, seen map[rxe.Cause]int) string {
	m.seen = seen
	for range 10 + m.rng.IntN(20) {
		e := m.ends[m.rng.IntN(2)]
		switch m.rng.IntN(10) {
		case 0, 1:
			m.ends[1].postRecv()
		case 2, 3:
			m.net.Drain(m.net.Now() + rxe.Time(m.rng.Int64N(int64(time.Millisecond))))
		case 4:
			e.modify()
		case 5:
			if m.wrong() {
				m.dereg(t, e.mrs[1])
			}
		default:
			m.ends[0].post()
		}
		m.poll()
	}
	m.net.Drain(m.net.Now() + rxe.Time(10*time.Second))
	m.poll()
	for _, e := range m.ends {
		attr, _, err := e.q.Query()
		m.note("QP %d: %+v %+v %v %v", e.i, attr, e.q.Snapshot(), err, e.q.Counters())
		m.note("memory %x, %v %v %v", crc32.ChecksumIEEE(e.mem.Data), e.dev.Counters(), e.dev.PacketCounts(), e.dev.WorkCounts())
	}
	m.note("network %x", m.net.Trace())
	for _, e := range m.ends {
		for _, mr := range e.mrs {
			m.dereg(t, mr)
		}
	}
	for _, e := range m.ends {
		must(e.dev.Close())
	}
	return m.log.String()
}

// dereg fails the test if something keeps the region in use: nothing does between two calls.
func (m *longMistakes) dereg(t *testing.T, mr *rxe.MR) {
	done := make(chan error, 1)
	go func() { done <- mr.Dereg() }()
	select {
	case err := <-done:
		m.note("dereg: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatalf("a region is kept in use\n%s", m.log.String())
	}
}

func (m *longMistakes) poll() {
	var wcs [32]rxe.WC
	for _, e := range m.ends {
		for _, cq := range []*rxe.CQ{e.sendCQ, e.recvCQ} {
			for n := len(wcs); n == len(wcs); {
				var err error
				n, err = cq.Poll(wcs[:])
				must(err)
				for i := range wcs[:n] {
					m.note("QP %d: %+v", e.i, wcs[i])
				}
			}
		}
	}
}

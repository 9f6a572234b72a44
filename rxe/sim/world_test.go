package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/internal/test/seeds"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func failf(format string, args ...any) { seeds.Failf(format, args...) }

var must = seeds.OK

// world is one run: two hosts, their network and what happens in it.
type world struct {
	p     params
	rng   *rand.Rand
	net   *simnet.Network
	hosts [2]*host
	ends  []*endpoint
	byQPN map[connID]*endpoint
	trace *traceChecker
	sum   uint32 // of every completion and its time
	wcs   [16]rxe.WC
	stats runStats
	onTap func(pkt []byte, r *wire.Route) // sees what a tap sees
	rec   *recorder                       // nil: the run is not recorded
	final string                          // the state of everything at the end: see finalState
}

type connID struct {
	host int
	qpn  wire.QPN
}

// runStats is what a run reports.
type runStats struct {
	completed, received, bytes int
	flushed, retryExceeded     int
	tapped                     int
	packets                    uint64
}

func (s *runStats) add(o runStats) {
	s.completed += o.completed
	s.received += o.received
	s.bytes += o.bytes
	s.flushed += o.flushed
	s.retryExceeded += o.retryExceeded
	s.tapped += o.tapped
	s.packets += o.packets
}

// host is one device with one address space, half of it the model of the other.
type host struct {
	w      *world
	index  int
	addr   netip.Addr
	port   *simnet.Port
	dev    *rxe.Device
	pd     *rxe.PD
	mem    *simnet.Memory
	model  []byte     // what mem must hold
	used   int        // of mem, handed out by alloc
	mrs    [2]localMR // of all memory, by two names
	sendCQ *rxe.CQ
	recvCQ *rxe.CQ
	chaos  *rxe.Chaos
	srq    *receiveQueue // nil: every QP has its own
	xrc    *xrcDomain    // nil: no target yet
	// lax: partial messages of failed or unreliable peers may lie in receive
	// buffers.
	lax bool
}

type localMR struct {
	mr   *rxe.MR
	iova uint64
}

const memBase = 0x7f00_0000_1000

// template is the initial memory: every byte guards its neighbors.
var template = func() []byte {
	b := make([]byte, 32<<20)
	fillPattern(b, 0x9e3779b97f4a7c15)
	return b
}()

func fillPattern(b []byte, x uint64) {
	for ; len(b) >= 8; b = b[8:] {
		x = nextPattern(x)
		binary.LittleEndian.PutUint64(b, x)
	}
	x = nextPattern(x)
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

func nextPattern(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// arenas are kept between runs; runs of one process are sequential.
var arenas [4][]byte

func arena(i, size int) []byte {
	if cap(arenas[i]) < size {
		arenas[i] = make([]byte, size)
	}
	b := arenas[i][:size]
	copy(b, template[:size])
	return b
}

func newWorld(p params) *world {
	w := &world{
		p:     p,
		rng:   rand.New(rand.NewPCG(p.seed, 1)),
		net:   simnet.New(p.net),
		byQPN: make(map[connID]*endpoint),
	}
	w.trace = newTraceChecker(w)
	w.net.Observe = w.trace.observe
	addrs := [2]string{"192.0.2.1", "192.0.2.2"}
	if p.v6 {
		addrs = [2]string{"2001:db8::1", "2001:db8::2"}
	}
	for i := range w.hosts {
		w.hosts[i] = w.newHost(i, netip.MustParseAddr(addrs[i]))
	}
	for _, pp := range p.pairs {
		w.newPair(pp)
	}
	return w
}

func (w *world) newHost(i int, addr netip.Addr) *host {
	h := &host{w: w, index: i, addr: addr, port: w.net.NewPort(addr)}
	h.mem = &simnet.Memory{Base: memBase, Data: arena(2*i, w.p.memory)}
	h.model = arena(2*i+1, w.p.memory)
	var seed [32]byte
	seed[0], seed[1] = byte(i), 1
	for j := range 8 {
		seed[8+j] = byte(w.p.seed >> (8 * j))
	}
	var err error
	h.dev, err = rxe.New(rxe.Config{
		Name: fmt.Sprint("sim", i), GUID: uint64(i + 1),
		Link: h.port, Clock: h.port, Seed: seed, OnEvent: h.event, Tap: h.tap(), MaxActiveQPs: w.p.activeQPs,
		CostlyMemory: w.p.costlyMemory,
	})
	must(err)
	h.port.Attach(h.dev)
	must(h.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(addr)}))
	must(h.dev.SetPort(rxe.PortActive, 4096))
	h.pd, err = h.dev.AllocPD()
	must(err)
	if w.p.chaos {
		h.chaos = rxe.NewChaos(w.p.seed<<1 | uint64(i))
	}
	for j := range h.mrs {
		r := &h.mrs[j]
		r.iova = pick(w.rng, memBase, 0, w.rng.Uint64()>>1)
		r.mr, err = h.pd.RegMR(h.addressSpace(), memBase, uint64(len(h.mem.Data)), r.iova, rxe.AccessLocalWrite)
		must(err)
	}
	h.sendCQ, err = h.dev.CreateCQ(rxe.CQInit{Entries: 1024})
	must(err)
	h.recvCQ = h.sendCQ
	if !w.p.oneCQ {
		h.recvCQ, err = h.dev.CreateCQ(rxe.CQInit{Entries: 1024})
		must(err)
	}
	if w.p.srq {
		h.srq = newReceiveQueue(h, w.p.maxRecv(), 4)
		h.srq.srq, err = h.pd.CreateSRQ(rxe.SRQInit{MaxWR: uint32(h.srq.depth), MaxSGE: 4})
		must(err)
		for _, pp := range w.p.pairs {
			h.lax = h.lax || pp.typ != rxe.QPRC
		}
	}
	return h
}

// tap checks what it sees: whole packets with room for their ICRC.
func (h *host) tap() func(*wire.Burst) {
	if !h.w.p.tap {
		return nil
	}
	return func(b *wire.Burst) {
		for i := range b.N() {
			p := b.Packet(i)
			if _, err := wire.Parse(p[:len(p)-wire.ICRCLen]); err != nil {
				failf("host %d: the tap saw a malformed packet: %v", h.index, err)
			}
			h.w.stats.tapped++
			if h.w.onTap != nil {
				h.w.onTap(p, b.Route)
			}
		}
	}
}

// addressSpace is the host's memory, or another one that is the same bytes: the
// engine may not mix them in one call.
func (h *host) addressSpace() rxe.Memory {
	if h.w.rng.IntN(2) == 0 {
		return h.mem
	}
	return &simnet.Memory{Base: h.mem.Base, Data: h.mem.Data}
}

func (h *host) event(e rxe.Event) {
	switch e.Type {
	case rxe.EventCQErr, rxe.EventQPFatal, rxe.EventQPReqErr, rxe.EventQPAccessErr, rxe.EventSRQErr:
		failf("host %d: asynchronous event %d", h.index, e.Type)
	case rxe.EventSQDrained:
		h.w.byQPN[connID{h.index, e.QP.Num()}].drained()
	default:
	}
}

// alloc allocates n bytes of the host's memory, at least a guard byte apart and at
// any alignment except the one asked for. It reports false when there is no room.
func (h *host) alloc(n, align int) (off int, ok bool) {
	off = h.used + 1 + h.w.rng.IntN(16)
	off = (off + align - 1) / align * align
	if off+n+16 > len(h.model) {
		return 0, false
	}
	h.used = off + n
	return off, true
}

// fill writes fresh bytes to the host's memory and its model.
func (h *host) fill(off, n int) []byte {
	fillPattern(h.model[off:off+n], h.w.rng.Uint64()|1)
	copy(h.mem.Data[off:off+n], h.model[off:])
	return h.model[off : off+n : off+n]
}

// concede accepts the contents of a range: nothing says what they must be.
func (h *host) concede(off, n int) { copy(h.model[off:off+n], h.mem.Data[off:]) }

// note adds a completion to the run's checksum.
func (w *world) note(h *host, wc *rxe.WC) {
	s := fmt.Appendf(nil, "%d %d %+v", h.index, w.net.Now(), *wc)
	w.sum = crc32.Update(w.sum, crc32.IEEETable, s)
}

// poll takes every completion, receives first: a program that sees a send complete
// may count on the message having been received.
func (w *world) poll() {
	for _, h := range w.hosts {
		w.pollCQ(h, h.recvCQ)
	}
	for _, h := range w.hosts {
		if h.sendCQ != h.recvCQ {
			w.pollCQ(h, h.sendCQ)
		}
	}
}

func (w *world) pollCQ(h *host, cq *rxe.CQ) {
	for {
		n, err := cq.Poll(w.wcs[:])
		must(err)
		for i := range w.wcs[:n] {
			wc := &w.wcs[i]
			w.note(h, wc)
			e := w.byQPN[connID{h.index, wc.QPN}]
			if e == nil {
				failf("completion for unknown QP: %+v", *wc)
			}
			if wc.ID&recvID != 0 {
				e.recvDone(wc)
			} else {
				e.sendDone(wc)
			}
		}
		if n < len(w.wcs) {
			return
		}
	}
}

// virtualLimit is when a run counts as stalled: far beyond what retries take.
const virtualLimit = rxe.Time(5 * time.Minute)

// run drives the traffic to its end and makes all remaining checks.
func (w *world) run() {
	for _, e := range w.ends {
		e.start()
	}
	finished := w.net.Run(virtualLimit, func() bool {
		w.poll()
		return w.idle()
	})
	if !finished {
		w.stalled()
	}
	w.net.Drain(w.net.Now() + rxe.Time(20*time.Millisecond))
	w.poll()
	if !w.idle() {
		failf("work left after the network had drained")
	}
	w.final = w.finalState()
	w.teardown()
	w.stats.packets = w.net.Stats[simnet.Delivered]
}

func (w *world) idle() bool {
	for _, e := range w.ends {
		if e.todo > 0 && !e.failed || len(e.flight) > 0 {
			return false
		}
	}
	return true
}

func (w *world) stalled() {
	for _, e := range w.ends {
		if len(e.flight) > 0 || e.todo > 0 {
			attr, _, _ := e.q.Query()
			first := "nothing posted"
			if len(e.flight) > 0 {
				first = fmt.Sprintf("%d in flight, oldest %v of %d bytes", len(e.flight), e.flight[0].wr.Op, e.flight[0].size)
			}
			failf("stalled at %v: host %d QP %#x %v state %v, %d to do, %s", time.Duration(w.net.Now()),
				e.h.index, e.q.Num(), e.typ, attr.State, e.todo, first)
		}
	}
}

// checksum identifies the run. Two runs of one seed must have the same.
func (w *world) checksum() uint64 { return uint64(w.net.Trace())<<32 | uint64(w.sum) }

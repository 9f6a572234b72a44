package script

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The half of each memory from memBase on is what the peer may read and write; buffers of the
// host's own work requests lie behind it.
const (
	memBase = 0x10_0000
	qkey    = 0x1234_5678
	maxSGE  = 4
	zeros   = 256
)

// host is a device with one queue pair.
type host struct {
	s    *Script
	name string
	addr netip.Addr
	peer *host

	port    *simnet.Port
	dev     *rxe.Device
	pd      *rxe.PD
	cq      *rxe.CQ
	srq     *rxe.SRQ
	strange *rxe.SRQ // of XRC: in another domain
	q       *rxe.QP
	ah      *rxe.AH // of UD
	mr      *rxe.MR
	mem     *simnet.Memory
	used    int // of the half for its own buffers
	seen    rxe.QPState

	work
}

// parameters are those of a connection, as the command connect gives them.
type parameters struct {
	typ                                       rxe.QPType // XRC: RC, which promises the same
	xrc                                       bool
	mtu                                       rxe.MTU
	psn                                       [2]wire.PSN
	timeout, retry, rnrRetry, rnrTimer, reads uint8
	depth, srq, memory                        int
	access                                    rxe.Access
}

const everyAccess = rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic |
	rxe.AccessFlushGlobal | rxe.AccessFlushPersist

var accessNames = map[string]rxe.Access{
	"all": everyAccess, "none": 0, "read": rxe.AccessRemoteRead, "write": rxe.AccessRemoteWrite,
	"atomic": rxe.AccessRemoteAtomic,
}

func readParameters(a *args) (p parameters, err error) {
	service := a.word("rc", "uc", "ud", "xrc")
	p.typ = map[string]rxe.QPType{"rc": rxe.QPRC, "uc": rxe.QPUC, "ud": rxe.QPUD, "xrc": rxe.QPRC}[service]
	p.xrc = service == "xrc"
	n := make(map[string]uint64)
	for _, o := range []struct {
		name            string
		otherwise, most uint64
	}{
		{"mtu", 256, 4096}, {"psn", 100, wire.PSNMask}, {"psn-b", 500, wire.PSNMask}, {"timeout", 14, 31},
		{"retry", 7, 7}, {"rnr-retry", 7, 7}, {"rnr-timer", 1, 31}, {"reads", 1, 128}, {"depth", 64, 1024},
		{"srq", 0, 1024}, {"memory", 128 << 10, 1 << 28},
	} {
		if n[o.name], err = a.bounded(o.name, o.otherwise, o.most); err != nil {
			return p, err
		}
	}
	var ok bool
	if p.access, ok = accessNames[a.option("access", "all")]; !ok {
		return p, fmt.Errorf("access is all, none, read, write or atomic")
	}
	if p.mtu = rxe.MTU(n["mtu"]); !p.mtu.Valid() {
		return p, fmt.Errorf("there is no MTU of %d", p.mtu)
	}
	p.psn = [2]wire.PSN{wire.PSN(n["psn"]), wire.PSN(n["psn-b"])}
	p.timeout, p.retry, p.rnrRetry = uint8(n["timeout"]), uint8(n["retry"]), uint8(n["rnr-retry"])
	p.rnrTimer, p.reads = uint8(n["rnr-timer"]), uint8(n["reads"])
	p.depth, p.srq, p.memory = int(n["depth"]), int(n["srq"]), int(n["memory"])
	if p.xrc && p.srq == 0 {
		p.srq = p.depth
	}
	return p, nil
}

// open makes the device and its objects.
func (s *Script) open(name string, p *parameters) (h *host, err error) {
	i := len(s.hosts)
	h = &host{s: s, name: name, addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}
	h.port = s.net.NewPort(h.addr)
	h.mem = &simnet.Memory{Base: memBase, Data: make([]byte, p.memory)}
	h.dev, err = rxe.New(rxe.Config{Name: name, GUID: uint64(i + 1), Link: h.port, Clock: h.port,
		Seed: [32]byte{byte(i + 1)}, OnEvent: h.event})
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, err
	}
	keep(h.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(h.addr)}))
	keep(h.dev.SetPort(rxe.PortActive, 4096))
	var e error
	h.pd, e = h.dev.AllocPD()
	keep(e)
	h.mr, e = h.pd.RegMR(h.mem, memBase, uint64(p.memory), memBase, everyAccess|rxe.AccessLocalWrite|rxe.AccessMWBind)
	keep(e)
	h.cq, e = h.dev.CreateCQ(rxe.CQInit{Entries: 4*p.depth + p.srq})
	keep(e)
	if p.typ == rxe.QPRC && !p.xrc {
		h.window.mw, e = h.pd.AllocMW(rxe.MWType2)
		keep(e)
	}
	init := rxe.QPInitAttr{Type: p.typ, SendCQ: h.cq, RecvCQ: h.cq, Cap: rxe.QPCap{
		MaxSendWR: uint32(p.depth), MaxRecvWR: uint32(p.depth), MaxSendSGE: maxSGE, MaxRecvSGE: maxSGE, MaxInlineData: 256}}
	switch {
	case err == nil && p.xrc:
		err = h.openXRC(init, p)
	case p.srq > 0:
		h.srq, e = h.pd.CreateSRQ(rxe.SRQInit{MaxWR: uint32(p.srq), MaxSGE: maxSGE})
		keep(e)
		init.SRQ, init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = h.srq, 0, 0
	}
	if err == nil && h.q == nil {
		h.q, err = h.pd.CreateQP(init)
	}
	// Bytes that differ show what was taken from a wrong place. Atomics of scripts begin with 0.
	for i := zeros; i < p.memory/2; i++ {
		h.mem.Data[i] = byte(i*7 + i>>8)
	}
	h.model = slices.Clone(h.mem.Data[:p.memory/2])
	return h, err
}

// openXRC makes the initiator of host a, or the target of b with its SRQ.
func (h *host) openXRC(init rxe.QPInitAttr, p *parameters) (err error) {
	if len(h.s.hosts) == 0 {
		init.Type = rxe.QPXRCIni
		h.q, err = h.pd.CreateQP(init)
		return err
	}
	xrcd, err := h.dev.Whole().OpenXRCD(rxe.XRCDInit{})
	if err != nil {
		return err
	}
	other, err := h.dev.Whole().OpenXRCD(rxe.XRCDInit{})
	if err != nil {
		return err
	}
	srq := rxe.SRQInit{MaxWR: uint32(p.srq), MaxSGE: maxSGE, XRCD: xrcd, CQ: h.cq}
	if h.srq, err = h.pd.CreateSRQ(srq); err != nil {
		return err
	}
	srq.XRCD = other
	if h.strange, err = h.pd.CreateSRQ(srq); err != nil {
		return err
	}
	h.q, err = h.dev.Whole().CreateTarget(xrcd, rxe.QPInitAttr{})
	return err
}

// connect takes the queue pair from RESET to RTS.
func (h *host) connect(p *parameters, index int) error {
	ah := rxe.AHAttr{DGID: wire.GIDFromAddr(h.peer.addr), PortNum: 1}
	attr := rxe.QPAttr{
		PortNum: 1, QKey: qkey, AH: ah, Access: p.access, PathMTU: p.mtu, DestQPN: h.peer.q.Num(),
		SQPSN: p.psn[index], RQPSN: p.psn[1-index], MaxRdAtomic: p.reads, MaxDestRdAtomic: p.reads,
		MinRNRTimer: p.rnrTimer, Timeout: p.timeout, RetryCnt: p.retry, RNRRetry: p.rnrRetry,
	}
	for from := range rxe.QPRTS {
		attr.State = from + 1
		if err := h.q.Modify(&attr, rxe.RequiredMask(h.q.Type(), from, attr.State)); err != nil {
			return err
		}
	}
	h.seen = rxe.QPRTS
	if p.typ != rxe.QPUD || h.ah != nil {
		return nil
	}
	var err error
	h.ah, err = h.pd.CreateAH(ah)
	return err
}

// alloc returns the offset of n bytes for a buffer of the host's own.
func (h *host) alloc(n int) (off int, err error) {
	off = len(h.model) + h.used
	if n < 0 || n > len(h.mem.Data)-off-8 {
		return 0, fmt.Errorf("no room for %d bytes: give connect more memory", n)
	}
	h.used += (n + 7) &^ 7
	return off, nil
}

// sgl names n bytes at off, in up to maxSGE pieces.
func (h *host) sgl(off, n, pieces int) []rxe.SGE {
	pieces = min(max(pieces, 1), maxSGE)
	list := make([]rxe.SGE, pieces)
	for i := range list {
		k := n / pieces
		if i == pieces-1 {
			k = n - i*k
		}
		list[i] = rxe.SGE{Addr: uint64(memBase + off), Length: uint32(k), LKey: h.mr.LKey()}
		off += k
	}
	return list
}

// event writes an asynchronous event. The engine must not be called here.
func (h *host) event(e rxe.Event) {
	if e.Type == rxe.EventPortActive || e.Type == rxe.EventGIDChange {
		return
	}
	h.s.printf("%s gets %s", h.name, eventName(e.Type))
	switch e.Type {
	case rxe.EventCQErr, rxe.EventQPFatal, rxe.EventQPReqErr, rxe.EventQPAccessErr, rxe.EventSRQErr:
		if h.s.conceded == "" {
			h.s.problem("event", "without a fault %s gets %s", h.name, eventName(e.Type))
		}
	default:
	}
}

// eventName is the name in enum ibv_event_type of an event that a queue can have.
func eventName(t rxe.EventType) string {
	names := map[rxe.EventType]string{
		rxe.EventCQErr: "CQ_ERR", rxe.EventQPFatal: "QP_FATAL", rxe.EventQPReqErr: "QP_REQ_ERR",
		rxe.EventQPAccessErr: "QP_ACCESS_ERR", rxe.EventCommEst: "COMM_EST", rxe.EventSQDrained: "SQ_DRAINED",
		rxe.EventSRQErr: "SRQ_ERR", rxe.EventSRQLimitReached: "SRQ_LIMIT_REACHED",
		rxe.EventQPLastWQEReached: "QP_LAST_WQE_REACHED",
	}
	if name := names[t]; name != "" {
		return "IBV_EVENT_" + name
	}
	return strings.ReplaceAll(strings.ToUpper(t.String()), " ", "_")
}

// counter reads a counter of the queue pair.
func (h *host) counter(name string) uint64 {
	for _, c := range h.q.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	return math.MaxUint64
}

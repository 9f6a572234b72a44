package sim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// stage is one device whose peer is the test itself. The test sees every packet
// that the device sends, and sends whatever it likes.
type stage struct {
	t     *testing.T
	net   *simnet.Network
	near  *simnet.Port // the device's
	far   *simnet.Port // the test's
	route wire.Route   // of what the test sends
	dev   *rxe.Device
	pd    *rxe.PD
	mem   *simnet.Memory
	mr    *rxe.MR // all of mem, with every right
	cq    *rxe.CQ
	q     *rxe.QP
	chaos *rxe.Chaos // of the QPs that connect makes
	heard []heard
	evts  []rxe.EventType
}

// heard is a packet that the device sent.
type heard struct {
	wire.Headers
	data []byte
	at   rxe.Time
}

const (
	farQPN   wire.QPN = 0x123456
	stageMTU          = 256
	stageSQ  wire.PSN = 0xfffffe // the device's first PSN
	stageRQ  wire.PSN = 0xffffff // the test's
	stageMem          = 64 << 10
)

var (
	nearAddr = netip.MustParseAddr("192.0.2.1")
	farAddr  = netip.MustParseAddr("192.0.2.2")
)

// newStage connects a QP to the test; change, if not nil, alters its attributes.
func newStage(t *testing.T, change func(*rxe.QPAttr)) *stage {
	t.Helper()
	s := &stage{t: t, net: simnet.New(simnet.Config{Latency: time.Microsecond, MaxBatch: 8})}
	s.near, s.far = s.net.NewPort(nearAddr), s.net.NewPort(farAddr)
	s.far.Attach(s)
	s.route = wire.Route{Src: farAddr, Dst: nearAddr, SrcPort: 0xc001, HopLimit: 64}
	var err error
	s.dev, err = rxe.New(rxe.Config{Name: "near", GUID: 1, Link: s.near, Clock: s.near, Seed: [32]byte{1},
		OnEvent: func(e rxe.Event) { s.evts = append(s.evts, e.Type) }})
	s.ok(err)
	s.near.Attach(s.dev)
	s.ok(s.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(nearAddr)}))
	s.ok(s.dev.SetPort(rxe.PortActive, 4096))
	s.pd, err = s.dev.AllocPD()
	s.ok(err)
	s.mem = &simnet.Memory{Base: memBase, Data: append([]byte(nil), template[:stageMem]...)}
	s.mr, err = s.pd.RegMR(s.mem, memBase, stageMem, memBase, everyAccess)
	s.ok(err)
	s.cq, err = s.dev.CreateCQ(rxe.CQInit{Entries: 256})
	s.ok(err)
	s.q = s.connect(farQPN, change)
	s.evts = nil
	return s
}

const everyAccess = rxe.AccessLocalWrite | rxe.AccessRemoteRead | rxe.AccessRemoteWrite |
	rxe.AccessRemoteAtomic | rxe.AccessMWBind | rxe.AccessFlushGlobal | rxe.AccessFlushPersist

// connect makes an RC QP in RTS whose peer is dest at the far address.
func (s *stage) connect(dest wire.QPN, change func(*rxe.QPAttr)) *rxe.QP {
	s.t.Helper()
	q, err := s.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: s.cq, RecvCQ: s.cq, SignalAll: true, Chaos: s.chaos,
		Cap: rxe.QPCap{MaxSendWR: 32, MaxRecvWR: 32, MaxSendSGE: 2, MaxRecvSGE: 2}})
	s.ok(err)
	a := rxe.QPAttr{
		PortNum: 1, Access: everyAccess &^ (rxe.AccessLocalWrite | rxe.AccessMWBind), PathMTU: stageMTU,
		AH:      rxe.AHAttr{DGID: wire.GIDFromAddr(farAddr), PortNum: 1},
		DestQPN: dest, SQPSN: stageSQ, RQPSN: stageRQ, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
		MinRNRTimer: 1, Timeout: 10, RetryCnt: 2, RNRRetry: 1,
	}
	if change != nil {
		change(&a)
	}
	connectRC(s.t, q, a)
	return q
}

func connectRC(t *testing.T, q *rxe.QP, a rxe.QPAttr) {
	t.Helper()
	for from := range rxe.QPRTS {
		a.State = from + 1
		if err := q.Modify(&a, rxe.RequiredMask(rxe.QPRC, from, a.State)); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *stage) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Receive implements simnet.Receiver.
func (s *stage) Receive(batch []wire.Datagram) {
	for _, d := range batch {
		p, err := wire.Parse(d.Data)
		if err != nil {
			s.t.Errorf("the device sent what does not parse: %v", err)
			continue
		}
		s.heard = append(s.heard, heard{p.Headers(), append([]byte(nil), p.Payload()...), s.net.Now()})
	}
}

// Expire implements simnet.Receiver.
func (s *stage) Expire() {}

// say sends the device a packet and runs what follows, except for timers.
func (s *stage) say(h wire.Headers, data []byte) {
	s.mumble(h, data)
	s.wait(20 * time.Microsecond)
}

// mumble sends the device a packet.
func (s *stage) mumble(h wire.Headers, data []byte) {
	if h.PKey == 0 {
		h.PKey = wire.DefaultPKey
	}
	if h.DestQP == 0 {
		h.DestQP = s.q.Num()
	}
	h.Pad = uint8(wire.PadLen(len(data)))
	b := append(h.Append(nil), data...)
	b = append(b, make([]byte, int(h.Pad)+wire.ICRCLen)...)
	s.far.Send([]wire.Burst{{Route: &s.route, Buf: b, Seg: len(b)}})
}

func (s *stage) wait(d time.Duration) { s.net.Drain(s.net.Now() + rxe.Time(d)) }

// hear returns what the device has sent since the last call.
func (s *stage) hear() []heard {
	h := s.heard
	s.heard = nil
	return h
}

// expect requires exactly these opcodes.
func (s *stage) expect(ops ...wire.Opcode) []heard {
	s.t.Helper()
	got := s.hear()
	same := len(got) == len(ops)
	for i := range got {
		same = same && got[i].Opcode == ops[i]
	}
	if !same {
		for _, h := range got {
			s.t.Logf("heard %v PSN %#x %v", h.Opcode, h.PSN, h.Syndrome)
		}
		s.t.Fatalf("heard %d packets, want %v", len(got), ops)
	}
	return got
}

// expectAETH hears one plain acknowledgement.
func (s *stage) expectAETH(psn wire.PSN, syndrome wire.Syndrome) heard {
	s.t.Helper()
	h := s.expect(wire.RCAck)[0]
	if h.PSN != psn || h.Syndrome != syndrome {
		s.t.Fatalf("heard %v for PSN %#x, want %v for %#x", h.Syndrome, h.PSN, syndrome, psn)
	}
	return h
}

// done polls exactly these completions, by ID and status.
func (s *stage) done(want ...rxe.WC) []rxe.WC {
	s.t.Helper()
	wcs := make([]rxe.WC, 64)
	n, err := s.cq.Poll(wcs)
	s.ok(err)
	wcs = wcs[:n]
	same := n == len(want)
	for i := 0; same && i < n; i++ {
		same = wcs[i].ID == want[i].ID && wcs[i].Status == want[i].Status
	}
	if !same {
		s.t.Fatalf("completions %+v, want %+v", wcs, want)
	}
	return wcs
}

// sge is n bytes of the stage's memory at off.
func (s *stage) sge(off, n int) []rxe.SGE {
	return []rxe.SGE{{Addr: uint64(memBase + off), Length: uint32(n), LKey: s.mr.LKey()}}
}

func (s *stage) post(wrs ...rxe.SendWR) {
	s.t.Helper()
	_, err := s.q.PostSend(wrs)
	s.ok(err)
	s.wait(20 * time.Microsecond)
}

func (s *stage) postRecv(id uint64, off, n int) {
	s.t.Helper()
	_, err := s.q.PostRecv([]rxe.RecvWR{{ID: id, SGL: s.sge(off, n)}})
	s.ok(err)
}

func (s *stage) state(want rxe.QPState) {
	s.t.Helper()
	if got := s.q.State(); got != want {
		s.t.Fatalf("QP is in %v, want %v", got, want)
	}
}

// ack answers the device.
func (s *stage) ack(psn wire.PSN, syndrome wire.Syndrome) {
	s.say(wire.Headers{Opcode: wire.RCAck, PSN: psn, Syndrome: syndrome}, nil)
}

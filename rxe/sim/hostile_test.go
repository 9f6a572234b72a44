package sim

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The peer is hostile: it is connected, so that its packets reach the QP, and it
// sends whatever it likes. It has the key of one region, of one that it may only
// read, and of one of another protection domain. The device has a second QP,
// connected to an honest friend, which must not notice.

const (
	openOff, openLen     = 0x2000, 0x1000 // the attacker may write here
	readOff, readLen     = 0x4000, 0x1000 // and read here
	otherOff, otherLen   = 0x6000, 0x1000 // key known, protection domain not its
	recvOff, recvLen     = 0x8000, 0x800  // receives and READs of the victim
	friendOff, friendLen = 0xa000, 0x1000
)

type hostile struct {
	*stage
	rng     *rand.Rand
	keys    []wire.RKey
	friend  *friend
	sent    []wire.Headers // for replays
	payload []byte
	expect  wire.PSN // the device's expected PSN, as far as the attacker heard
	asks    wire.PSN // the device's latest request
	resets  int
}

// friend is an honest device, whose QP and the victim's second exchange
// messages throughout.
type friend struct {
	s      *stage
	dev    *rxe.Device
	mem    []byte
	cq     *rxe.CQ // of the friend
	local  *rxe.QP // of the victim's device
	lcq    *rxe.CQ
	wr     [3]rxe.SendWR
	done   int
	posted int
	limit  int
}

var friendAddr = netip.MustParseAddr("192.0.2.3")

func newHostile(t *testing.T, seed uint64) *hostile {
	h := &hostile{stage: newStage(t, nil), rng: rand.New(rand.NewPCG(seed, 2)), expect: stageRQ, asks: stageSQ}
	h.payload = template[0x20000:][:2*stageMTU]
	pd2, err := h.dev.AllocPD()
	h.ok(err)
	for _, r := range []struct {
		pd       *rxe.PD
		off, len uint64
		access   rxe.Access
	}{
		{h.pd, openOff, openLen, everyAccess},
		{h.pd, readOff, readLen, rxe.AccessLocalWrite | rxe.AccessRemoteRead},
		{pd2, otherOff, otherLen, everyAccess},
	} {
		mr, err := r.pd.RegMR(h.mem, memBase+r.off, r.len, memBase+r.off, r.access)
		h.ok(err)
		h.keys = append(h.keys, mr.RKey())
	}
	h.friend = newFriend(h.stage)
	h.refill()
	return h
}

func newFriend(s *stage) *friend {
	f := &friend{s: s}
	port := s.net.NewPort(friendAddr)
	var err error
	f.dev, err = rxe.New(rxe.Config{Name: "friend", GUID: 3, Link: port, Clock: port, Seed: [32]byte{3}})
	s.ok(err)
	port.Attach(f.dev)
	s.ok(f.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(friendAddr)}))
	s.ok(f.dev.SetPort(rxe.PortActive, 4096))
	pd, err := f.dev.AllocPD()
	s.ok(err)
	space := &simnet.Memory{Base: memBase, Data: append([]byte(nil), template[:2*friendLen]...)}
	f.mem = space.Data
	mr, err := pd.RegMR(space, memBase, 2*friendLen, memBase, everyAccess)
	s.ok(err)
	f.cq, err = f.dev.CreateCQ(rxe.CQInit{Entries: 64})
	s.ok(err)
	f.lcq, err = s.dev.CreateCQ(rxe.CQInit{Entries: 64})
	s.ok(err)
	far, err := pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: f.cq, RecvCQ: f.cq})
	s.ok(err)
	f.local, err = s.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: f.lcq, RecvCQ: f.lcq, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
	s.ok(err)
	a := rxe.QPAttr{PortNum: 1, Access: rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic,
		PathMTU: stageMTU, MaxRdAtomic: 2, MaxDestRdAtomic: 2, Timeout: 10, RetryCnt: 7, RNRRetry: 7,
		AH: rxe.AHAttr{DGID: wire.GIDFromAddr(friendAddr), PortNum: 1}, DestQPN: far.Num(), SQPSN: 1, RQPSN: 2}
	connectRC(s.t, f.local, a)
	a.AH.DGID, a.DestQPN, a.SQPSN, a.RQPSN = wire.GIDFromAddr(nearAddr), f.local.Num(), 2, 1
	connectRC(s.t, far, a)

	// Write out, read back into the second half, count.
	f.wr = [3]rxe.SendWR{
		{Op: rxe.WRWrite, SGL: s.sge(friendOff, friendLen/2), RemoteAddr: memBase, RKey: mr.RKey()},
		{Op: rxe.WRRead, SGL: s.sge(friendOff+friendLen/2, friendLen/2), RemoteAddr: memBase, RKey: mr.RKey()},
		{Op: rxe.WRFetchAdd, SGL: s.sge(friendOff, 8), RemoteAddr: memBase + friendLen, RKey: mr.RKey(), CompareAdd: 1},
	}
	return f
}

// work polls and keeps one round in flight until there were enough.
func (f *friend) work() {
	var wcs [8]rxe.WC
	n, err := f.lcq.Poll(wcs[:])
	f.s.ok(err)
	for _, wc := range wcs[:n] {
		if wc.Status != rxe.WCSuccess {
			f.s.t.Fatalf("the friend's QP: %+v", wc)
		}
	}
	f.done += n
	if f.done == f.posted && f.done < f.limit {
		f.posted += len(f.wr)
		if got, err := f.local.PostSend(f.wr[:]); err != nil || got != len(f.wr) {
			f.s.t.Fatal(err)
		}
	}
}

// refill gives the victim something to receive into and to ask for. A queue that is
// already full is fine.
func (h *hostile) refill() {
	for range 4 {
		_, _ = h.q.PostRecv([]rxe.RecvWR{{ID: 1, SGL: h.sge(recvOff, recvLen)}})
	}
	_, _ = h.q.PostSend([]rxe.SendWR{
		{Op: rxe.WRRead, SGL: h.sge(recvOff, recvLen), RemoteAddr: 0x1000, RKey: 7},
		{Op: rxe.WRSend, SGL: h.sge(0, 100)},
		{Op: rxe.WRFetchAdd, SGL: h.sge(recvOff, 8), RemoteAddr: 0x1000, RKey: 7},
		{Op: rxe.WRWrite, SGL: h.sge(0, 600), RemoteAddr: 0x1000, RKey: 7},
	})
}

// revive connects the victim's QP again when it has failed, and empties its CQ.
func (h *hostile) revive() {
	var wcs [64]rxe.WC
	if _, err := h.cq.Poll(wcs[:]); err != nil {
		h.t.Fatal(err)
	}
	if h.q.State() != rxe.QPErr {
		return
	}
	h.resets++
	h.ok(h.q.Destroy())
	h.q = h.connect(farQPN, nil)
	h.expect, h.asks = stageRQ, stageSQ
	h.refill()
}

// learn reads from the answers what the device expects next.
func (h *hostile) learn() {
	for _, p := range h.hear() {
		switch {
		case p.Opcode.Info().Has(wire.OpRequest):
			h.asks = p.PSN
		case p.Syndrome.IsACK():
			h.expect = p.PSN.Next()
		default:
			h.expect = p.PSN
		}
	}
}

func (h *hostile) attack() {
	r := h.rng
	if len(h.sent) > 0 && r.IntN(5) == 0 {
		replay := h.sent[r.IntN(len(h.sent))]
		replay.DestQP = h.q.Num()
		h.mumble(replay, h.payload[:r.IntN(stageMTU)])
		return
	}
	p := wire.Headers{
		Opcode:  wire.Opcode(r.IntN(0x1e)),
		AckReq:  r.IntN(2) == 0,
		PSN:     h.expect.Add(pick[uint32](r, 0, 0, 0, 0, 1, 2, 1000, 1<<23, wire.PSNMask, wire.PSNMask-3)),
		RKey:    pick(r, h.keys[0], h.keys[0], h.keys[1], h.keys[2], h.keys[0]^1, h.keys[0]^0x100, wire.RKey(r.Uint32()), 0),
		DMALen:  pick[uint32](r, 0, 8, 100, 256, 600, openLen, 1<<31, 1<<31+1, 1<<32-1),
		Imm:     r.Uint32(),
		InvRKey: h.keys[r.IntN(len(h.keys))],
		SwapAdd: r.Uint64(), Compare: r.Uint64(), AtomicOrig: r.Uint64(),
		FlushPlacement: uint8(r.IntN(16)), FlushLevel: uint8(r.IntN(4)),
		Solicited: r.IntN(2) == 0,
	}
	p.VA = uint64(memBase + pick(r, openOff, openOff, openOff+openLen-8, openOff-8, readOff, otherOff, recvOff, 0, friendOff, r.IntN(stageMem)))
	if r.IntN(20) == 0 {
		p.VA = pick(r, r.Uint64(), 1<<64-8, 0)
	}
	n := pick(r, 0, 0, 8, 100, stageMTU, stageMTU, stageMTU+4, 2*stageMTU, r.IntN(stageMTU))
	if p.Opcode.Info().Has(wire.OpStart) && r.IntN(2) == 0 {
		p.DMALen = uint32(n)
	}
	if p.Opcode.Info().Has(wire.OpResponse) {
		p.PSN = h.asks.Add(pick[uint32](r, 0, 0, 1, 2, 3, 100, wire.PSNMask, wire.PSNMask-1))
		p.Syndrome = pick(r, wire.SyndromeACK, wire.SyndromeRNR(1), wire.SyndromeNAK(0), wire.Syndrome(r.Uint32()))
	}
	switch r.IntN(20) {
	case 0:
		p.Opcode = wire.Opcode(r.Uint32()) // another service
	case 1:
		p.DestQP = h.friend.local.Num()
	case 2:
		p.PKey = wire.PKey(1 + r.IntN(0xffff))
	}
	if !p.Opcode.Info().Valid() {
		return
	}
	if len(h.sent) < 64 {
		h.sent = append(h.sent, p)
	} else {
		h.sent[r.IntN(64)] = p
	}
	h.mumble(p, h.payload[:n])
}

// intact compares all memory except what the attacker, and the device itself, may
// write.
func (h *hostile) intact() {
	h.t.Helper()
	want := append([]byte(nil), template[:stageMem]...)
	for _, x := range []extent{{openOff, openLen}, {recvOff, recvLen}, {friendOff + friendLen/2, friendLen / 2}, {friendOff, 8}} {
		copy(want[x.off:x.off+x.n], h.mem.Data[x.off:])
	}
	if !bytes.Equal(want, h.mem.Data) {
		h.t.Fatalf("memory changed at %#x", firstDiff(want, h.mem.Data))
	}
}

func TestHostile(t *testing.T) {
	seeds := 300
	if race.Enabled {
		seeds = 40
	}
	resets := 0
	for seed := range seeds {
		h := newHostile(t, uint64(seed))
		h.friend.limit = 3 * 50
		for range 400 {
			h.attack()
			h.wait(time.Duration(h.rng.IntN(4)) * time.Microsecond)
			h.learn()
			h.revive()
			h.friend.work()
		}
		resets += h.resets
		// Once the attacker is silent, the friend's work completes.
		for range 1000 {
			h.wait(10 * time.Microsecond)
			h.friend.work()
		}
		if h.friend.done < h.friend.limit {
			t.Fatalf("seed %d: the friend's QP made %d of %d", seed, h.friend.done, h.friend.limit)
		}
		h.intact()
		if !bytes.Equal(h.mem.Data[friendOff+friendLen/2+8:friendOff+friendLen], template[friendOff+8:friendOff+friendLen/2]) {
			t.Fatalf("seed %d: the friend's data is wrong", seed)
		}
		if got := h.friend.mem[friendLen] - template[friendLen]; got != byte(h.friend.limit/3) {
			t.Fatalf("seed %d: the friend counted %d", seed, got)
		}
		h.ok(h.dev.Close())
		if c := h.dev.Objects(); c != (rxe.ObjectCounts{}) {
			t.Fatalf("seed %d: objects left: %+v", seed, c)
		}
	}
	t.Logf("%d seeds, the victim's QP failed %d times", seeds, resets)
	if resets < seeds {
		t.Error("the attacks hardly reach the QP")
	}
}

// Lies of one packet must not end or complete anything.
func TestHostileLies(t *testing.T) {
	for name, lie := range map[string]func(s *stage) wire.Headers{
		"ACK for the future": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCAck, PSN: stageSQ.Add(5), Syndrome: wire.SyndromeACK}
		},
		"ACK of long ago": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCAck, PSN: stageSQ.Sub(1), Syndrome: wire.SyndromeACK}
		},
		"fatal NAK for the future": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCAck, PSN: stageSQ.Add(5), Syndrome: wire.SyndromeNAK(wire.NAKRemoteAccess)}
		},
		"READ response never asked for": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCReadResponseOnly, PSN: stageSQ.Add(5), Syndrome: wire.SyndromeACK}
		},
		"reserved syndrome": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCAck, PSN: stageSQ, Syndrome: 0xff}
		},
		"replayed atomic never sent": func(s *stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCFetchAdd, PSN: stageRQ.Sub(3), VA: va(0), RKey: s.rkey(), SwapAdd: 1}
		},
		"replayed READ never sent": func(s *stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCReadRequest, PSN: stageRQ.Sub(3), VA: va(0), RKey: s.rkey(), DMALen: 8}
		},
		"another service": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.UCSendOnly, PSN: stageRQ}
		},
		"wrong partition": func(*stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ, PKey: 0x8001}
		},
		"unknown QP": func(s *stage) wire.Headers {
			return wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ, DestQP: s.q.Num() ^ 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.postRecv(2, 0x2000, 100)
			s.post(s.send(1, 10))
			s.expect(wire.RCSendOnly)
			s.say(lie(s), nil)
			s.done()
			s.expect()
			s.state(rxe.QPRTS)
			if !bytes.Equal(s.mem.Data, template[:stageMem]) {
				t.Error("memory changed")
			}
			s.ack(stageSQ, wire.SyndromeACK)
			s.done(rxe.WC{ID: 1})
			s.say(wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ, AckReq: true}, nil)
			s.expectAETH(stageRQ, wire.SyndromeACK)
			s.done(rxe.WC{ID: 2})
		})
	}
}

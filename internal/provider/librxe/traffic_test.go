package librxe

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// A station is a program with one queue pair whose queues are all shared rings,
// of a device whose QPs talk to each other: nothing reaches its link.
type station struct {
	t    testing.TB
	dev  *rxe.Device
	dom  *rxe.PD
	mem  *simnet.Memory
	mr   *rxe.MR
	mw   *rxe.MW
	qp   *rxe.QP
	cq   *rxe.CQ
	sq   *sendRing
	rq   *recvRing
	cqr  *cqRing
	send *librxeclient.Queue
	recv *librxeclient.Queue
	comp *librxeclient.Queue
	told int // completion events
}

const (
	stationBase = 0x10000
	stationSize = 1 << 20
)

func (s *station) PD() *rxe.PD                  { return s.dom }
func (s *station) MRByLKey(lkey uint32) *rxe.MR { return pick(s.mr, uint32(s.mr.LKey()) == lkey) }
func (s *station) MWByRKey(rkey uint32) *rxe.MW { return pick(s.mw, uint32(s.mw.RKey())>>8 == rkey>>8) }

func pick[T any](p *T, yes bool) *T {
	if yes {
		return p
	}
	return nil
}

var stationCap = rxe.QPCap{MaxSendWR: 15, MaxRecvWR: 15, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}

func newStation(t testing.TB, dev *rxe.Device, typ rxe.QPType) *station {
	return newStationCap(t, dev, typ, stationCap)
}

func newStationCap(t testing.TB, dev *rxe.Device, typ rxe.QPType, qpCap rxe.QPCap) *station {
	t.Helper()
	a := testArena(t)
	s := &station{t: t, dev: dev, mem: &simnet.Memory{Base: stationBase, Data: make([]byte, stationSize)}}
	s.dom = must.Get[*rxe.PD](t)(dev.AllocPD())
	s.mr = must.Get[*rxe.MR](t)(s.dom.RegMR(s.mem, stationBase, stationSize, stationBase, rxedev.Rights))
	s.mw = must.Get[*rxe.MW](t)(s.dom.AllocMW(rxe.MWType2))
	s.cqr = must.Get[*cqRing](t)(newCQRing(a, 63))
	s.cq = must.Get[*rxe.CQ](t)(dev.CreateCQ(rxe.CQInit{Entries: s.cqr.entries(), Ring: s.cqr,
		OnCompletion: func(*rxe.CQ) { s.told++ }}))
	s.sq = must.Get[*sendRing](t)(newSendRing(a, qpCap))
	s.rq = must.Get[*recvRing](t)(newRecvRing(a, qpCap.MaxRecvWR, qpCap.MaxRecvSGE))
	s.qp = must.Get[*rxe.QP](t)(s.dom.CreateQP(rxe.QPInitAttr{Type: typ, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: qpCap, RecvRing: s.rq, OnSendDone: s.sq.done}))
	s.sq.qp, s.sq.keys = s.qp, s
	s.send, s.recv, s.comp = client(t, a, s.sq), client(t, a, s.rq), client(t, a, s.cqr)
	return s
}

func (s *station) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// connect takes the QP to RTS; peer is ignored by UD.
func (s *station) connect(peer *rxe.QP) {
	s.t.Helper()
	a := rxe.QPAttr{PortNum: 1, QKey: rxedev.QKey, Access: rxedev.Rights,
		PathMTU: 1024, DestQPN: peer.Num(), MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1,
		RetryCnt: 7, RNRRetry: 7, Timeout: 14,
		AH: rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1}}
	for from := range rxe.QPRTS {
		a.State = from + 1
		s.must(s.qp.Modify(&a, rxe.RequiredMask(s.qp.Type(), from, a.State)))
	}
}

// pair is two connected stations of one device.
func pair(t testing.TB, typ rxe.QPType) (a, b *station) {
	return pairCap(t, typ, stationCap)
}

func pairCap(t testing.TB, typ rxe.QPType, qpCap rxe.QPCap) (a, b *station) {
	t.Helper()
	dev := rxedev.New(t)
	a, b = newStationCap(t, dev, typ, qpCap), newStationCap(t, dev, typ, qpCap)
	a.connect(b.qp)
	b.connect(a.qp)
	return a, b
}

// sge names n bytes at off of the station's memory.
func (s *station) sge(off uint64, n uint32) rxe.SGE {
	return rxe.SGE{Addr: stationBase + off, Length: n, LKey: s.mr.LKey()}
}

func (s *station) bytes(off, n int) []byte { return s.mem.Data[off : off+n] }

// post puts work requests into the queue and rings once.
func (s *station) post(wrs ...librxeclient.SendWR) {
	s.t.Helper()
	for i := range wrs {
		if !s.send.PostSend(&wrs[i]) {
			s.t.Fatal("send queue is full")
		}
	}
	s.must(s.sq.doorbell())
}

// want polls one completion.
func (s *station) want(id uint64, status rxe.WCStatus) librxeclient.WC {
	s.t.Helper()
	wc, ok := s.comp.Poll()
	if !ok {
		s.t.Fatalf("no completion; want %d %v", id, status)
	}
	if wc.ID != id || rxe.WCStatus(wc.Status) != status || wc.QPN != uint32(s.qp.Num()) {
		s.t.Fatalf("completion %d %v of QP %#x, want %d %v", wc.ID, rxe.WCStatus(wc.Status), wc.QPN, id, status)
	}
	return wc
}

func (s *station) wantNone() {
	s.t.Helper()
	if wc, ok := s.comp.Poll(); ok {
		s.t.Fatalf("completion %+v", wc)
	}
}

func TestRCTraffic(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	rxedev.Fill(a.bytes(0, 5000), 1)
	list := []rxe.SGE{a.sge(0, 1000), a.sge(1000, 0), a.sge(1000, 4000)}
	remote := uint64(stationBase + 0x8000)
	rkey := b.mr.RKey()

	t.Run("SEND", func(t *testing.T) {
		b.recv.PostRecv(90, b.sge(0x2000, 100), b.sge(0x3000, 8000))
		a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: list}})
		if wc := a.want(1, rxe.WCSuccess); wc.Opcode != 0 || wc.ByteLen != 5000 {
			t.Errorf("%+v", wc)
		}
		if wc := b.want(90, rxe.WCSuccess); wc.Opcode != 128 || wc.ByteLen != 5000 || wc.Flags != 0 {
			t.Errorf("%+v", wc)
		}
		if got := append(bytes.Clone(b.bytes(0x2000, 100)), b.bytes(0x3000, 4900)...); !bytes.Equal(got, a.bytes(0, 5000)) {
			t.Error("other bytes arrived")
		}
	})
	t.Run("SEND imm inline", func(t *testing.T) {
		for _, noFlag := range []bool{false, true} {
			b.recv.PostRecv(91, b.sge(0, 64))
			a.post(librxeclient.SendWR{NoFlag: noFlag, SendWR: rxe.SendWR{ID: 2, Op: rxe.WRSendImm, Imm: 0x01020304,
				Flags: rxedev.Signaled | rxe.SendInline, Inline: []byte("inline")}})
			a.want(2, rxe.WCSuccess)
			if wc := b.want(91, rxe.WCSuccess); wc.Ex != [4]byte{1, 2, 3, 4} || wc.Flags != 2 || wc.ByteLen != 6 {
				t.Errorf("%+v", wc)
			}
			if got := b.bytes(0, 6); string(got) != "inline" {
				t.Errorf("%q arrived", got)
			}
			clear(b.bytes(0, 6))
		}
	})
	t.Run("WRITE and WRITE imm", func(t *testing.T) {
		b.recv.PostRecv(92)
		a.post(
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 3, Op: rxe.WRWrite, SGL: list, RemoteAddr: remote, RKey: rkey}},
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 4, Op: rxe.WRWriteImm, Flags: rxedev.Signaled, SGL: list[:1],
				RemoteAddr: remote + 5000, RKey: rkey, Imm: 7}})
		if wc := a.want(4, rxe.WCSuccess); wc.Opcode != 1 || wc.Flags != 2 {
			t.Errorf("%+v", wc)
		}
		if wc := b.want(92, rxe.WCSuccess); wc.Opcode != 129 || wc.ByteLen != 1000 || wc.Ex != [4]byte{0, 0, 0, 7} {
			t.Errorf("%+v", wc)
		}
		if !bytes.Equal(b.bytes(0x8000, 5000), a.bytes(0, 5000)) || !bytes.Equal(b.bytes(0x8000+5000, 1000), a.bytes(0, 1000)) {
			t.Error("other bytes arrived")
		}
	})
	t.Run("READ", func(t *testing.T) {
		rxedev.Fill(b.bytes(0x8000, 5000), 99)
		a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 5, Op: rxe.WRRead, Flags: rxedev.Signaled | rxe.SendFence,
			SGL: []rxe.SGE{a.sge(0x5000, 3000), a.sge(0x7000, 2000)}, RemoteAddr: remote, RKey: rkey}})
		if wc := a.want(5, rxe.WCSuccess); wc.Opcode != 2 || wc.ByteLen != 5000 {
			t.Errorf("%+v", wc)
		}
		if got := append(bytes.Clone(a.bytes(0x5000, 3000)), a.bytes(0x7000, 2000)...); !bytes.Equal(got, b.bytes(0x8000, 5000)) {
			t.Error("other bytes arrived")
		}
	})
	t.Run("atomics", func(t *testing.T) {
		word := b.bytes(0x8000, 8)
		binary.LittleEndian.PutUint64(word, 40)
		a.post(
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 6, Op: rxe.WRFetchAdd, Flags: rxedev.Signaled, SGL: []rxe.SGE{a.sge(0x5000, 8)},
				RemoteAddr: remote, RKey: rkey, CompareAdd: 2}},
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 7, Op: rxe.WRCompareSwap, Flags: rxedev.Signaled,
				SGL:        []rxe.SGE{a.sge(0x5008, 4), a.sge(0x500c, 4)},
				RemoteAddr: remote, RKey: rkey, CompareAdd: 42, Swap: 77}},
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 8, Op: rxe.WRAtomicWrite, Flags: rxedev.Signaled,
				RemoteAddr: remote + 8, RKey: rkey, AtomicWrite: 0x1122334455667788}},
			librxeclient.SendWR{SendWR: rxe.SendWR{ID: 9, Op: rxe.WRFlush, Flags: rxedev.Signaled, FlushType: 1, FlushLength: 64,
				RemoteAddr: remote, RKey: rkey}})
		for id, opcode := range []uint32{4, 3, 9, 8} {
			if wc := a.want(uint64(6+id), rxe.WCSuccess); wc.Opcode != opcode {
				t.Errorf("%+v", wc)
			}
		}
		got := []uint64{
			binary.LittleEndian.Uint64(a.bytes(0x5000, 8)), binary.LittleEndian.Uint64(a.bytes(0x5008, 8)),
			binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(b.bytes(0x8008, 8)),
		}
		for i, want := range []uint64{40, 42, 77, 0x1122334455667788} {
			if got[i] != want {
				t.Errorf("word %d: %#x, want %#x", i, got[i], want)
			}
		}
	})
	a.wantNone()
	b.wantNone()
	if !a.send.Empty() || !b.recv.Empty() {
		t.Error("a queue is not empty: the consumer index lags")
	}
}

// TestWindows: BIND MW, SEND with invalidate and LOCAL INV name what the program
// knows by key.
func TestWindows(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	bind := func(next uint32) librxeclient.SendWR {
		return librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRBindMW, Flags: rxedev.Signaled},
			MWRKey: uint32(b.mw.RKey()), BindRKey: next, MRLKey: uint32(b.mr.LKey()),
			BindAddr: stationBase, BindLength: 4096, BindAccess: uint32(rxe.AccessRemoteWrite)}
	}
	next := uint32(b.mw.RKey())&^0xff | (uint32(b.mw.RKey())+1)&0xff
	b.post(bind(next))
	if wc := b.want(1, rxe.WCSuccess); wc.Opcode != 5 {
		t.Errorf("%+v", wc)
	}
	a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRWrite, Flags: rxedev.Signaled, SGL: []rxe.SGE{a.sge(0, 100)},
		RemoteAddr: stationBase, RKey: wire.RKey(next)}})
	a.want(2, rxe.WCSuccess)
	b.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 3, Op: rxe.WRLocalInv, Flags: rxedev.Signaled, InvRKey: wire.RKey(next)}})
	if wc := b.want(3, rxe.WCSuccess); wc.Opcode != 6 {
		t.Errorf("%+v", wc)
	}
	b.post(bind(next))
	b.want(1, rxe.WCSuccess)
	b.recv.PostRecv(4)
	a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 5, Op: rxe.WRSendInv, Flags: rxedev.Signaled, InvRKey: wire.RKey(next)}})
	a.want(5, rxe.WCSuccess)
	if wc := b.want(4, rxe.WCSuccess); wc.Flags != 8 || binary.NativeEndian.Uint32(wc.Ex[:]) != next {
		t.Errorf("%+v", wc)
	}
	bad := bind(next)
	bad.MWRKey = 0xdead00
	b.post(bad)
	b.want(1, rxe.WCMWBindErr)
}

func TestUDTraffic(t *testing.T) {
	a, b := pair(t, rxe.QPUD)
	ah := must.Get[*rxe.AH](t)(a.dom.CreateAH(rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1}))
	foreign := must.Get[*rxe.AH](t)(b.dom.CreateAH(rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1}))
	before := a.dev.Objects().AH
	rxedev.Fill(a.bytes(0, 500), 3)
	wr := rxe.SendWR{ID: 1, Op: rxe.WRSendImm, Flags: rxedev.Signaled, SGL: []rxe.SGE{a.sge(0, 500)},
		RemoteQPN: b.qp.Num(), RemoteQKey: rxedev.QKey, Imm: 5}
	for i, dest := range []librxeclient.SendWR{
		{SendWR: wr, AHNum: ah.Num()},
		{SendWR: wr, AV: librxeclient.AV(wire.GIDFromAddr(rxedev.Addr), 0)},
		{SendWR: wr, AV: librxeclient.AV(wire.GIDFromAddr(rxedev.Addr), 0)},
	} {
		b.recv.PostRecv(9, b.sge(0x1000, 540))
		a.post(dest)
		a.want(1, rxe.WCSuccess)
		wc := b.want(9, rxe.WCSuccess)
		if wc.SrcQP != uint32(a.qp.Num()) || wc.ByteLen != 540 || wc.Flags != 3 || wc.Port != 1 {
			t.Errorf("%d: %+v", i, wc)
		}
		if !bytes.Equal(b.bytes(0x1000+40, 500), a.bytes(0, 500)) {
			t.Errorf("%d: other bytes arrived", i)
		}
		clear(b.bytes(0x1000, 540))
	}
	if n := a.dev.Objects().AH - before; n != 1 {
		t.Errorf("%d address handles for one address", n)
	}
	// Each of these is a request without an address: it fails and takes the QP
	// to SQE, from where it is brought back.
	for name, dest := range map[string]librxeclient.SendWR{
		"foreign": {SendWR: wr, AHNum: foreign.Num()},
		"unknown": {SendWR: wr, AHNum: 1<<32 - 1},
		"no GID":  {SendWR: wr, AV: librxeclient.AV(wire.GIDFromAddr(rxedev.Addr), 200)},
		"port":    {SendWR: wr, AV: make([]byte, 88)},
	} {
		a.post(dest)
		if wc, _ := a.comp.Poll(); rxe.WCStatus(wc.Status) != rxe.WCLocQPOpErr {
			t.Errorf("%s: %v", name, rxe.WCStatus(wc.Status))
		}
		a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPRTS}, rxe.QPAttrState))
	}
	// The cache is bounded, and gives up what it has.
	for i := range 2 * avCacheSize {
		a.sq.avs.Get(a.dom, rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1, TrafficClass: uint8(i)})
	}
	if n := a.dev.Objects().AH - before; n != avCacheSize {
		t.Errorf("%d address handles in a cache of %d", n, avCacheSize)
	}
	a.sq.free()
	if n := a.dev.Objects().AH - before; n != 0 {
		t.Errorf("%d address handles after free", n)
	}
}

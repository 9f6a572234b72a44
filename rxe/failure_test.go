package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// failures implements Reports.
type failures []Failure

func (l *failures) Failed(_ *QP, f *Failure) { *l = append(*l, *f) }

// TestOtherMTU: packets of a peer with another path MTU are told from those of a wrong length.
func TestOtherMTU(t *testing.T) {
	const mine = 1024
	for name, c := range map[string]struct {
		packet pkt
		reads  bool // a READ of 4096 bytes waits for the packet
		cause  Cause
		bytes  uint64
	}{
		"longer FIRST":           {req(wire.RCSendFirst, 100, pattern(4096)), false, CauseMTU, 4096},
		"shorter FIRST":          {req(wire.RCSendFirst, 100, pattern(256)), false, CauseMTU, 256},
		"longer ONLY":            {req(wire.RCSendOnly, 100, pattern(1500)), false, CauseMTU, 1500},
		"no path MTU":            {req(wire.RCSendFirst, 100, pattern(1000)), false, CauseLength, 0},
		"no packet is so long":   {req(wire.RCSendOnly, 100, pattern(5000)), false, CauseLength, 0},
		"answer, longer":         {req(wire.RCReadResponseOnly, 0, pattern(4096)), true, CauseMTU, 4096},
		"answer, shorter":        {req(wire.RCReadResponseFirst, 0, pattern(512)), true, CauseMTU, 512},
		"answer of wrong length": {req(wire.RCReadResponseFirst, 0, pattern(100)), true, CauseBadResponse, 0},
	} {
		var seen failures
		b := newBench(t, QPRC, func(a *QPAttr) { a.PathMTU = mine })
		b.qp.reports = &seen
		b.post(1, 0, 8192)
		if c.reads {
			b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7, MaxRdAtomic: 4}, RequiredMask(QPRC, QPRTR, QPRTS)))
			_, err := b.qp.PostSend([]SendWR{{Op: WRRead, RemoteAddr: remoteVA, SGL: []SGE{{Addr: localVA, Length: 4096, LKey: b.local.LKey()}}}})
			b.must(err)
		}
		b.send(c.packet)
		if len(seen) != 1 {
			t.Errorf("%s: %+v", name, seen)
			continue
		}
		want := MTU(0)
		if c.cause == CauseMTU {
			want = mine
		}
		if f := seen[0]; f.Cause != c.cause || c.cause == CauseMTU && f.Bytes != c.bytes || f.MTU != want {
			t.Errorf("%s: %+v, want cause %d, %d bytes", name, f, c.cause, c.bytes)
		}
	}
}

// TestOtherMTUOfUC: a UC queue pair drops all long messages of a peer with another path MTU. It
// reports that once, and nothing of other messages that it drops.
func TestOtherMTUOfUC(t *testing.T) {
	var seen failures
	b := newBench(t, QPUC, func(a *QPAttr) { a.PathMTU = 1024 })
	b.qp.reports = &seen
	b.post(1, 0, 8192)
	b.send(req(wire.UCSendFirst, 100, pattern(1000)))
	if len(seen) != 0 {
		t.Errorf("a packet of a wrong length: %+v", seen)
	}
	for psn := wire.PSN(101); psn < 105; psn += 2 {
		b.send(req(wire.UCSendFirst, psn, pattern(512)), req(wire.UCSendLast, psn+1, pattern(512)))
	}
	if len(seen) != 1 || seen[0].Cause != CauseMTU || seen[0].Bytes != 512 || seen[0].MTU != 1024 || seen[0].PSN != 101 || seen[0].Recv {
		t.Errorf("two messages of a peer with another path MTU: %+v", seen)
	}
	b.wantState(QPRTR)
	b.send(req(wire.UCSendOnly, 105, pattern(4)))
	b.want()
	if n := len(b.polled()); n != 1 {
		t.Errorf("%d completions of the message that fits", n)
	}
}

// limitedLink is a link of an interface with an MTU.
type limitedLink struct {
	captureLink
	mtu  int
	lost uint64
}

func (l *limitedLink) TooLong() (mtu int, lost uint64) { return l.mtu, l.lost }

// TestLinkMTU: packets that the interface cannot carry are told from a peer that does not answer.
func TestLinkMTU(t *testing.T) {
	for name, c := range map[string]struct {
		mtu    int
		lost   uint64
		length uint32
		cause  Cause
	}{
		"too long":         {1500, 1, 4096, CauseLinkMTU},
		"just too long":    {1500, 1, 1457, CauseLinkMTU},
		"fits":             {1500, 1, 1456, CauseTimeout},
		"nothing was lost": {1500, 0, 4096, CauseTimeout},
		"a larger MTU":     {4200, 1, 4096, CauseTimeout},
	} {
		var seen failures
		b := newBench(t, QPRC, func(a *QPAttr) { a.PathMTU = 2048 })
		b.qp.reports = &seen
		b.dev.cfg.Link = &limitedLink{mtu: c.mtu, lost: c.lost}
		b.must(b.dev.SetPort(PortActive, 1024))
		b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 1, Timeout: 1, MaxRdAtomic: 4}, RequiredMask(QPRC, QPRTR, QPRTS)))
		_, err := b.qp.PostSend([]SendWR{{Op: WRSend, SGL: []SGE{{Addr: localVA, Length: c.length, LKey: b.local.LKey()}}}})
		b.must(err)
		for range 4 {
			b.clock.now += second1
			b.dev.Expire()
		}
		if len(seen) != 1 || seen[0].Status != WCRetryExcErr || seen[0].Cause != c.cause {
			t.Errorf("%s: %+v, want cause %d", name, seen, c.cause)
			continue
		}
		if f := seen[0]; f.Cause == CauseLinkMTU && (f.Bytes != 1500 || f.MTU != 2048 || f.Fits != 1024) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestShortReceive: an unreliable queue pair reports once that it drops messages which are longer
// than their receive. Of a datagram the GRH counts.
func TestShortReceive(t *testing.T) {
	ud := func(psn wire.PSN, n int) pkt {
		return pkt{h: wire.Headers{Opcode: wire.UDSendOnly, PSN: psn, QKey: benchQKey, SrcQP: 5}, data: pattern(n)}
	}
	uc := func(psn wire.PSN, n int) pkt { return req(wire.UCSendOnly, psn, pattern(n)) }
	for typ, c := range map[QPType]struct {
		message func(psn wire.PSN, n int) pkt
		fits    int // bytes
	}{QPUC: {uc, 64}, QPUD: {ud, 64 - wire.GRHLen}} {
		var seen failures
		b := newBench(t, typ, nil)
		b.qp.reports = &seen
		b.post(1, 0, 64)
		b.send(c.message(100, c.fits+1), c.message(101, c.fits+2))
		if len(seen) != 1 || seen[0].Cause != CauseRecvShort || seen[0].Bytes != 64 || seen[0].GRH != (typ == QPUD) || seen[0].PSN != 100 || seen[0].Recv {
			t.Errorf("type %v, two messages that are too long: %+v", typ, seen)
		}
		b.send(c.message(102, c.fits))
		if n := len(b.polled()); n != 1 || len(seen) != 1 {
			t.Errorf("type %v: %d completions of the message that fits, %d reports", typ, n, len(seen))
		}
	}
}

// TestQKeyTold: a UD queue pair reports a datagram that it drops for its Q_Key, once for those of a
// sender with one Q_Key, and not for ever. It reports none that came through a group.
func TestQKeyTold(t *testing.T) {
	const wrong = benchQKey + 1
	var seen failures
	b := newBench(t, QPUD, nil)
	b.qp.reports = &seen
	datagram := func(qkey uint32, from wire.QPN) pkt {
		return pkt{h: wire.Headers{Opcode: wire.UDSendOnly, PSN: 7, QKey: qkey, SrcQP: from}, data: pattern(4)}
	}
	b.must(b.qp.AttachMcast(objMGID, 0))
	group := datagram(wrong, 5)
	group.h.PKey, group.h.DestQP = wire.DefaultPKey, wire.MulticastQPN
	b.dev.Receive([]wire.Datagram{{Data: append(group.h.Append(nil), group.data...), Src: b.from, Dst: objMGID.Addr(), HopLimit: 64}})
	if n := b.dev.counters.BadQKey.Load(); n != 1 || len(seen) != 0 {
		t.Fatalf("a datagram to a group: %d dropped, reported %+v", n, seen)
	}
	for i, c := range []struct {
		qkey uint32
		from wire.QPN
		told int
	}{{benchQKey, 5, 0}, {wrong, 5, 1}, {wrong, 5, 1}, {wrong, 6, 2}, {wrong + 1, 6, 3}} {
		b.send(datagram(c.qkey, c.from))
		if len(seen) != c.told {
			t.Fatalf("datagram %d: reported %+v", i, seen)
		}
	}
	want := Failure{Cause: CauseQKey, Peer: wire.GIDFromAddr(benchThere), PeerQPN: 6, PSN: 7, QKey: wrong + 1, OwnQKey: benchQKey}
	if seen[2] != want {
		t.Errorf("reported %+v, want %+v", seen[2], want)
	}
	for i := range wire.QPN(2 * mostStrays) {
		b.send(datagram(wrong, i))
	}
	if len(seen) != mostStrays {
		t.Errorf("%d reports, want %d", len(seen), mostStrays)
	}
}

package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// targetBench is a bench whose queue pair is an XRC target, with two SRQs in its domain and one in
// another.
type targetBench struct {
	*bench
	xrcd, other *XRCD
	srqs        [2]*SRQ
	cqs         [2]*CQ
	pds         [2]*PD
	stranger    *SRQ // of other
	plain       *SRQ // of no domain
}

func newTargetBench(t *testing.T) *targetBench {
	t.Helper()
	b := &targetBench{bench: newBench(t, QPRC, nil)}
	b.must(b.qp.Destroy())
	var err error
	b.xrcd, err = b.dev.Whole().OpenXRCD(XRCDInit{})
	b.must(err)
	b.other, err = b.dev.Whole().OpenXRCD(XRCDInit{})
	b.must(err)
	b.pds[0] = b.pd
	b.pds[1], err = b.dev.AllocPD()
	b.must(err)
	for i := range b.srqs {
		b.cqs[i], err = b.dev.CreateCQ(CQInit{Entries: 16})
		b.must(err)
		b.srqs[i], err = b.pds[i].CreateSRQ(SRQInit{MaxWR: 8, MaxSGE: 2, XRCD: b.xrcd, CQ: b.cqs[i]})
		b.must(err)
	}
	b.stranger, err = b.pd.CreateSRQ(SRQInit{MaxWR: 8, MaxSGE: 2, XRCD: b.other, CQ: b.cqs[0]})
	b.must(err)
	b.plain, err = b.pd.CreateSRQ(SRQInit{MaxWR: 8, MaxSGE: 2})
	b.must(err)
	b.qp, err = b.dev.Whole().CreateTarget(b.xrcd, QPInitAttr{})
	b.must(err)
	b.toRTR(QPXRCTgt, nil)
	b.events = nil
	return b
}

// post posts a receive work request of n bytes to an SRQ.
func (b *targetBench) post(srq *SRQ, id uint64, n uint32) {
	b.t.Helper()
	_, err := srq.PostRecv([]RecvWR{{ID: id, SGL: []SGE{{Addr: localVA, Length: n, LKey: b.local.LKey()}}}})
	b.must(err)
}

// to names an SRQ in a request.
func to(srq *SRQ) func(*wire.Headers) {
	return func(h *wire.Headers) { h.XRCSRQN = srq.Num() }
}

func (b *targetBench) wantRecv(cq *CQ, want ...WC) []WC {
	b.t.Helper()
	keep := b.cq
	defer func() { b.cq = keep }()
	b.cq = cq
	return b.wantWC(want...)
}

func xrcNAK(code wire.NAKCode, psn wire.PSN) check {
	return answerOf(wire.XRCAck, wire.SyndromeNAK(code), psn)
}

// TestTargetServesSRQs: each message goes to the SRQ that it names. Its completion comes in the CQ
// of that SRQ, with the numbers of the target and of the SRQ.
func TestTargetServesSRQs(t *testing.T) {
	t.Run("cheap memory", func(t *testing.T) { targetServesSRQs(t, false) })
	t.Run("costly memory", func(t *testing.T) { targetServesSRQs(t, true) })
}

func targetServesSRQs(t *testing.T, costly bool) {
	b := newTargetBench(t)
	b.dev.cfg.CostlyMemory = costly
	b.post(b.srqs[0], 1, 600)
	other, err := b.pds[1].RegMR(b.mem, localVA, localLen, localVA, AccessLocalWrite)
	b.must(err)
	_, err = b.srqs[1].PostRecv([]RecvWR{{ID: 2, SGL: []SGE{{Addr: localVA + 1024, Length: 100, LKey: other.LKey()}}}})
	b.must(err)
	b.send(req(wire.XRCSendFirst, 100, pattern(benchMTU), to(b.srqs[0])),
		req(wire.XRCSendLast, 101, pattern(44), to(b.srqs[0])),
		req(wire.XRCSendOnlyImm, 102, pattern(9), to(b.srqs[1])))
	b.want(answerOf(wire.XRCAck, wire.SyndromeACK, 102))
	for i, bytes := range []uint32{benchMTU + 44, 9} {
		wc := b.wantRecv(b.cqs[i], WC{ID: uint64(i + 1)})[0]
		if wc.ByteLen != bytes || wc.QPN != b.qp.Num() || wc.SRQN != b.srqs[i].Num() {
			t.Errorf("completion %+v of SRQ %#x", wc, b.srqs[i].Num())
		}
	}
	b.wantWC() // the target has none of its own
	b.wantEvents()
}

// TestTargetOneSided: requests without a receive work request name an SRQ too, and their keys are
// those of its protection domain. A READ keeps its domain while others are executed.
func TestTargetOneSided(t *testing.T) {
	b := newTargetBench(t)
	second, err := b.pds[1].RegMR(b.mem, remoteVA+1024, 1024, remoteVA+1024, benchRights)
	b.must(err)
	first := b.at(0, 8)
	in := func(h *wire.Headers) { h.VA, h.RKey, h.DMALen = remoteVA+1024, second.RKey(), 8 }
	copy(b.mem.b[remoteVA-benchBase:], "first...")
	copy(b.mem.b[remoteVA+1024-benchBase:], "second..")
	b.send(req(wire.XRCReadRequest, 100, nil, first, to(b.srqs[0])), req(wire.XRCReadRequest, 101, nil, in, to(b.srqs[1])))
	b.want(readData(wire.XRCReadResponseOnly, 100, []byte("first...")), readData(wire.XRCReadResponseOnly, 101, []byte("second..")))
	b.send(req(wire.XRCWriteOnly, 102, []byte("written."), in, to(b.srqs[1])))
	b.want(answerOf(wire.XRCAck, wire.SyndromeACK, 102))
	b.send(req(wire.XRCFetchAdd, 103, nil, first, to(b.srqs[0])))
	b.want(func(pkt wire.Packet) string {
		if pkt.Opcode() != wire.XRCAtomicAck || pkt.AtomicOrig() != hostWord([]byte("first...")) {
			return "want the old value"
		}
		return ""
	})
	// again: the SRQ is not looked at
	b.send(req(wire.XRCReadRequest, 100, nil, first, to(b.srqs[1])))
	b.want(readData(wire.XRCReadResponseOnly, 100, []byte("first...")))
	b.send(req(wire.XRCWriteOnly, 104, []byte("refused!"), first, to(b.srqs[1])))
	b.want(xrcNAK(wire.NAKRemoteAccess, 104))
	b.wantEvents(EventQPAccessErr, EventQPLastWQEReached)
}

// TestTargetFaults: a request that names no SRQ of the target's domain, or another one than the
// beginning of its message, is refused. The error is the target's and the sender's: the SRQs are as
// before, except for the receive work request that the message has taken.
func TestTargetFaults(t *testing.T) {
	mtu := pattern(benchMTU)
	for _, tc := range []struct {
		name string
		pkts func(b *targetBench) []pkt
		psn  wire.PSN
		wcs  []WC // of the first SRQ
	}{
		{name: "no such number", pkts: func(*targetBench) []pkt { return []pkt{req(wire.XRCSendOnly, 100, mtu)} }},
		{name: "another domain", pkts: func(b *targetBench) []pkt { return []pkt{req(wire.XRCSendOnly, 100, mtu, to(b.stranger))} }},
		{name: "an SRQ without a domain", pkts: func(b *targetBench) []pkt { return []pkt{req(wire.XRCSendOnly, 100, mtu, to(b.plain))} }},
		{name: "of a WRITE", pkts: func(b *targetBench) []pkt {
			return []pkt{req(wire.XRCWriteOnly, 100, mtu, b.at(0, benchMTU), to(b.stranger))}
		}},
		{name: "of a READ", pkts: func(b *targetBench) []pkt {
			return []pkt{req(wire.XRCReadRequest, 100, nil, b.at(0, 8), to(b.stranger))}
		}},
		{name: "of an atomic", pkts: func(b *targetBench) []pkt { return []pkt{req(wire.XRCFetchAdd, 100, nil, b.at(0, 0), to(b.stranger))} }},
		{name: "another one within a message", pkts: func(b *targetBench) []pkt {
			return []pkt{req(wire.XRCSendFirst, 100, mtu, to(b.srqs[0])), req(wire.XRCSendLast, 101, mtu, to(b.srqs[1]))}
		}, psn: 1, wcs: []WC{{ID: 1, Status: WCFlushErr}}},
		{name: "another domain within a message", pkts: func(b *targetBench) []pkt {
			return []pkt{req(wire.XRCSendFirst, 100, mtu, to(b.srqs[0])), req(wire.XRCSendLast, 101, mtu, to(b.stranger))}
		}, psn: 1, wcs: []WC{{ID: 1, Status: WCFlushErr}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newTargetBench(t)
			b.post(b.srqs[0], 1, 2*benchMTU)
			b.post(b.srqs[0], 2, 2*benchMTU)
			b.send(tc.pkts(b)...)
			b.want(xrcNAK(wire.NAKRemoteAccess, 100+tc.psn))
			b.wantRecv(b.cqs[0], tc.wcs...)
			b.wantRecv(b.cqs[1])
			b.wantState(QPErr)
			b.wantEvents(EventQPAccessErr, EventQPLastWQEReached)
			b.wantGuard()
			if left := b.srqs[0].own.Len(); left != 2-len(tc.wcs) {
				t.Errorf("%d receive work requests are left in the SRQ", left)
			}
			if n := b.dev.counters.BadAccess.Load(); n != 1 {
				t.Errorf("counted %d times", n)
			}
		})
	}
}

// TestTargetWithoutReceive: an empty SRQ is not ready, and others go on. An SRQ that is destroyed
// within a message ends the connection.
func TestTargetWithoutReceive(t *testing.T) {
	b := newTargetBench(t)
	b.post(b.srqs[0], 1, 2*benchMTU)
	b.send(req(wire.XRCSendOnly, 100, pattern(8), to(b.srqs[1])))
	b.want(answerOf(wire.XRCAck, wire.SyndromeRNR(12), 100))
	b.send(req(wire.XRCSendFirst, 100, pattern(benchMTU), to(b.srqs[0])))
	b.want()
	b.must(b.srqs[0].Destroy())
	b.send(req(wire.XRCSendLast, 101, pattern(8), to(b.srqs[0])))
	b.want(xrcNAK(wire.NAKRemoteAccess, 101))
	b.wantRecv(b.cqs[0], WC{ID: 1, Status: WCFlushErr})
}

// TestTargetMessageGivenUp: a receive work request that was taken for a message whose sender begins
// another one, for another SRQ, is flushed and not lost.
func TestTargetMessageGivenUp(t *testing.T) {
	b := newTargetBench(t)
	b.post(b.srqs[0], 1, 8)
	b.qp.lock()
	b.qp.intake, b.qp.resp.recv.hasWQE = intake{srq: b.srqs[0], recvCQ: b.cqs[0], pd: b.pd}, true
	b.qp.resp.recv.wqe.ID = 7
	b.qp.unlock(nil)
	b.post(b.srqs[1], 2, 8)
	b.send(req(wire.XRCSendOnly, 100, nil, to(b.srqs[1])))
	b.want(answerOf(wire.XRCAck, wire.SyndromeACK, 100))
	b.wantRecv(b.cqs[0], WC{ID: 7, Status: WCFlushErr})
	b.wantRecv(b.cqs[1], WC{ID: 2})
}

// TestXRCHalves: a target takes no responses, an initiator no requests, and neither takes packets
// of RC.
func TestXRCHalves(t *testing.T) {
	b := newTargetBench(t)
	b.send(pkt{h: wire.Headers{Opcode: wire.XRCAck, PSN: 0, Syndrome: wire.SyndromeACK}}, req(wire.RCSendOnly, 100, nil))
	b.want()
	if _, err := b.qp.PostSend([]SendWR{{Op: WRSend}}); err == nil {
		t.Error("a target sends")
	}
	if _, err := b.qp.PostRecv([]RecvWR{{}}); err == nil {
		t.Error("a target has a receive queue")
	}
	var err error
	b.qp, err = b.pd.CreateQP(QPInitAttr{Type: QPXRCIni, SendCQ: b.cq, Cap: QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 9}})
	b.must(err)
	b.toRTR(QPXRCIni, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7}, RequiredMask(QPXRCIni, QPRTR, QPRTS)))
	b.send(req(wire.XRCSendOnly, 100, nil, to(b.srqs[0])))
	b.want()
	if n := b.dev.counters.BadType.Load(); n != 2 {
		t.Errorf("%d packets of a wrong type, want 2", n)
	}
	if _, err := b.qp.PostRecv([]RecvWR{{}}); err == nil {
		t.Error("an initiator has a receive queue")
	}
	for _, wr := range []SendWR{{Op: WRFlush, FlushType: 1}, {Op: WRAtomicWrite}, {Op: WRSend, XRCSRQN: 1 << 24}} {
		if _, err := b.qp.PostSend([]SendWR{wr}); err == nil {
			t.Errorf("an initiator sends %+v", wr)
		}
	}
	b.must(b.qp.Modify(&QPAttr{State: QPErr}, QPAttrState))
	b.wantState(QPErr)
	b.must(b.qp.Destroy())
}

// TestXRCOpcodes: each opcode of the table exists, is of the type's service, and means the same.
func TestXRCOpcodes(t *testing.T) {
	rc, xrc := factsOf[QPRC], factsOf[QPXRCIni]
	same := func(a, b wire.Opcode) {
		t.Helper()
		x, y := a.Info(), b.Info()
		if y.Service != wire.ServiceXRC || !y.Valid() || x.Flags != y.Flags&^wire.HasXRCETH || x.Has(wire.OpRequest) != y.Has(wire.HasXRCETH) {
			t.Errorf("%v for %v", b, a)
		}
	}
	for op := range rc.messages {
		for i, code := range rc.messages[op] {
			if op == int(WRWrite) || code != 0 {
				same(code, xrc.messages[op][i])
			}
		}
	}
	for i, code := range rc.answers {
		same(code, xrc.answers[i])
	}
}

// TestXRCObjects: what is in use cannot be freed, in whatever order a program tries.
func TestXRCObjects(t *testing.T) {
	d := newObjDev(t)
	pd, cq := d.pd(), d.cq(4)
	foreign := newObjDev(t)
	x, err := d.Whole().OpenXRCD(XRCDInit{})
	d.must(err)
	strange, err := foreign.Whole().OpenXRCD(XRCDInit{})
	d.must(err)
	init := SRQInit{MaxWR: 1, XRCD: strange, CQ: cq}
	_, err = pd.CreateSRQ(init)
	d.want(err, ErrInvalid, "xrcd")
	init.XRCD, init.CQ = x, nil
	_, err = pd.CreateSRQ(init)
	d.want(err, ErrInvalid, "cq")
	_, err = pd.CreateSRQ(SRQInit{MaxWR: 1, CQ: cq})
	d.want(err, ErrInvalid, "xrcd")
	init.CQ = cq
	srq, err := pd.CreateSRQ(init)
	d.must(err)
	_, err = d.Whole().CreateTarget(strange, QPInitAttr{})
	d.want(err, ErrInvalid, "xrcd")
	_, err = pd.CreateQP(QPInitAttr{Type: QPXRCTgt})
	d.want(err, ErrInvalid, "qp_type")
	tgt, err := d.Whole().CreateTarget(x, QPInitAttr{})
	d.must(err)

	d.want(x.Close(), ErrBusy, "xrcd")
	d.want(cq.Destroy(), ErrBusy, "cq")
	d.want(pd.Dealloc(), ErrBusy, "pd")
	d.must(srq.Destroy())
	d.want(srq.Destroy(), ErrClosed, "srq")
	d.want(x.Close(), ErrBusy, "xrcd")
	if x.Users() != 1 {
		t.Errorf("%d users", x.Users())
	}
	d.must(cq.Destroy())
	d.must(pd.Dealloc())

	again, err := x.OpenQP(tgt.Num())
	d.must(err)
	if again != tgt {
		t.Error("another QP")
	}
	_, err = x.OpenQP(tgt.Num() ^ 1)
	d.want(err, ErrInvalid, "qp_num")
	d.must(tgt.Destroy())
	d.want(x.Close(), ErrBusy, "xrcd")
	if tgt.State() != QPReset {
		t.Error("freed while it is open")
	}
	d.must(again.Destroy())
	d.want(again.Destroy(), ErrClosed, "qp")
	_, err = x.OpenQP(tgt.Num())
	d.want(err, ErrInvalid, "qp_num")
	d.must(x.Close())
	d.want(x.Close(), ErrClosed, "xrcd")
	_, err = x.OpenQP(1)
	d.want(err, ErrClosed, "xrcd")
	_, err = d.Whole().CreateTarget(x, QPInitAttr{})
	d.want(err, ErrClosed, "xrcd")
	_, err = d.pd().CreateSRQ(SRQInit{MaxWR: 1, XRCD: x, CQ: d.cq(1)})
	d.want(err, ErrClosed, "xrcd")
	if n := d.Objects(); n.XRCD != 0 || n.SRQ != 0 || n.QP != 0 {
		t.Errorf("objects %+v", n)
	}
}

// TestXRCDOfFile: callers that open the same file share its domain, which lives as long as one of
// them.
func TestXRCDOfFile(t *testing.T) {
	d := newObjDev(t)
	type inode struct{ dev, ino uint64 }
	file, create := inode{1, 2}, true
	open := func(file any, create, exclusive bool) (*XRCD, error) {
		return d.Whole().OpenXRCD(XRCDInit{File: file, Create: create, Exclusive: exclusive})
	}
	_, err := open(file, !create, false)
	d.want(err, ErrNoDomain, "fd")
	x, err := open(file, create, true)
	d.must(err)
	_, err = open(file, create, true)
	d.want(err, ErrInvalid, "oflags")
	same, err := open(inode{1, 2}, !create, false)
	d.must(err)
	other, err := open(inode{1, 3}, create, false)
	d.must(err)
	unnamed, err := open(nil, false, false)
	d.must(err)
	again, err := open(nil, create, true)
	d.must(err)
	if same != x || other == x || unnamed == again {
		t.Error("domains of other files are shared, or those of one file are not")
	}
	srq, err := d.pd().CreateSRQ(SRQInit{MaxWR: 1, XRCD: x, CQ: d.cq(1)})
	d.must(err)
	d.must(x.Close())
	d.want(same.Close(), ErrBusy, "xrcd")
	d.must(srq.Destroy())
	d.must(same.Close())
	d.want(same.Close(), ErrClosed, "xrcd")
	_, err = open(file, !create, false)
	d.want(err, ErrNoDomain, "fd")
}

// TestXRCDeviceClose: a device that closes frees what is shared, too.
func TestXRCDeviceClose(t *testing.T) {
	b := newTargetBench(t)
	_, err := b.xrcd.OpenQP(b.qp.Num())
	b.must(err)
	b.must(b.dev.Close())
	if n := b.dev.Objects(); n.XRCD+n.QP+n.SRQ+n.CQ != 0 {
		t.Errorf("objects %+v", n)
	}
}

// TestXRCPair moves data from an initiator to a target, on one device and between two, through two
// SRQs of different protection domains.
func TestXRCPair(t *testing.T) {
	const memory, size = 1 << 20, 70_001
	for _, local := range []bool{false, true} {
		p := newPair(t, 0, memory, 1024)
		a, b := p.a, p.b
		if local {
			b = p.a
		}
		xrcd, err := b.dev.Whole().OpenXRCD(XRCDInit{})
		must.OK(t, err)
		ini, err := a.pd.CreateQP(QPInitAttr{Type: QPXRCIni, SendCQ: a.cq, Cap: QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
		must.OK(t, err)
		tgt, err := b.dev.Whole().CreateTarget(xrcd, QPInitAttr{})
		must.OK(t, err)
		connectAs(t, QPXRCIni, ini, tgt, b.gid, 1024)
		connectAs(t, QPXRCTgt, tgt, ini, a.gid, 1024)
		for i := range b.mem.b {
			b.mem.b[i] = byte(i * 7)
		}
		recvCQ, err := b.dev.CreateCQ(CQInit{Entries: 8})
		must.OK(t, err)
		for i := range uint64(2) {
			pd, err := b.dev.AllocPD()
			must.OK(t, err)
			mr, err := pd.RegMR(b.mem, 0, memory, 0, allRemote)
			must.OK(t, err)
			srq, err := pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 1, XRCD: xrcd, CQ: recvCQ})
			must.OK(t, err)
			_, err = srq.PostRecv([]RecvWR{{ID: 50 + i, SGL: []SGE{{Addr: 600_000, Length: 200_000, LKey: mr.LKey()}}}})
			must.OK(t, err)
			sge := func(at uint64) []SGE { return []SGE{{Addr: at, Length: size, LKey: a.mr.LKey()}} }
			_, err = ini.PostSend([]SendWR{
				{ID: 1, Op: WRSend, Flags: SendSignaled, SGL: sge(3), XRCSRQN: srq.Num()},
				{ID: 2, Op: WRWrite, Flags: SendSignaled, SGL: sge(5), RemoteAddr: 300_000, RKey: mr.RKey(), XRCSRQN: srq.Num()},
				{ID: 3, Op: WRRead, Flags: SendSignaled, SGL: sge(400_000), RemoteAddr: 300_000, RKey: mr.RKey(), XRCSRQN: srq.Num()},
			})
			must.OK(t, err)
			p.pump()
			a.take(t, 3)
			wcs := make([]WC, 2)
			n, err := recvCQ.Poll(wcs)
			must.OK(t, err)
			if n != 1 || wcs[0].Status != WCSuccess || wcs[0].ID != 50+i || wcs[0].ByteLen != size || wcs[0].SRQN != srq.Num() {
				t.Fatalf("%d completions %+v", n, wcs[:n])
			}
			equal(t, "SEND", b.mem.b[600_000:][:size], a.mem.b[3:][:size])
			equal(t, "WRITE", b.mem.b[300_000:][:size], a.mem.b[5:][:size])
			equal(t, "READ", a.mem.b[400_000:][:size], b.mem.b[300_000:][:size])
		}
	}
}

// FuzzTarget is FuzzResponder for a target: every receive work request of its SRQs completes once,
// or stays.
func FuzzTarget(f *testing.F) {
	f.Add([]byte{0x04, 0, 8, 0, 0, 0, 0})
	f.Add([]byte{0x00, 0, 255, 0, 0, 0, 0, 0x02, 0, 9, 0, 0, 0, 0, 0x04, 0, 9, 0, 0, 8, 0})
	f.Add([]byte{0x00, 0, 255, 0, 0, 8, 0, 0x02, 0, 9, 0, 0, 16, 0, 0x0c, 0, 0, 16, 0, 0, 3, 0x13, 0, 0, 0, 0, 8, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		b := newTargetBench(t)
		numbers := []uint32{b.srqs[0].Num(), b.srqs[1].Num(), b.stranger.Num(), 0}
		const posted = 4
		for i, srq := range b.srqs {
			for id := range uint64(posted) {
				b.post(srq, uint64(i)<<8|id, 400)
			}
		}
		for len(in) >= 7 {
			var batch []pkt
			for len(in) >= 7 && len(batch) < 4 {
				p := b.fuzzed(in[:7])
				if p.h.Opcode = wire.ServiceXRC.Of(p.h.Opcode.Operation()); !p.h.Opcode.Info().Valid() {
					p.h.Opcode = wire.XRCSendOnly
				}
				p.h.XRCSRQN = numbers[in[5]>>3&3]
				batch, in = append(batch, p), in[7:]
			}
			b.send(batch...)
			b.clock.now = max(b.clock.now+1, b.clock.armed)
			b.dev.Expire()
			b.link.bursts = nil
		}
		b.must(b.qp.Modify(&QPAttr{State: QPErr}, QPAttrState))
		b.wantGuard()
		for i, srq := range b.srqs {
			wcs := make([]WC, 16)
			n, err := b.cqs[i].Poll(wcs)
			b.must(err)
			for id, wc := range wcs[:n] {
				if wc.ID != uint64(i)<<8|uint64(id) {
					t.Fatalf("SRQ %d: completion %d is that of receive %#x", i, id, wc.ID)
				}
			}
			if left := srq.own.Len(); n+left != posted {
				t.Fatalf("SRQ %d: %d receives have completed and %d are left, of %d", i, n, left, posted)
			}
		}
		b.must(b.remote.Dereg()) // waits for ever if a regionRef was not released
		b.must(b.local.Dereg())
	})
}

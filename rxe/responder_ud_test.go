package rxe

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// A UC message with a missing packet is given up silently, and its receive buffer
// is used for the next message.
func TestResponderUCGaps(t *testing.T) {
	f := func(psn wire.PSN) pkt { return req(wire.UCSendFirst, psn, pattern(benchMTU)) }
	m := func(psn wire.PSN) pkt { return req(wire.UCSendMiddle, psn, pattern(benchMTU)) }
	l := func(psn wire.PSN) pkt { return req(wire.UCSendLast, psn, pattern(8)) }
	only := func(psn wire.PSN) pkt { return req(wire.UCSendOnly, psn, pattern(4)) }
	for _, tc := range []struct {
		name string
		pkts []pkt
		lens []uint32 // of the messages that complete
	}{
		{"in order", []pkt{f(100), l(101), only(102)}, []uint32{benchMTU + 8, 4}},
		{"no FIRST", []pkt{m(101), l(102), only(103)}, []uint32{4}},
		{"no MIDDLE", []pkt{f(100), l(102), only(103)}, []uint32{4}},
		{"no LAST", []pkt{f(100), m(101), only(103)}, []uint32{4}},
		{"no LAST, PSNs in order", []pkt{f(100), only(101)}, []uint32{4}},
		{"late", []pkt{only(105), only(100), f(103), l(104), only(106)}, []uint32{4, 4}},
		{"duplicate inside a message", []pkt{f(100), f(100), l(101), l(101)}, []uint32{benchMTU + 8}},
		{"far behind", []pkt{only(105), only(105 - ucLate - 1 + 1<<24), only(105 - ucLate + 1<<24)}, []uint32{4, 4, 4}},
		{"empty LAST", []pkt{f(100), req(wire.UCSendLast, 101, nil), only(102)}, []uint32{4}},
		{"too long", []pkt{f(100), m(101), m(102), l(103), only(104)}, []uint32{4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, QPUC, nil)
			for i := range tc.lens {
				b.post(uint64(i), uint64(i)*2*benchMTU, 2*benchMTU)
			}
			b.send(tc.pkts...)
			b.want()
			wcs := b.polled()
			if len(wcs) != len(tc.lens) {
				t.Fatalf("%d completions %+v, want %d", len(wcs), wcs, len(tc.lens))
			}
			for i, wc := range wcs {
				if wc.ID != uint64(i) || wc.ByteLen != tc.lens[i] || wc.Status != WCSuccess {
					t.Errorf("completion %d: %+v", i, wc)
				}
			}
			b.wantState(QPRTR)
			b.wantGuard()
		})
	}
}

// A UC peer's mistakes change nothing and end nothing.
func TestResponderUCDrops(t *testing.T) {
	b := newBench(t, QPUC, nil)
	b.send(req(wire.UCSendOnly, 100, pattern(4))) // nothing posted
	b.send(req(wire.UCWriteOnly, 101, pattern(8), b.at(remoteLen, 8)))
	b.send(req(wire.UCWriteOnly, 102, pattern(8), b.at(0, 12)))
	b.want()
	b.wantState(QPRTR)
	b.wantGuard()
	if n := b.dev.counters.NoRecvWQE.Load(); n != 1 {
		t.Errorf("%d packets without a receive counted, want 1", n)
	}
	b.send(req(wire.UCWriteOnly, 103, pattern(8), b.at(0, 8)))
	if !bytes.Equal(b.bytes(remoteVA, 8), pattern(8)) {
		t.Error("the WRITE after them was not executed")
	}
}

func TestResponderUD(t *testing.T) {
	b := newBench(t, QPUD, nil)
	from := func(h *wire.Headers) { h.QKey, h.SrcQP, h.Imm, h.AckReq = benchQKey, 0x4321, 9, false }
	wrong := func(h *wire.Headers) { from(h); h.QKey++ }
	data := pattern(1000)
	b.send(req(wire.UDSendOnly, 5, data, from)) // nothing posted
	b.post(1, 0, 40, 500, 500)
	b.send(req(wire.UDSendOnly, 5, data, wrong))
	b.send(req(wire.UDSendOnly, 5, pattern(1001), from)) // does not fit; the buffer stays
	b.wantWC()
	b.send(req(wire.UDSendOnlyImm, 77, data, from))
	wc := b.wantWC(WC{ID: 1})
	want := WC{ID: 1, Opcode: WCRecv, Flags: WCGRH | WCWithImm, Imm: 9, ByteLen: 1040, QPN: b.qp.qpn, SrcQP: 0x4321, SL: SLRoCEv2IPv4}
	if wc != nil && wc[0] != want {
		t.Errorf("completion %+v, want %+v", wc[0], want)
	}
	if !bytes.Equal(b.bytes(localVA+40, len(data)), data) {
		t.Error("wrong data")
	}
	src, dst, _, hop, err := wire.ParseGRH(b.bytes(localVA, 40))
	if err != nil || src != benchThere || dst != benchHere || hop != 64 {
		t.Errorf("GRH: from %v to %v, hop limit %d, %v", src, dst, hop, err)
	}
	b.want()
	c := &b.dev.counters
	if c.BadQKey.Load() != 1 || c.NoRecvWQE.Load() != 1 || c.BadLength.Load() != 1 {
		t.Errorf("Q_Key %d, no receive %d, length %d; want 1 each",
			c.BadQKey.Load(), c.NoRecvWQE.Load(), c.BadLength.Load())
	}
	b.wantGuard()
	b.wantState(QPRTR)
}

// TestResponderUDPacketType: the completion of a datagram says over which network
// header it came, and the first byte of the GRH does too. The values are written out:
// programs compare with these numbers.
func TestResponderUDPacketType(t *testing.T) {
	here6, there6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	for name, c := range map[string]struct {
		src, dst  netip.Addr
		sl, first byte
	}{
		"IPv4":         {benchThere, benchHere, 10, 0},
		"IPv4, mapped": {netip.AddrFrom16(benchThere.As16()), netip.AddrFrom16(benchHere.As16()), 10, 0},
		"IPv6":         {there6, here6, 9, 0x60},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, QPUD, nil)
			b.must(b.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(benchHere), wire.GIDFromAddr(here6)}))
			b.post(1, 0, 40)
			copy(b.bytes(localVA, 1), []byte{0xff})
			h := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: b.qp.qpn, QKey: benchQKey}
			b.dev.Receive([]wire.Datagram{{Data: h.Append(nil), Src: c.src, Dst: c.dst}})
			wc := b.wantWC(WC{ID: 1})
			if wc != nil && wc[0].SL != c.sl {
				t.Errorf("service level %d, want %d", wc[0].SL, c.sl)
			}
			if got := b.bytes(localVA, 1)[0]; got != c.first {
				t.Errorf("the GRH begins with %#x, want %#x", got, c.first)
			}
		})
	}
}

// A receive buffer that gives no access ends the QP of every service: the fault is
// this side's own.
func TestResponderUnreliableBadBuffer(t *testing.T) {
	for name, tc := range map[string]struct {
		typ QPType
		op  wire.Opcode
	}{"UC": {QPUC, wire.UCSendOnly}, "UD": {QPUD, wire.UDSendOnly}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.typ, nil)
			_, err := b.qp.PostRecv([]RecvWR{{ID: 1, SGL: []SGE{{Addr: localVA, Length: 100, LKey: 0xbad}}}, {ID: 2}})
			b.must(err)
			b.send(req(tc.op, 100, pattern(4), func(h *wire.Headers) { h.QKey = benchQKey }))
			b.want()
			b.wantWC(WC{ID: 1, Status: WCLocProtErr}, WC{ID: 2, Status: WCFlushErr})
			b.wantState(QPErr)
		})
	}
}

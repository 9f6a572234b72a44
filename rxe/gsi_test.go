package rxe

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// mads keeps what reaches queue pair 1.
type mads struct {
	payloads [][]byte
	sources  []wire.QPN
	received func(pkt wire.Packet, from *wire.Datagram) // called too, unless nil
}

func (m *mads) ReceiveGSI(pkt wire.Packet, from *wire.Datagram) {
	m.payloads = append(m.payloads, bytes.Clone(pkt.Payload()))
	m.sources = append(m.sources, pkt.SrcQP())
	if m.received != nil {
		m.received(pkt, from)
	}
}

// toQP1 gives the device a packet to queue pair 1.
func (b *bench) toQP1(h wire.Headers, data []byte) {
	h.DestQP = GSIQPN
	raw := append(h.Append(nil), data...)
	b.dev.Receive([]wire.Datagram{{Data: raw, Src: benchThere, Dst: benchHere, HopLimit: 64}})
}

func (b *bench) counter(name string) uint64 {
	b.t.Helper()
	for _, c := range b.dev.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	b.t.Fatalf("no counter %s", name)
	return 0
}

// A packet to queue pair 1 goes to the handler if it is a UD SEND_ONLY with the
// right keys. Any other is counted, and so is every one without a handler.
func TestReceiveGSI(t *testing.T) {
	mad := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, SrcQP: GSIQPN, QKey: GSIQKey}
	for name, c := range map[string]struct {
		change  func(*wire.Headers)
		counter string // "": the handler has it
	}{
		"a MAD":        {func(*wire.Headers) {}, ""},
		"immediate":    {func(h *wire.Headers) { h.Opcode = wire.UDSendOnlyImm }, "drop_bad_type"},
		"RC":           {func(h *wire.Headers) { h.Opcode = wire.RCSendOnly }, "drop_bad_type"},
		"P_Key":        {func(h *wire.Headers) { h.PKey = 0x8001 }, "drop_bad_pkey"},
		"Q_Key":        {func(h *wire.Headers) { h.QKey = benchQKey }, "drop_bad_qkey"},
		"no handler":   {nil, "drop_bad_qpn"},
		"answers back": {func(h *wire.Headers) { h.SrcQP = 17 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, QPRC, nil)
			handler := &mads{}
			h := mad
			if c.change != nil {
				b.dev.cfg.GSI = handler
				c.change(&h)
			}
			data := pattern(256)
			b.toQP1(h, data)
			if c.counter != "" {
				if n := b.counter(c.counter); n != 1 || len(handler.payloads) != 0 {
					t.Errorf("%s is %d, and the handler has %d packets", c.counter, n, len(handler.payloads))
				}
				return
			}
			if len(handler.payloads) != 1 || !bytes.Equal(handler.payloads[0], data) || handler.sources[0] != h.SrcQP {
				t.Errorf("the handler has %d packets, of QPs %v", len(handler.payloads), handler.sources)
			}
		})
	}
}

// The handler answers from queue pair 1 during the call.
func TestSendGSI(t *testing.T) {
	b := newBench(t, QPRC, nil)
	there := AHAttr{DGID: wire.GIDFromAddr(benchThere), PortNum: 1}
	b.dev.cfg.GSI = &mads{received: func(pkt wire.Packet, from *wire.Datagram) {
		b.must(b.dev.SendGSI(there, pkt.SrcQP(), pkt.Payload()))
	}}
	for i := range wire.PSN(3) {
		data := pattern(253 + int(i))
		b.toQP1(wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, SrcQP: GSIQPN, QKey: GSIQKey,
			Pad: uint8(wire.PadLen(len(data)))}, append(bytes.Clone(data), make([]byte, wire.PadLen(len(data)))...))
		b.want(func(pkt wire.Packet) string {
			switch {
			case pkt.Opcode() != wire.UDSendOnly || pkt.DestQP() != GSIQPN || pkt.SrcQP() != GSIQPN:
				return "not a UD SEND_ONLY between queue pairs 1"
			case pkt.QKey() != GSIQKey || pkt.PKey() != wire.DefaultPKey || pkt.PSN() != i+1:
				return "wrong keys or PSN"
			case !bytes.Equal(pkt.Payload(), data):
				return "other payload"
			}
			return ""
		})
	}
	if err := b.dev.SendGSI(there, GSIQPN, make([]byte, 4097)); err == nil {
		t.Error("a payload longer than the MTU was sent")
	}
	if err := b.dev.SendGSI(AHAttr{PortNum: 1}, GSIQPN, nil); err == nil {
		t.Error("a datagram to no address was sent")
	}
	b.want()
}

// Packets of the device's own QPs, and of its own queue pair 1, reach the handler
// as well, though they never meet the link.
func TestLocalGSI(t *testing.T) {
	b := newBench(t, QPUD, nil)
	handler := &mads{}
	b.dev.cfg.GSI = handler
	b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
	own := AHAttr{DGID: wire.GIDFromAddr(benchHere), PortNum: 1}
	ah, err := b.pd.CreateAH(own)
	b.must(err)
	data := b.bytes(remoteVA, 64)
	copy(data, pattern(64))
	for _, qkey := range []uint32{GSIQKey &^ (1 << 31), GSIQKey} {
		// The high bit has the QP's own Q_Key sent (IBA 10.2.5): only one arrives.
		b.qp.attr.QKey = GSIQKey
		_, err = b.qp.PostSend([]SendWR{{Op: WRSend, AH: ah, RemoteQPN: GSIQPN, RemoteQKey: qkey,
			SGL: []SGE{{Addr: remoteVA, Length: 64, LKey: b.remote.LKey()}}}})
		b.must(err)
	}
	b.must(b.dev.SendGSI(own, GSIQPN, []byte("from itself.")))
	if len(handler.payloads) != 2 || !bytes.Equal(handler.payloads[0], data) ||
		string(handler.payloads[1]) != "from itself." {
		t.Fatalf("the handler has %d packets: %q", len(handler.payloads), handler.payloads)
	}
	if handler.sources[0] != b.qp.Num() || handler.sources[1] != GSIQPN {
		t.Errorf("they come from QPs %v", handler.sources)
	}
	if n := b.counter("drop_bad_qkey"); n != 1 {
		t.Errorf("%d packets with a bad Q_Key, want 1", n)
	}
	b.want()
}

// A handler that does not run for a while costs a bounded amount of memory.
func TestLocalGSIBounded(t *testing.T) {
	b := newBench(t, QPUD, nil)
	handler := &mads{}
	b.dev.cfg.GSI = handler
	b.dev.cfg.OnDeliver = func() {} // nobody calls Deliver yet
	own := AHAttr{DGID: wire.GIDFromAddr(benchHere), PortNum: 1}
	const sent = 2 * gsiInboxLimit / smallItemBytes
	for range sent {
		b.must(b.dev.SendGSI(own, GSIQPN, pattern(256)))
	}
	dropped := b.counter("drop_inbox_full")
	b.dev.Deliver()
	if n := uint64(len(handler.payloads)); n == 0 || dropped == 0 || n+dropped != sent {
		t.Errorf("%d packets handled and %d dropped, of %d", n, dropped, sent)
	}
}

// The thread that sends a datagram to its own device's queue pair 1 does not run queue
// pairs of programs, whose memory may not answer.
func TestSendGSIRunsNoQP(t *testing.T) {
	handler := &mads{}
	d := newLocalPair(t, 1, 1<<20, 1024, func(c *Config) { c.OnDeliver, c.GSI = func() {}, handler })
	_, err := d.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: 10_000,
		SGL: []SGE{{Length: 5000, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	d.dev.cfg.OnDeliver = nil
	own := AHAttr{DGID: d.dev.GIDs()[0], PortNum: 1}
	must.OK(t, d.dev.SendGSI(own, GSIQPN, pattern(256)))
	d.take(t, 0)
	if len(handler.payloads) != 1 {
		t.Errorf("%d datagrams arrived", len(handler.payloads))
	}
	d.dev.Deliver()
	d.take(t, 1)
}

// TestForgedDatagram: a packet of a connected queue pair that a fault rule made a datagram, and
// whose payload says that queue pair 1 sent it, is dropped.
func TestForgedDatagram(t *testing.T) {
	b := newBench(t, QPUD, nil)
	handler := &mads{}
	b.dev.cfg.GSI = handler
	for _, to := range []struct {
		qpn  wire.QPN
		qkey uint32
	}{{GSIQPN, GSIQKey}, {b.qp.Num(), benchQKey}} {
		h := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: to.qpn, SrcQP: GSIQPN, QKey: to.qkey}
		dg := wire.Datagram{Data: append(h.Append(nil), make([]byte, 64+wire.ICRCLen)...), Src: b.from, Dst: benchHere, SrcQP: 17}
		b.dev.Receive([]wire.Datagram{dg})
	}
	if n := b.counter("drop_bad_src_qp"); n != 2 || len(handler.payloads) != 0 {
		t.Errorf("%d datagrams were dropped for their source, the handler has %d", n, len(handler.payloads))
	}
}

package verbsapi

import (
	"encoding/binary"
	"errors"
	"testing"

	testmust "github.com/gorxe/gorxe/internal/test/must"
)

// The key and some of the results of Microsoft's page "Verifying the RSS Hash Calculation".
var microsoftKey = [40]byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

var microsoftHashes = []struct {
	src, dst         [4]byte
	srcPort, dstPort uint16
	addresses, ports uint32
}{
	{[4]byte{66, 9, 149, 187}, [4]byte{161, 142, 100, 80}, 2794, 1766, 0x323e8fc2, 0x51ccc178},
	{[4]byte{199, 92, 111, 2}, [4]byte{65, 69, 140, 83}, 14230, 4739, 0xd718262a, 0xc626b0ea},
	{[4]byte{24, 19, 198, 95}, [4]byte{12, 22, 207, 184}, 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
	{[4]byte{38, 27, 205, 30}, [4]byte{209, 142, 163, 6}, 48228, 2217, 0x82989176, 0xafc7327f},
}

// ipv4TCP makes a TCP segment over IPv4, without checksums.
func ipv4TCP(to, from [6]byte, src, dst [4]byte, srcPort, dstPort uint16, payload string) []byte {
	b := ipv4UDP(to, from, 0, "")[:34]
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	b[16], b[17], b[23] = byte((40+len(payload))>>8), byte(40+len(payload)), 6
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, srcPort), dstPort)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0)
	return append(b, payload...)
}

// workQueue is a queue with a completion queue and four receives of 256 bytes.
func (e *rawEnd) workQueue() (*WQ, *CQ) {
	e.t.Helper()
	cq := must(e.ctx.CreateCQ(8, nil))(e.t)
	w := must(e.ctx.CreateWQ(WQInitAttr{PD: e.pd, CQ: cq, MaxWR: 4, MaxSGE: 1}))(e.t)
	if _, err := w.PostRecv([]RecvWR{{}}); !errors.Is(err, ErrInvalid) {
		e.t.Errorf("a receive in RESET: %v", err)
	}
	testmust.OK(e.t, w.Modify(WQReady))
	for i := range 4 {
		must(w.PostRecv([]RecvWR{{ID: uint64(i), SGL: []SGE{e.mr.SGE(256*i, 256)}}}))(e.t)
	}
	return w, cq
}

// TestRSS: frames of TCP are spread as Microsoft's examples have it, by addresses and ports, or by
// addresses only. Frames of which nothing is hashed go to the first queue.
func TestRSS(t *testing.T) {
	for fields, hashOf := range map[HashFields]func(i int) uint32{
		HashSrcIPv4 | HashDstIPv4 | HashSrcTCP | HashDstTCP: func(i int) uint32 { return microsoftHashes[i].ports },
		HashSrcIPv4 | HashDstIPv4:                           func(i int) uint32 { return microsoftHashes[i].addresses },
		HashSrcIPv6 | HashDstIPv6:                           func(int) uint32 { return 0 },
	} {
		ctx := testContext(t)
		a, b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{}), newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
		var wqs []*WQ
		var cqs []*CQ
		for range 4 {
			w, cq := b.workQueue()
			wqs, cqs = append(wqs, w), append(cqs, cq)
		}
		table := must(b.ctx.CreateRWQIndTable(wqs))(t)
		q := must(table.CreateQP(RXHash{Key: microsoftKey, Fields: fields}))(t)
		f := must(q.CreateFlow(FlowAttr{Specs: []FlowSpec{FlowTo(b.mac)}, Tag: 5}))(t)
		for i, m := range microsoftHashes {
			a.send(ipv4TCP(b.mac, a.mac, m.src, m.dst, m.srcPort, m.dstPort, "x"), FrameSend{Flags: FrameL3Sum | FrameL4Sum})
			a.expect(ctx, 99, WCSuccess)
			want := hashOf(i)
			var wcs [1]WC
			must(cqs[want%4].Wait(ctx, wcs[:]))(t)
			info := wcs[0].Frame()
			if wcs[0].QPN != wqs[want%4].Num() || info.Hash != want || info.Flags != FrameL3OK|FrameL4OK|FrameTag|FrameHash || info.Tag != 5 {
				t.Errorf("fields %#x, example %d: %+v, %+v", fields, i, wcs[0], info)
			}
		}
		busy := func(name string, err error) {
			t.Helper()
			if !errors.Is(err, ErrBusy) {
				t.Errorf("%s while it is in use: %v", name, err)
			}
		}
		busy("the queue pair", q.Destroy())
		testmust.OK(t, f.Destroy())
		busy("the table", table.Destroy())
		testmust.OK(t, q.Destroy())
		busy("the queue", wqs[0].Destroy(ctx))
		testmust.OK(t, table.Destroy())
		testmust.OK(t, wqs[0].Destroy(ctx))
		if _, err := b.ctx.CreateRWQIndTable(wqs); !errors.Is(err, ErrClosed) {
			t.Errorf("a table with a queue that was destroyed: %v", err)
		}
		testmust.OK(t, wqs[1].Destroy(ctx)) // that has given its places back
		if _, err := q.CreateFlow(FlowAttr{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a flow to a queue pair that was destroyed: %v", err)
		}
	}
}

// TestWQ: the states of a work queue. Without memory for a frame, or a place for its completion, it
// fails.
func TestWQ(t *testing.T) {
	ctx := testContext(t)
	a, b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{}), newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	w, cq := b.workQueue()
	wantFlushed := func(n int) {
		t.Helper()
		var wcs [8]WC
		for got := 0; got < n; {
			k := must(cq.Wait(ctx, wcs[:]))(t)
			for _, wc := range wcs[:k] {
				if wc.Status != WCFlushErr {
					t.Errorf("%+v", wc)
				}
			}
			got += k
		}
	}
	testmust.OK(t, w.Modify(WQReady))
	testmust.OK(t, w.Modify(WQError))
	wantFlushed(4)
	if err := w.Modify(WQReady); !errors.Is(err, ErrInvalid) {
		t.Errorf("ERR to RDY: %v", err)
	}
	testmust.OK(t, w.Modify(WQReset))
	testmust.OK(t, w.Modify(WQReady))
	must(w.PostRecv([]RecvWR{{ID: 1, SGL: []SGE{{Addr: 1, Length: 100, LKey: 12345}}}, {ID: 2}}))(t)
	toAll := func(w *WQ) {
		q := must(must(b.ctx.CreateRWQIndTable([]*WQ{w}))(t).CreateQP(RXHash{}))(t)
		must(q.CreateFlow(FlowAttr{Specs: []FlowSpec{FlowTo(b.mac)}}))(t)
	}
	toAll(w)
	a.send(frame(b.mac, a.mac, "to nowhere"), FrameSend{})
	var wcs [1]WC
	must(cq.Wait(ctx, wcs[:]))(t)
	if wcs[0].ID != 1 || wcs[0].Status != WCLocProtErr {
		t.Errorf("%+v", wcs[0])
	}
	wantFlushed(1)

	small := must(b.ctx.CreateCQ(1, nil))(t)
	w = must(b.ctx.CreateWQ(WQInitAttr{PD: b.pd, CQ: small, MaxWR: 4, MaxSGE: 1}))(t)
	testmust.OK(t, w.Modify(WQReady))
	toAll(w)
	for i := range 3 {
		must(w.PostRecv([]RecvWR{{ID: uint64(i), SGL: []SGE{b.mr.SGE(0, 256)}}}))(t)
		a.send(frame(b.mac, a.mac, "one too many"), FrameSend{})
	}
	for _, want := range []EventType{EventCQErr, EventWQFatal} {
		ev := must(b.ctx.GetAsyncEvent(ctx))(t)
		if ev.Type != want || want == EventWQFatal && ev.WQ != w {
			t.Errorf("%+v", ev)
		}
		ev.Ack()
	}
}

// TestRSSRefused: what cannot be a work queue, a table or a queue pair with one.
func TestRSSRefused(t *testing.T) {
	c := openTest(t, Config{})
	b := newRawEnd(t, c, QPInitAttr{})
	w, _ := b.workQueue()
	other := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	foreign, _ := other.workQueue()
	two := must(c.CreateRWQIndTable([]*WQ{w, w}))(t)
	for name, call := range map[string]func() error{
		"no domain":       func() error { _, err := c.CreateWQ(WQInitAttr{CQ: b.cq}); return err },
		"a foreign CQ":    func() error { _, err := c.CreateWQ(WQInitAttr{PD: b.pd, CQ: other.cq}); return err },
		"a huge queue":    func() error { _, err := c.CreateWQ(WQInitAttr{PD: b.pd, CQ: b.cq, MaxWR: 1 << 30}); return err },
		"an empty table":  func() error { _, err := c.CreateRWQIndTable(nil); return err },
		"three queues":    func() error { _, err := c.CreateRWQIndTable([]*WQ{w, w, w}); return err },
		"4,096 queues":    func() error { _, err := c.CreateRWQIndTable(make([]*WQ, 4096)); return err },
		"a foreign queue": func() error { _, err := c.CreateRWQIndTable([]*WQ{w, foreign}); return err },
		"no queue":        func() error { _, err := c.CreateRWQIndTable([]*WQ{nil}); return err },
		"no fields":       func() error { _, err := two.CreateQP(RXHash{}); return err },
		"TCP and UDP":     func() error { _, err := two.CreateQP(RXHash{Fields: HashSrcTCP | HashDstUDP}); return err },
		"unknown fields":  func() error { _, err := two.CreateQP(RXHash{Fields: 1 << 9}); return err },
		"an unknown state": func() error {
			return w.Modify(7)
		},
	} {
		if err := call(); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Destroy(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("the queue of a table: %v", err)
	}
	testmust.OK(t, two.Destroy())
	testmust.OK(t, w.Destroy(t.Context())) // tables that were refused have not kept it
}

// TestFlowCounters: flows that share an object are counted together, and only what they take.
func TestFlowCounters(t *testing.T) {
	ctx := testContext(t)
	a, b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{}), newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	o := must(b.ctx.CreateCounters())(t)
	port := func(n byte) []FlowSpec {
		return []FlowSpec{FlowUDP{PortHeader{Dst: [2]byte{0, n}}, PortHeader{Dst: [2]byte{255, 255}}}}
	}
	for name, err := range map[string]error{
		"a flow without points": func() error { _, err := b.qp.CreateFlow(FlowAttr{Specs: port(7), Counters: o}); return err }(),
		"a negative index":      o.AttachPointFlow(CounterPackets, -1),
		"a large index":         o.AttachPointFlow(CounterPackets, 1<<15),
		"a read without a flow": o.Read(make([]uint64, 4)),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := o.AttachPointFlow(9, 0); !errors.Is(err, ErrNotSupported) {
		t.Errorf("an unknown description: %v", err)
	}
	testmust.OK(t, o.AttachPointFlow(CounterPackets, 2))
	testmust.OK(t, o.AttachPointFlow(CounterBytes, 0))
	seven := b.flow(FlowAttr{Specs: port(7), Counters: o})
	drop := b.flow(FlowAttr{Specs: port(8), Counters: o, Drop: true})
	b.flow(FlowAttr{Specs: port(9)})
	for i, p := range []uint16{7, 8, 9, 7} {
		b.recv(uint64(i), 0, 256)
		a.send(ipv4UDP(b.mac, a.mac, p, "payload"), FrameSend{})
		a.expect(ctx, 99, WCSuccess)
	}
	values := []uint64{1, 1, 1}
	testmust.OK(t, o.Read(values))
	if want := uint64(3 * (42 + len("payload"))); values[0] != want || values[1] != 0 || values[2] != 3 {
		t.Errorf("%v, want %d bytes and 3 frames", values, want)
	}
	if err := o.Read(values[:2]); !errors.Is(err, ErrInvalid) {
		t.Errorf("too few values: %v", err)
	}
	if err := o.AttachPointFlow(CounterPackets, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("a point after the first flow: %v", err)
	}
	if _, err := a.qp.CreateFlow(FlowAttr{Counters: o}); !errors.Is(err, ErrInvalid) {
		t.Errorf("the flow of another context: %v", err)
	}
	if err := o.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("counters of a flow: %v", err)
	}
	testmust.OK(t, seven.Destroy())
	testmust.OK(t, drop.Destroy())
	testmust.OK(t, o.Destroy())
	if _, err := b.qp.CreateFlow(FlowAttr{Counters: o}); !errors.Is(err, ErrClosed) {
		t.Errorf("counters that were destroyed: %v", err)
	}
	if err := b.qp.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("a queue pair with a flow: %v", err)
	}
	if _, err := b.qp.CreateFlow(FlowAttr{Specs: append(port(7), port(8)...)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("specs that contradict each other: %v", err)
	}
}

// TestTSO: a request with headers and a payload becomes segments, with the payload in memory or
// inline.
func TestTSO(t *testing.T) {
	ctx := testContext(t)
	a, b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{}), newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b.flow(FlowAttr{Specs: []FlowSpec{FlowTo(b.mac)}})
	x := a.qp.Ex()
	x.WRFlags = SendSignaled
	header := ipv4TCP(b.mac, a.mac, [4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 1000, 2000, "")
	const payload, mss = "abcdefghij", 4
	copy(a.buf, payload)
	for name, data := range map[string]func(){
		"in memory": func() { x.WRSetSGE(a.mr.LKey(), a.mr.Addr(), uint32(len(payload))) },
		"inline":    func() { x.WRSetInlineData([]byte(payload)) },
	} {
		for i := range 3 {
			b.recv(uint64(i), 1024*i, 1024)
		}
		x.WRStart()
		x.WRSendTSO(header, mss)
		data()
		testmust.OK(t, x.WRComplete())
		a.wait(ctx)
		for i, part := range []string{"abcd", "efgh", "ij"} {
			wc := b.expect(ctx, uint64(i), WCSuccess)
			got := b.buf[1024*i:][:wc.ByteLen]
			if seq := binary.BigEndian.Uint32(got[38:]); string(got[54:]) != part || seq != uint32(1+4*i) || wc.Flags != WCIPCsumOK {
				t.Errorf("%s, segment %d: %q, sequence %d, %v", name, i, got[54:], seq, wc.Flags)
			}
		}
	}
	for name, call := range map[string]func(){
		"no maximum":      func() { x.WRSendTSO(header, 0) },
		"a long header":   func() { x.WRSendTSO(make([]byte, 1<<16), mss) },
		"beyond inline":   func() { x.WRSendTSO(make([]byte, 65), mss) },
		"without payload": func() { x.WRSendTSO(header, mss) },
	} {
		x.WRStart()
		call()
		if err := x.WRComplete(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rc := newEnd(t, a.ctx, endConfig{typ: QPUD, bufSize: 8, depth: 1})
	rc.qp.Activate() //nolint:errcheck // it may send in any state that has a queue
	if _, err := rc.qp.PostSend([]SendWR{{Op: WRSend, Header: header}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a header on UD: %v", err)
	}
	init := QPInitAttr{Type: QPRC, SendCQ: a.cq, RecvCQ: a.cq}
	if _, err := a.ctx.CreateQPEx(QPInitAttrEx{QPInitAttr: init, PD: a.pd, SendOps: SendOpTSO}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("TSO with RC: %v", err)
	}
	init.Type = QPRaw
	must(a.ctx.CreateQPEx(QPInitAttrEx{QPInitAttr: init, PD: a.pd, SendOps: SendOpTSO}))(t)
}

package gsi

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

var portCounters = wire.PortCounters{
	LinkDowned: 3, RcvErrors: 70000, XmitDiscards: 5, XmitData: 1 << 40, RcvData: 7, XmitPackets: 8, RcvPackets: 9,
}

func fixedCounters() *PortCounters {
	return NewPortCounters(func() wire.PortCounters { return portCounters })
}

// perf returns a request for performance management of a port.
func perf(a wire.PMAttribute, port uint8) *wire.MAD {
	mad := request(wire.MADClassPerformance, wire.MADGet, uint16(a))
	wire.PMPortCounters{MAD: mad}.SetPortSelect(port)
	return mad
}

// asker returns a function that asks a host with port counters, and returns its answer. It
// holds the header against the request's.
func asker(t *testing.T) func(*wire.MAD) *wire.MAD {
	_, asks, answers, asked := pair(t, Config{Counters: fixedCounters()})
	asked.mux.Start(asked.dev)
	return func(mad *wire.MAD) *wire.MAD {
		t.Helper()
		asks.must(asks.mux.Send(to(there), wire.GSIQPN, mad))
		r := asks.next(answers)
		want := mad.Header()
		want.Method, want.Status = wire.MADGetResp, r.mad.Status()
		if h := r.mad.Header(); h != want {
			t.Errorf("header %+v, want %+v", h, want)
		}
		return r.mad
	}
}

// The port tells its counters, in a datagram that is otherwise clear.
func TestPerformance(t *testing.T) {
	ask := asker(t)
	info := ask(perf(wire.AttrClassPortInfo, 0))
	if v := (wire.PMClassPortInfo{MAD: info}); info.Status() != 0 || v.CapabilityMask() != 0x1500 || v.ResponseTime() != 18 {
		t.Errorf("ClassPortInfo: status %#x, capabilities %#x, response time %d", info.Status(), v.CapabilityMask(), v.ResponseTime())
	}
	for _, port := range []uint8{1, 0xff} {
		saturated := portCounters
		saturated.RcvErrors, saturated.XmitData = 1<<16-1, 1<<32-1
		m := wire.PMPortCounters{MAD: ask(perf(wire.AttrPortCounters, port))}
		if got := m.Counters(); m.Status() != 0 || m.PortSelect() != port || got != saturated {
			t.Errorf("PortCounters: status %#x, port %d, %+v", m.Status(), m.PortSelect(), got)
		}
		want := wire.PortCounters{XmitData: 1 << 40, RcvData: 7, XmitPackets: 8, RcvPackets: 9}
		x := wire.PMPortCountersExtended{MAD: ask(perf(wire.AttrPortCountersExtended, port))}
		if got := x.Counters(); x.Status() != 0 || x.PortSelect() != port || got != want {
			t.Errorf("PortCountersExtended: status %#x, port %d, %+v", x.Status(), x.PortSelect(), got)
		}
		for _, mad := range []*wire.MAD{info, m.MAD, x.MAD} {
			for i, b := range mad.Data()[112:] {
				if b != 0 {
					t.Fatalf("%v: byte %d of the data is %#x", mad, 112+i, b)
				}
			}
		}
	}
}

// What the agent does not do is refused, with the data of the request.
func TestPerformanceRefuses(t *testing.T) {
	ask := asker(t)
	version := perf(wire.AttrPortCounters, 1)
	version.Init(&wire.MADHeader{Class: wire.MADClassPerformance, ClassVersion: 2, Method: wire.MADGet, Attribute: 0x12})
	set := request(wire.MADClassPerformance, wire.MADSet, 0x12)
	for name, c := range map[string]struct {
		mad    *wire.MAD
		status uint16
	}{
		"class version":        {version, 0x0004},
		"Set":                  {set, 0x000c},
		"attribute":            {perf(0x17, 1), 0x000c},
		"port":                 {perf(wire.AttrPortCounters, 2), 0x001c},
		"port, extended width": {perf(wire.AttrPortCountersExtended, 0), 0x001c},
	} {
		got := ask(c.mad)
		want := *c.mad
		want.Answer(wire.MADGetResp, c.status)
		if *got != want {
			t.Errorf("%s: status %#x, want %#x; or other data", name, got.Status(), c.status)
		}
	}
}

// Only requests are answered, and none that a program's queue pair on the same
// device has made.
func TestPerformanceDrops(t *testing.T) {
	h := newHost(t, new(network), Config{Counters: fixedCounters()}, here)
	a := h.mux.agent(wire.MADClassPerformance)
	h.mux.dev = h.dev
	for _, method := range []wire.MADMethod{wire.MADGetResp, wire.MADSend, 5} {
		h.mux.dispatch(&datagram{from: wire.Datagram{Src: there, Dst: here}, src: wire.GSIQPN,
			mad: *request(wire.MADClassPerformance, method, 0x12)})
	}
	a.ReceiveMAD(to(here), 17, perf(wire.AttrPortCounters, 1))
	h.mux.answerUnsupported(to(here), 17, request(vendor, wire.MADGet, 1))
	if c := h.counters(); c["drop_mad_no_agent"] != 3 || c["mad_no_answer"] != 2 || c["mad_sent"] != 0 {
		t.Errorf("counted %v", c)
	}
}

// A program of this host sets counters, of either attribute, to 0 or to any value. They count on
// from there.
func TestPerformHere(t *testing.T) {
	raw := portCounters
	raw.LinkIntegrity, raw.BufferOverrun = 3, 4
	c := NewPortCounters(func() wire.PortCounters { return raw })
	m := New(Config{Counters: c})
	set := wire.PMPortCounters{MAD: perf(wire.AttrPortCounters, 1)}
	clear(set.Data())
	set.SetPortSelect(1)
	set.SetMethod(wire.MADSet)
	set.SetSelect(1<<2 | 1<<9 | 1<<12 | 1<<15) // LinkDowned, LinkIntegrity, XmitData, RcvPackets
	set.SetCounters(&wire.PortCounters{RcvErrors: 77, RcvPackets: 5})
	if !m.Perform(set.MAD) || set.Method() != wire.MADGetResp || set.Status() != 0 {
		t.Fatalf("Set is answered %v, status %#x", set.MAD, set.Status())
	}
	want := raw
	want.LinkDowned, want.LinkIntegrity, want.XmitData, want.RcvPackets = 0, 0, 0, 5
	if got := c.Basic(); got != want {
		t.Errorf("after a Set: %+v, want %+v", got, want)
	}
	answer := want
	answer.RcvErrors = 1<<16 - 1
	if got := set.Counters(); got != answer {
		t.Errorf("answered %+v, want %+v", got, answer)
	}
	if got := c.Extended(); got != raw {
		t.Errorf("the other attribute has %+v", got)
	}
	ext := wire.PMPortCountersExtended{MAD: perf(wire.AttrPortCountersExtended, 1)}
	clear(ext.Data())
	ext.SetPortSelect(0xff)
	ext.SetMethod(wire.MADSet)
	ext.SetSelect(1<<0 | 1<<3)
	if !m.Perform(ext.MAD) {
		t.Fatal("Set of the extended counters is not answered")
	}
	raw.XmitData, raw.RcvPackets = raw.XmitData+11, raw.RcvPackets+12
	if got := c.All(); got.XmitData != 11 || got.RcvPackets != 12 || got.RcvData != raw.RcvData || got.LinkDowned != 0 {
		t.Errorf("sysfs has %+v", got)
	}
	for _, bad := range []*wire.MAD{request(wire.MADClassPerformance, wire.MADSet, 1), perf(wire.AttrPortCounters, 2)} {
		if !m.Perform(bad) || bad.Status() == 0 {
			t.Errorf("%v: status %#x", bad, bad.Status())
		}
	}
	if m.Perform(request(wire.MADClassPerformance, wire.MADSend, 0x12)) || New(Config{}).Perform(perf(wire.AttrPortCounters, 1)) {
		t.Error("answered what is no request, or without an agent")
	}
}

// FuzzReceive gives a Mux any payload. It must not send more than one answer, and only to a
// request.
func FuzzReceive(f *testing.F) {
	for _, mad := range []*wire.MAD{perf(wire.AttrPortCounters, 1), perf(wire.AttrPortCountersExtended, 0xff),
		request(vendor, wire.MADSet, 3), request(wire.MADClassCM, wire.MADSend, 0x10), request(1, wire.MADGet, 0x11)} {
		f.Add(mad[:], uint32(1))
	}
	f.Add([]byte{1, 2, 3, 4}, uint32(5))
	f.Fuzz(func(t *testing.T, payload []byte, src uint32) {
		if len(payload) > 4096 || len(payload)%4 != 0 {
			t.Skip("not the payload of a packet")
		}
		n := new(network)
		h := newHost(t, n, Config{Counters: fixedCounters()}, here)
		answers := make(chan received, 2)
		peer := &host{t: t, mux: New(Config{})}
		peer.init(n, &reader{to: answers}, []netip.Addr{there})
		h.mux.dev = h.dev
		head := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: wire.GSIQPN, SrcQP: wire.QPN(src & wire.QPNMask), QKey: wire.GSIQKey}
		h.dev.Receive([]wire.Datagram{{Data: append(head.Append(nil), payload...), Src: there, Dst: here, HopLimit: 64}})
		mad, err := wire.ParseMAD(payload)
		request := err == nil && (mad.Method() == wire.MADGet || mad.Method() == wire.MADSet)
		select {
		case d := <-h.mux.others:
			if err != nil {
				t.Fatalf("%v was queued", err)
			}
			h.mux.dispatch(d)
		default:
			if err == nil {
				t.Fatal("was not queued")
			}
		}
		if sent := h.counters()["mad_sent"]; sent > 1 || sent == 1 && !request {
			t.Fatalf("%d answers", sent)
		}
	})
}

var _ rxe.GSI = (*Mux)(nil)

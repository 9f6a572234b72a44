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

// perf returns a request for performance management of a port.
func perf(a wire.PMAttribute, port uint8) *wire.MAD {
	mad := request(wire.MADClassPerformance, wire.MADGet, uint16(a))
	wire.PMPortCounters{MAD: mad}.SetPortSelect(port)
	return mad
}

// asker returns a function that asks a host with port counters, and returns its answer. It
// holds the header against the request's.
func asker(t *testing.T) func(*wire.MAD) *wire.MAD {
	_, asks, answers, asked := pair(t, Config{Counters: func() wire.PortCounters { return portCounters }})
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
	h := newHost(t, new(network), Config{Counters: func() wire.PortCounters { return portCounters }}, here)
	a := h.mux.agent(wire.MADClassPerformance)
	h.mux.dev = h.dev
	for _, method := range []wire.MADMethod{wire.MADGetResp, wire.MADSend, 5} {
		a.ReceiveMAD(to(there), wire.GSIQPN, request(wire.MADClassPerformance, method, 0x12))
	}
	a.ReceiveMAD(to(here), 17, perf(wire.AttrPortCounters, 1))
	h.mux.answerUnsupported(to(here), 17, request(vendor, wire.MADGet, 1))
	if c := h.counters(); c["drop_mad_no_agent"] != 3 || c["mad_no_answer"] != 2 || c["mad_sent"] != 0 {
		t.Errorf("counted %v", c)
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
		h := newHost(t, n, Config{Counters: func() wire.PortCounters { return portCounters }}, here)
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

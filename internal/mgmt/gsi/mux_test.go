package gsi

import (
	"maps"
	"testing"

	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const vendor wire.MADClass = 0x32

// A datagram reaches the agent of its class, and the answer to the address that comes with
// it leaves from the address that was asked.
func TestAgent(t *testing.T) {
	n, asks, answers, asked := pair(t, Config{})
	got := make(chan received, 1)
	asked.mux.Register(vendor, &reader{to: got})
	asked.mux.Register(vendor+1, &reader{to: nil}) // blocks for ever
	asked.mux.Start(asked.dev)
	for i, a := range []string{"10.0.0.1", "fd00::1"} {
		src := wire.GIDFromAddr(addr(a))
		asks.must(asks.dev.SetGIDs([]wire.GID{src}))
		n.mu.Lock()
		n.devices[addr(a)] = asks.dev
		n.mu.Unlock()
		dst := [...]rxe.AHAttr{to(there), to(other)}[i]
		dst.TrafficClass, dst.HopLimit = 0xa3, 7 // with ECN bits
		q := request(vendor, wire.MADGet, 5)
		asks.must(asks.mux.Send(dst, wire.GSIQPN, q))
		r := asks.next(got)
		want := rxe.AHAttr{DGID: src, SGIDIndex: uint8(i), TrafficClass: 0xa0, PortNum: 1}
		if r.from != want || r.src != wire.GSIQPN || *r.mad != *q {
			t.Errorf("received %v from %+v, want %+v", r.mad, r.from, want)
		}
		r.mad.Answer(wire.MADGetResp, 0)
		asked.must(asked.mux.Send(r.from, r.src, r.mad))
		if back := asks.next(answers); back.from.DGID != dst.DGID || *back.mad != *r.mad {
			t.Errorf("the answer %v came from %+v", back.mad, back.from)
		}
	}
	if c := asked.counters(); !maps.Equal(c, map[string]uint64{"mad_rcvd": 2, "mad_sent": 2}) {
		t.Errorf("counted %v", c)
	}
}

// Requests that no agent takes are answered as Linux does, all else is dropped.
func TestNoAgent(t *testing.T) {
	for name, c := range map[string]struct {
		mad     *wire.MAD
		counter string // "": answered
	}{
		"Get":            {request(vendor, wire.MADGet, 1), ""},
		"Set":            {request(wire.MADClassSubnetAdmin, wire.MADSet, 1), ""},
		"Send":           {request(vendor, wire.MADSend, 1), "drop_mad_no_agent"},
		"a response":     {request(vendor, wire.MADGetResp, 1), "drop_mad_no_agent"},
		"CM, Send":       {request(wire.MADClassCM, wire.MADSend, 0x10), "drop_mad_no_agent"},
		"CM, class info": {request(wire.MADClassCM, wire.MADGet, 1), ""},
		"CM, Get":        {request(wire.MADClassCM, wire.MADGet, 0x10), "drop_mad_malformed"},
		"subnet, LID":    {request(0x01, wire.MADGet, 0x11), "drop_mad_malformed"},
		"subnet, path":   {request(0x81, wire.MADGet, 0x11), "drop_mad_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, asks, answers, asked := pair(t, Config{})
			asked.mux.Register(vendor+1, &reader{to: nil})
			asked.mux.Start(asked.dev)
			asks.must(asks.mux.Send(to(there), wire.GSIQPN, c.mad))
			last := request(vendor, wire.MADGet, 2) // is answered, and so ends the wait
			asks.must(asks.mux.Send(to(there), wire.GSIQPN, last))
			r := asks.next(answers)
			if c.counter == "" {
				want := *c.mad
				want.Answer(wire.MADGetResp, 0x000c)
				if *r.mad != want {
					t.Errorf("answered %v, status %#x", r.mad, r.mad.Status())
				}
				r = asks.next(answers)
			} else if n := asked.counters()[c.counter]; n != 1 {
				t.Errorf("counted %v", asked.counters())
			}
			if r.mad.Attribute() != 2 {
				t.Errorf("answered %v", r.mad)
			}
		})
	}
}

// The connection manager's agent receives what is sent, and no requests.
func TestConnectionManager(t *testing.T) {
	_, asks, answers, asked := pair(t, Config{})
	got := make(chan received, 4)
	asked.mux.Register(wire.MADClassCM, &reader{to: got})
	asked.mux.Start(asked.dev)
	for _, mad := range []*wire.MAD{request(wire.MADClassCM, wire.MADGet, 1), request(wire.MADClassCM, wire.MADSend, 0x10)} {
		asks.must(asks.mux.Send(to(there), wire.GSIQPN, mad))
	}
	if r := asks.next(got); r.mad.Method() != wire.MADSend {
		t.Errorf("the agent has %v", r.mad)
	}
	if r := asks.next(answers); r.mad.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("answered %v, status %#x", r.mad, r.mad.Status())
	}
	asked.mux.Register(wire.MADClassCM, nil)
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(wire.MADClassCM, wire.MADSend, 0x10)))
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADGet, 1)))
	asks.next(answers)
	if n := asked.counters()["drop_mad_no_agent"]; n != 1 || len(got) != 0 {
		t.Errorf("after Register of nil: counted %v", asked.counters())
	}
}

// taker takes what is of its class.
type taker struct {
	reader
	class wire.MADClass
}

func (t *taker) TakeMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) bool {
	if mad.Class() != t.class {
		return false
	}
	t.ReceiveMAD(from, src, mad)
	return true
}

// The Taker gets the datagrams that no agent takes. Those that it leaves are answered as without
// it.
func TestTaker(t *testing.T) {
	_, asks, answers, asked := pair(t, Config{Counters: fixedCounters()})
	taken := make(chan received, 4)
	asked.mux.Offer(&taker{reader{taken}, wire.MADClassPerformance})
	asked.mux.Start(asked.dev)
	for _, mad := range []*wire.MAD{perf(wire.AttrPortCounters, 1), request(wire.MADClassPerformance, wire.MADGetResp, 0x12),
		request(vendor, wire.MADGet, 3)} {
		asks.must(asks.mux.Send(to(there), wire.GSIQPN, mad))
	}
	if r := asks.next(answers); r.mad.Status() != 0 || r.mad.Class() != wire.MADClassPerformance {
		t.Errorf("a request to the port's agent is answered %v, status %#x", r.mad, r.mad.Status())
	}
	if r := asks.next(answers); r.mad.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("what the Taker leaves is answered %v, status %#x", r.mad, r.mad.Status())
	}
	if r := asks.next(taken); r.mad.Method() != wire.MADGetResp || r.from.DGID != to(here).DGID || len(taken) != 0 {
		t.Errorf("taken: %v from %+v, and %d more", r.mad, r.from, len(taken))
	}
	asked.mux.Offer(nil)
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(wire.MADClassPerformance, wire.MADGetResp, 0x12)))
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADGet, 3)))
	asks.next(answers)
	if len(taken) != 0 || asked.counters()["drop_mad_no_agent"] != 1 {
		t.Errorf("without a Taker: counted %v", asked.counters())
	}
}

// Datagrams of another length or version are counted.
func TestMalformed(t *testing.T) {
	_, asks, _, asked := pair(t, Config{})
	whole := request(vendor, wire.MADGet, 1)
	for _, b := range [][]byte{nil, whole[:wire.MADLen-4], append(whole[:], 0, 0, 0, 0), whole[:]} {
		if len(b) == wire.MADLen {
			b[0] = 2
		}
		asks.must(asks.dev.SendGSI(to(there), wire.GSIQPN, b))
	}
	if c := asked.counters(); !maps.Equal(c, map[string]uint64{"mad_rcvd": 4, "drop_mad_malformed": 4}) {
		t.Errorf("counted %v", c)
	}
}

// While no agent runs, a bounded number of datagrams waits, and a bounded number of one
// sender.
func TestOverflow(t *testing.T) {
	n, asks, answers, asked := pair(t, Config{Queue: 3})
	n.mu.Lock()
	n.devices[addr("10.0.0.3")] = asks.dev
	n.mu.Unlock()
	asks.must(asks.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(here), wire.GIDFromAddr(addr("10.0.0.3"))}))
	for i, source := range []uint8{0, 0, 1, 1, 0} {
		dst := to(there)
		dst.SGIDIndex = source
		asks.must(asks.mux.Send(dst, wire.GSIQPN, request(vendor, wire.MADGet, uint16(i))))
	}
	if c := asked.counters(); !maps.Equal(c, map[string]uint64{"mad_rcvd": 5, "drop_mad_overflow": 1, "drop_mad_over_share": 1}) {
		t.Errorf("counted %v", c)
	}
	asked.mux.Start(asked.dev)
	for i := range 3 {
		if r := asks.next(answers); r.mad.Attribute() != uint16(i) {
			t.Errorf("answer %d is %v", i, r.mad)
		}
	}
}

// A datagram to an address that the port has lost meanwhile is dropped.
func TestLostAddress(t *testing.T) {
	_, asks, answers, asked := pair(t, Config{})
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADGet, 1)))
	asked.must(asked.dev.SetGIDs([]wire.GID{{}, wire.GIDFromAddr(other)}))
	asks.must(asks.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(here), wire.GIDFromAddr(addr("fd00::1"))}))
	toOther := to(other)
	toOther.SGIDIndex = 1
	asks.must(asks.mux.Send(toOther, wire.GSIQPN, request(vendor, wire.MADSend, 2)))
	asked.mux.Start(asked.dev)
	must.Eventually(t, "a datagram without an agent is dropped", func() bool { return asked.counters()["drop_mad_no_agent"] > 0 })
	if n := asked.counters()["drop_mad_bad_addr"]; n != 1 || len(answers) != 0 {
		t.Errorf("counted %v", asked.counters())
	}
}

// echo answers on the spot, to its own device, until it has seen enough.
type echo struct {
	h    *host
	left int
	done chan struct{}
}

func (e *echo) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	if e.left--; e.left == 0 {
		close(e.done)
		return
	}
	e.h.must(e.h.mux.Send(from, src, mad))
}

// Queue pair 1 of one device talks to itself, and an agent may answer during its call.
func TestOwnDevice(t *testing.T) {
	h := newHost(t, new(network), Config{}, here)
	e := &echo{h: h, left: 100, done: make(chan struct{})}
	h.mux.Register(vendor, e)
	h.mux.Start(h.dev)
	h.must(h.mux.Send(to(here), wire.GSIQPN, request(vendor, wire.MADSend, 1)))
	<-e.done
	if c := h.counters(); c["mad_rcvd"] != 100 || c["mad_sent"] != 100 {
		t.Errorf("counted %v", c)
	}
}

// A send that the device refuses is counted.
func TestSendError(t *testing.T) {
	h := newHost(t, new(network), Config{}, here)
	h.mux.Start(h.dev)
	if err := h.mux.Send(to(other), wire.GSIQPN, request(vendor, wire.MADSend, 1)); err == nil {
		t.Error("a datagram to another IP version was sent")
	}
	if c := h.counters(); !maps.Equal(c, map[string]uint64{"mad_send_err": 1}) {
		t.Errorf("counted %v", c)
	}
}

// slow is an agent whose call lasts until the test lets it end.
type slow struct{ runs, end chan struct{} }

func (s slow) ReceiveMAD(rxe.AHAttr, wire.QPN, *wire.MAD) { s.runs <- struct{}{}; <-s.end }

// Close waits for the agent that runs, and may be called again, or without a Start.
func TestClose(t *testing.T) {
	_, asks, _, asked := pair(t, Config{})
	agent := slow{make(chan struct{}), make(chan struct{})}
	asked.mux.Register(vendor, agent)
	asked.mux.Start(asked.dev)
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADSend, 1)))
	<-agent.runs // Close drops what no agent has yet
	closed, waits := make(chan struct{}), leak.Running("[sync.WaitGroup.Wait")
	go func() { asked.mux.Close(); close(closed) }()
	must.Eventually(t, "Close waits for the agent", func() bool {
		select {
		case <-closed:
			t.Fatal("Close did not wait for the agent")
		default:
		}
		return leak.Running("[sync.WaitGroup.Wait") > waits
	})
	close(agent.end)
	<-closed
	asked.mux.Close()
	New(Config{}).Close()
}

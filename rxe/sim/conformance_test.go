package sim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// view is a capture of a run at some place, judged as it grows.
type view struct {
	name string
	// sees reports whether a packet is in the capture; n counts the packets of the
	// run.
	sees func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool
	taps bool // also sees what passes between queue pairs of one device
	snap int  // bytes of the transport that are kept; 0 for all
	// IPv4 identifications count to there, as those of UDP_SEGMENT do; 0: each packet has its own
	batch   uint16
	w       *world
	checker *conformance.Checker
	number  int
	found   []string
}

// views are the kinds of captures: taken at either end, with one direction only,
// with holes, without its beginning, or cut.
func views() []*view {
	at := func(host int) func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
		return func(w *world, p *simnet.Packet, fate simnet.Fate, _ int) bool {
			switch fate {
			case simnet.Duplicated:
				return false // the network's doing
			case simnet.Delivered, simnet.Discarded:
				return p.Route.Dst == w.hosts[host].addr
			default:
			}
			return p.Route.Src == w.hosts[host].addr
		}
	}
	end0 := at(0)
	return []*view{
		{name: "at host 0", sees: end0, taps: true},
		{name: "at host 1", sees: at(1)},
		{name: "sent by host 0 only", sees: func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
			return p.Route.Src == w.hosts[0].addr && end0(w, p, fate, n)
		}},
		{name: "received by host 0 only", sees: func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
			return p.Route.Dst == w.hosts[0].addr && end0(w, p, fate, n)
		}},
		{name: "with losses", sees: func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
			return uint32(n)*2654435761>>24 > 16 && end0(w, p, fate, n)
		}},
		{name: "with an interruption", sees: func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
			return n/40%3 != 1 && end0(w, p, fate, n)
		}},
		{name: "from the middle", sees: func(w *world, p *simnet.Packet, fate simnet.Fate, n int) bool {
			return n > 100 && end0(w, p, fate, n)
		}},
		{name: "cut", sees: end0, snap: 44},
		{name: "sent in batches", sees: end0, taps: true, batch: 5},
	}
}

func (v *view) start(w *world) {
	v.w = w
	var err error
	v.checker, err = conformance.New(conformance.Options{OnFinding: func(x *conformance.Finding) {
		if x.Severity == conformance.Violation && x.Rule.Name != "icrc" {
			v.found = append(v.found, x.String())
		}
	}})
	must(err)
}

// feed gives the checker a packet as a capture would hold it.
func (v *view) feed(p *simnet.Packet) {
	const ipv4, ipv6, udp = 20, 40, 8
	v.number++
	c := capture.Packet{
		Number: v.number, Time: time.Unix(0, int64(v.w.net.Now())), Kind: capture.RoCEv2,
		Src: p.Route.Src.Unmap(), Dst: p.Route.Dst.Unmap(),
		IP:           capture.IPHeader{Version: 4, HeaderLen: ipv4, DF: true, ID: p.ID, TrafficClass: p.Route.TrafficClass},
		UDP:          capture.UDPHeader{SrcPort: p.Route.SrcPort, DstPort: wire.UDPPort, Length: udp + len(p.Data)},
		Transport:    p.Data,
		TransportLen: len(p.Data),
		Network:      make([]byte, ipv4+udp),
	}
	if icrc := wire.NewICRC(&p.Route, wire.UDPPort); v.batch > 0 && icrc.Check(p.Data, p.ID, true) {
		c.IP.ID = p.ID % v.batch
		c.Transport = slices.Clone(c.Transport)
		icrc.Put(c.Transport, c.IP.ID)
	}
	if c.Src.Is6() {
		c.IP = capture.IPHeader{Version: 6, HeaderLen: ipv6, TrafficClass: p.Route.TrafficClass}
		c.Network = make([]byte, ipv6+udp)
	}
	c.IP.Length = int(c.IP.HeaderLen) + udp + len(p.Data)
	if v.snap > 0 && len(p.Data) > v.snap {
		c.Transport = p.Data[:v.snap]
	}
	v.checker.Add(&c)
}

// TestConformance checks that what the engine sends obeys the protocol. It holds
// wherever the capture is taken, whatever the network does, and however much is
// missing.
func TestConformance(t *testing.T) {
	n := seedCount(t)
	if os.Getenv("GORXE_SEEDS") == "" {
		n /= 5
	}
	var errs []error
	packets, flows, paired := 0, 0, 0
	first := seedFirst(t)
	for seed := first; seed < first+uint64(n) && len(errs) < 5; seed++ {
		all := views()
		_, err := runObserved(drawParams(seed, scaleOf(seed)), all)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, v := range all {
			v.checker.Close()
			packets += v.number
			if len(v.found) > 0 {
				errs = append(errs, fmt.Errorf("seed %d, capture %s: %d violations\n%s", seed, v.name, len(v.found), v.found[0]))
			}
			for _, f := range v.checker.Summary().Flows {
				flows++
				if f.Peer != nil {
					paired++
				}
			}
		}
	}
	t.Logf("%d packets; %d of %d flows paired", packets, paired, flows)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// runObserved is runWorld with captures of it, and of what passes between the
// queue pairs of one device.
func runObserved(p params, all []*view) (*world, error) {
	p.tap = true
	n := 0
	return runWorldWith(p, func(w *world) {
		for _, v := range all {
			v.start(w)
		}
		w.onTap = func(pkt []byte, r *wire.Route) {
			p := simnet.Packet{Data: slices.Clone(pkt), Route: *r}
			wire.NewICRC(r, wire.UDPPort).Put(p.Data, 0)
			for _, v := range all {
				if v.taps {
					v.feed(&p)
				}
			}
		}
		inner := w.net.Observe
		w.net.Observe = func(p *simnet.Packet, fate simnet.Fate) {
			inner(p, fate)
			n++
			for _, v := range all {
				if v.sees(w, p, fate, n) {
					v.feed(p)
				}
			}
		}
	})
}

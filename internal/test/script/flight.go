package script

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/wire"
)

// flight is a packet between the hosts.
type flight struct {
	from    *host
	data    []byte // BTH through ICRC
	route   wire.Route
	id      uint16
	altered bool
	entry   int // its place in the record of what was sent
}

// catch takes every packet from the network, which loses it.
func (s *Script) catch(p *simnet.Packet) bool {
	for _, h := range s.hosts {
		if h.addr == p.Route.Src {
			f := &flight{from: h, data: slices.Clone(p.Data), route: p.Route, id: p.ID, entry: len(s.sent)}
			s.sent = append(s.sent, sentPacket{flight: *f, at: s.net.Now()})
			s.flights = append(s.flights, f)
			s.printf("%s sends %s", h.name, s.words(f))
			h.captured(f, s)
		}
	}
	return false
}

// choice is which packets in flight a command is about.
type choice struct {
	n, at int // at: the position of the first, from 1
	from  string
}

func readChoice(a *args, n int) (c choice, err error) {
	at, err := a.bounded("at", 1, 1<<20)
	if err != nil {
		return c, err
	}
	c = choice{n: a.number(n), at: int(at), from: a.option("from", "")}
	if c.from != "" && c.from != "a" && c.from != "b" || c.at < 1 || c.n < min(n, 0) {
		return c, fmt.Errorf("give packets as N, at=N, from=a or from=b")
	}
	return c, nil
}

// chosen returns the packets in flight that are meant.
func (s *Script) chosen(c choice) (list []*flight) {
	at := c.at
	for _, f := range s.flights {
		if c.from != "" && f.from.name != c.from {
			continue
		}
		if at--; at < 1 && len(list) < c.n {
			list = append(list, f)
		}
	}
	return list
}

// take returns the packets meant, of which there must be all.
func (s *Script) take(c choice) ([]*flight, error) {
	if c.n < 0 {
		c.n = 1
	}
	list := s.chosen(c)
	if len(list) < c.n {
		return nil, fmt.Errorf("only %d such packets are in flight", len(list))
	}
	return list, nil
}

func (s *Script) land(f *flight) {
	s.flights = slices.DeleteFunc(s.flights, func(g *flight) bool { return g == f })
}

// arrive gives packets to the host that they are for, in one batch.
func (s *Script) arrive(list []*flight) {
	s.gathered = nil
	to := list[0].from.peer
	batch := make([]wire.Datagram, 0, len(list))
	for _, f := range list {
		s.land(f)
		s.printf("%s takes %v psn %d", to.name, wire.Opcode(f.data[0]), psnOf(f.data))
		to.captured(f, s)
		batch = append(batch, wire.Datagram{
			Data: slices.Clone(f.data[:len(f.data)-wire.ICRCLen]), Src: f.route.Src, Dst: f.route.Dst,
			SrcPort: f.route.SrcPort, TrafficClass: f.route.TrafficClass, HopLimit: f.route.HopLimit,
		})
	}
	to.dev.Receive(batch)
	s.poll()
}

// deliver is the command deliver. Without a number it delivers until nothing is in flight.
func (s *Script) deliver(a *args) error {
	together, more := a.flag("together"), a.flag("more")
	everything := len(a.words) == 0 && len(a.options) == 0 && !together && !more
	c, err := readChoice(a, -1)
	if err == nil {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	if everything {
		s.deliverAll()
		return nil
	}
	if c.n < 0 && c.at == 1 {
		c.n = len(s.chosen(choice{n: len(s.flights), at: 1, from: c.from}))
	}
	list, err := s.take(c)
	switch {
	case err != nil || len(list) == 0:
		return err
	case (together || more) && slices.ContainsFunc(list, func(f *flight) bool { return f.from != list[0].from }):
		return fmt.Errorf("packets of both hosts do not arrive together")
	}
	if len(s.gathered) > 0 && s.gathered[0].from != list[0].from {
		s.arrive(s.gathered)
	}
	switch {
	case more:
		for _, f := range list {
			s.land(f)
		}
		s.gathered = append(s.gathered, list...)
	case together || len(s.gathered) > 0:
		s.arrive(append(s.gathered, list...))
	default:
		for _, f := range list {
			s.arrive([]*flight{f})
		}
	}
	return nil
}

// maxDeliveries bounds what one command delivers: devices that answer each other without end
// are a fault.
const maxDeliveries = 20_000

func (s *Script) deliverAll() {
	if len(s.gathered) > 0 {
		s.arrive(s.gathered)
	}
	for range maxDeliveries {
		if len(s.flights) == 0 {
			return
		}
		s.arrive(s.flights[:1:1])
	}
	s.problem("endless", "packets cause packets without end")
}

func (s *Script) drop(a *args) error {
	return s.each(a, func(f *flight) {
		s.land(f)
		s.sent[f.entry].what = "lost by the script"
		s.printf("lost from %s: %v psn %d", f.from.name, wire.Opcode(f.data[0]), psnOf(f.data))
	})
}

func (s *Script) dup(a *args) error {
	return s.each(a, func(f *flight) {
		twin := *f
		twin.entry = len(s.sent)
		s.sent = append(s.sent, sentPacket{flight: twin, at: s.net.Now(), what: doubled})
		s.flights = slices.Insert(s.flights, slices.Index(s.flights, f)+1, &twin)
		s.printf("doubled from %s: %v psn %d", f.from.name, wire.Opcode(f.data[0]), psnOf(f.data))
	})
}

func (s *Script) delay(a *args) error {
	return s.each(a, func(f *flight) {
		s.land(f)
		s.flights = append(s.flights, f)
		s.printf("late from %s: %v psn %d", f.from.name, wire.Opcode(f.data[0]), psnOf(f.data))
	})
}

// alter changes a packet, as no network does and a faulty device may.
func (s *Script) alter(a *args) error {
	syndrome, err := a.bounded("syndrome", 1<<16, 255)
	if err != nil {
		return err
	}
	psn, err := a.bounded("psn", 1<<32, wire.PSNMask)
	if err != nil {
		return err
	}
	return s.each(a, func(f *flight) {
		pkt, err := wire.Parse(f.data[:len(f.data)-wire.ICRCLen])
		if err != nil {
			return
		}
		h, payload := pkt.Headers(), pkt.Payload()
		if syndrome < 1<<16 {
			h.Syndrome = wire.Syndrome(syndrome)
		}
		if psn < 1<<32 {
			h.PSN = wire.PSN(psn)
		}
		b := append(h.Append(nil), payload...)
		f.data = append(b, make([]byte, int(h.Pad)+wire.ICRCLen)...)
		f.altered = true
		s.concede("a packet was altered")
		s.printf("altered: %s", s.words(f))
	})
}

// each calls do for the packets that a command chooses, one if it gives no number.
func (s *Script) each(a *args, do func(f *flight)) error {
	c, err := readChoice(a, 1)
	if err == nil {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	list, err := s.take(c)
	for _, f := range list {
		do(f)
	}
	return err
}

func psnOf(data []byte) wire.PSN {
	return wire.PSN(uint32(data[9])<<16 | uint32(data[10])<<8 | uint32(data[11]))
}

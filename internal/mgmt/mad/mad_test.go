package mad

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// Registrations are refused as by Linux.
func TestRegister(t *testing.T) {
	_, port, _ := pair(t)
	p := newProgram(t)
	p.register(port, server)
	valid := func(change func(*Registration)) Registration {
		r := Registration{QPN: 1, Class: wire.MADClassPerformance, Version: 1, Methods: methods(wire.MADGet)}
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		r    Registration
		fine bool
	}{
		"valid":                   {valid(func(*Registration) {}), true},
		"no class":                {client(1), true},
		"no class, user RMPP":     {Registration{QPN: 1, UserRMPP: true}, false},
		"version":                 {valid(func(r *Registration) { r.Version = 0x83 }), false},
		"class 80":                {valid(func(r *Registration) { r.Class = 80 }), false},
		"directed, queue pair 0":  {valid(func(r *Registration) { r.QPN, r.Class = 0, wire.MADClassSubnetDirected }), true},
		"directed, queue pair 1":  {valid(func(r *Registration) { r.Class = wire.MADClassSubnetDirected }), false},
		"LID, queue pair 1":       {valid(func(r *Registration) { r.Class = wire.MADClassSubnetLID }), false},
		"general, queue pair 0":   {valid(func(r *Registration) { r.QPN = 0 }), false},
		"vendor without OUI":      {valid(func(r *Registration) { r.Class = vendor }), false},
		"another OUI":             {valid(func(r *Registration) { r.Class, r.OUI = vendor, [3]byte{1} }), true},
		"taken":                   {server, false},
		"another version":         {valid(func(r *Registration) { r.Class, r.OUI, r.Version = vendor, oui, 2 }), true},
		"no methods":              {Registration{QPN: 1, Class: vendor, Version: 1, OUI: oui}, true},
		"RMPP of version 2":       {valid(func(r *Registration) { r.Class, r.OUI, r.RMPP = vendor, oui, 2 }), false},
		"RMPP of another class":   {valid(func(r *Registration) { r.RMPP = 1 }), false},
		"RMPP":                    {valid(func(r *Registration) { r.Class, r.RMPP = wire.MADClassSubnetAdmin, 1 }), true},
		"connections, the kernel": {Registration{QPN: 1, Class: wire.MADClassCM, Version: 2, Methods: methods(wire.MADSend)}, false},
		"connections, Get":        {Registration{QPN: 1, Class: wire.MADClassCM, Version: 2, Methods: methods(wire.MADGet)}, true},
	} {
		a, err := port.Register(c.r, p)
		if c.fine && err != nil || !c.fine && !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
		if a != nil {
			a.Unregister()
			a.Unregister()
		}
	}
	if n := port.Agents(); n != 1 {
		t.Errorf("%d agents are left", n)
	}
}

// An agent that has gone leaves its methods to others, and its number to none for long.
func TestNumbers(t *testing.T) {
	_, port, _ := pair(t)
	p := newProgram(t)
	first := p.register(port, server)
	first.Unregister()
	second := p.register(port, server)
	if first.number == second.number {
		t.Errorf("number %d was given twice", first.number)
	}
	port.last = maxNumber - 1
	a, b, c := p.register(port, client(1)), p.register(port, client(1)), p.register(port, client(1))
	if a.number != maxNumber || b.number != 1 || c.number != 3 {
		t.Errorf("numbers %d, %d, %d", a.number, b.number, c.number)
	}
}

// A request and its answer cross the wire. The upper half of the identifier is the agent's.
func TestWire(t *testing.T) {
	_, port, other := pair(t)
	asks, answers := newProgram(t), newProgram(t)
	a, s := asks.register(port, client(1)), answers.register(other, server)
	m := message(vendor, wire.MADGet, 1)
	must.OK(t, a.Send(to(there, m)))
	q := answers.next()
	if q.MAD != *m || q.MAD.TID() != uint64(a.number)<<32|0x42 || !q.Remote || q.From.DGID != wire.GIDFromAddr(here) || q.Src != wire.GSIQPN {
		t.Errorf("received %v from %+v, %d", &q.MAD, q.From, q.Src)
	}
	// As programs answer that know addresses, and as those that know LIDs only.
	for i, grh := range []bool{true, false} {
		if i > 0 {
			must.OK(t, a.Send(to(there, m)))
			q = answers.next()
		}
		back := q.MAD
		back.Answer(wire.MADGetResp, 0)
		must.OK(t, s.Send(&Request{MAD: &back, GRH: grh, To: q.From, Dest: q.Src}))
		if r := asks.next(); r.MAD != back || !r.Remote || r.From.DGID != wire.GIDFromAddr(there) {
			t.Errorf("answered %v", &r.MAD)
		}
		asks.end(m, false)
	}
	// The port's own agent answers, and nobody's absence too.
	must.OK(t, a.Send(to(there, message(wire.MADClassPerformance, wire.MADGet, 1))))
	if r := asks.next(); r.MAD.Status() != 0 || r.MAD.Method() != wire.MADGetResp {
		t.Errorf("performance management answers %v, %#x", &r.MAD, r.MAD.Status())
	}
	must.OK(t, a.Send(to(there, message(vendor+1, wire.MADGet, 1))))
	if r := asks.next(); r.MAD.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("nobody answers %v, %#x", &r.MAD, r.MAD.Status())
	}
	// Counters are not set over the wire.
	must.OK(t, a.Send(to(there, message(wire.MADClassPerformance, wire.MADSet, 0x12))))
	if r := asks.next(); r.MAD.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("Set is answered %v, %#x", &r.MAD, r.MAD.Status())
	}
}

// Answers that nobody waits for are dropped: late ones, and forged ones.
func TestStray(t *testing.T) {
	c, port, other := pair(t)
	asks, forges := newProgram(t), newProgram(t)
	a, f := asks.register(port, client(1)), forges.register(other, client(1))
	silent := to(there, message(vendor, wire.MADSend, 1))
	silent.Timeout = 0
	must.OK(t, a.Send(silent))
	m := message(vendor, wire.MADSend, 1)
	must.OK(t, a.Send(to(there, m)))
	answer := func(change func(*wire.MAD)) {
		t.Helper()
		back := *m
		back.Answer(wire.MADGetResp, 0)
		change(&back)
		must.OK(t, f.Send(&Request{MAD: &back, GRH: true, To: to(here, nil).To, Dest: wire.GSIQPN}))
	}
	answer(func(b *wire.MAD) { b.SetTID(b.TID() + 1) })
	answer(func(b *wire.MAD) { b.SetTID(b.TID() + 1<<40) })
	answer(func(b *wire.MAD) { b[1]++ })
	answer(func(*wire.MAD) {})
	if r := asks.next(); r.MAD.TID() != m.TID() {
		t.Errorf("received %v", &r.MAD)
	}
	asks.end(m, false)
	answer(func(*wire.MAD) {}) // again
	last := message(vendor, wire.MADGet, 2)
	must.OK(t, a.Send(to(there, last)))
	asks.next()
	asks.end(last, false)
	asks.quiet()
	if n := c.sentFrom(here); n != 3 {
		t.Errorf("%d datagrams were sent", n)
	}
}

// An answer must come from where the request went.
func TestForgedSource(t *testing.T) {
	_, port, _ := pair(t)
	p := newProgram(t)
	a := p.register(port, client(1))
	m := message(vendor, wire.MADSend, 1)
	must.OK(t, a.Send(to(there, m)))
	back := *m
	back.Answer(wire.MADGetResp, 0)
	if !port.TakeMAD(to(here, nil).To, wire.GSIQPN, &back) {
		t.Error("left to others")
	}
	p.quiet()
	if !port.TakeMAD(to(there, nil).To, wire.GSIQPN, &back) {
		t.Error("left to others")
	}
	p.next()
	p.end(m, false)
}

// A datagram without an answer is sent again, and then given back.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, port, _ := pair(t)
		c.cut = true
		p := newProgram(t)
		a := p.register(port, client(1))
		m := message(vendor, wire.MADGet, 1)
		r := to(there, m)
		r.Timeout, r.Retries = 100*time.Millisecond, 3
		begin := time.Now()
		must.OK(t, a.Send(r))
		p.end(m, true)
		if took := time.Since(begin); took != 400*time.Millisecond || c.sentFrom(here) != 4 {
			t.Errorf("given up after %v and %d sends", took, c.sentFrom(here))
		}
		forever := to(there, message(vendor, wire.MADGet, 2))
		forever.Timeout = -1
		must.OK(t, a.Send(forever))
		time.Sleep(1000 * time.Hour)
		p.quiet()
		a.Unregister()
		p.end(forever.Context, false)
		if err := a.Send(to(there, m)); !errors.Is(err, unix.EIO) {
			t.Errorf("an agent that has gone sends: %v", err)
		}
	})
}

// Identifiers are unique among what waits for an answer, in each class, and apart for answers.
func TestDuplicate(t *testing.T) {
	c, port, _ := pair(t)
	c.cut = true
	p := newProgram(t)
	a := p.register(port, client(1))
	must.OK(t, a.Send(to(there, message(vendor, wire.MADGet, 1))))
	if err := a.Send(to(there, message(vendor, wire.MADSet, 2))); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the same identifier: %v", err)
	}
	must.OK(t, a.Send(to(there, message(vendor+1, wire.MADGet, 1))))
	must.OK(t, p.register(port, client(1)).Send(to(there, message(vendor, wire.MADGet, 1))))
	p.quiet()
}

// Requests without a GRH stay at the port: its agents answer, and other programs.
func TestLocal(t *testing.T) {
	_, port, _ := pair(t)
	asks, answers := newProgram(t), newProgram(t)
	a, s := asks.register(port, client(1)), answers.register(port, server)
	set := wire.PMPortCounters{MAD: message(wire.MADClassPerformance, wire.MADSet, 0x12)}
	set.SetPortSelect(1)
	set.SetSelect(1 << 3)
	must.OK(t, a.Send(local(set.MAD)))
	r := asks.next()
	if c := (wire.PMPortCounters{MAD: &r.MAD}).Counters(); r.MAD.Status() != 0 || c.RcvErrors != 0 || r.Remote || r.Src != wire.GSIQPN {
		t.Errorf("Set is answered %v, %#x, %+v", &r.MAD, r.MAD.Status(), c)
	}
	asks.end(set.MAD, false)

	m := message(vendor, wire.MADGet, 1)
	must.OK(t, a.Send(local(m)))
	q := answers.next()
	back := q.MAD
	back.Answer(wire.MADGetResp, 0)
	must.OK(t, s.Send(&Request{MAD: &back}))
	if r := asks.next(); r.MAD != back || r.Remote {
		t.Errorf("answered %v", &r.MAD)
	}
	asks.end(m, false)

	none := message(vendor+1, wire.MADGet, 1)
	must.OK(t, a.Send(local(none)))
	if r := asks.next(); r.MAD.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("nobody answers %v, %#x", &r.MAD, r.MAD.Status())
	}
	asks.end(none, false)
	for _, m := range []*wire.MAD{message(wire.MADClassCM, wire.MADSend, 0x10), message(vendor+1, wire.MADSend, 1),
		message(wire.MADClassSubnetLID, wire.MADGet, 0x11)} {
		must.OK(t, a.Send(local(m)))
		asks.end(m, true) // at once: nobody will answer
	}
	asks.quiet()
	answers.quiet()
}

// Addresses that a RoCE port does not have.
func TestBadAddress(t *testing.T) {
	_, port, _ := pair(t)
	p := newProgram(t)
	a, s := p.register(port, client(1)), p.register(port, server)
	stranger := message(vendor, wire.MADGetResp, 1)
	for name, c := range map[string]struct {
		a *Agent
		r Request
	}{
		"LID":               {a, Request{MAD: message(vendor, wire.MADGet, 1), LID: 5}},
		"GID index":         {a, *to(there, message(vendor, wire.MADGet, 1))},
		"answer to nobody":  {s, Request{MAD: stranger}},
		"RMPP, other class": {p.register(port, Registration{QPN: 1, RMPP: 1}), *to(there, message(wire.MADClassPerformance, wire.MADGet, 1))},
		"answer to LID 5":   {s, Request{MAD: stranger, LID: 5}},
		"no destination":    {a, Request{MAD: message(vendor, wire.MADGet, 1), GRH: true}},
	} {
		r := c.r
		if name == "GID index" {
			r.To.SGIDIndex = 9
		}
		if err := c.a.Send(&r); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.quiet()
	if len(a.pending) != 0 {
		t.Errorf("%d requests wait", len(a.pending))
	}
}

// Longer messages are the program's business, or refused.
func TestRMPP(t *testing.T) {
	_, port, other := pair(t)
	p, q := newProgram(t), newProgram(t)
	kernel := p.register(port, Registration{QPN: 1, Class: vendor, Version: 1, Methods: methods(wire.MADSet), OUI: oui, RMPP: 1})
	own := q.register(other, Registration{QPN: 1, Class: vendor, Version: 1, Methods: methods(wire.MADSet), OUI: oui, RMPP: 1, UserRMPP: true})
	m := message(vendor, wire.MADSet, 1)
	m[offRMPPFlags] = rmppActive
	if err := kernel.Send(to(there, m)); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("a part of a longer message: %v", err)
	}
	must.OK(t, own.Send(to(here, m)))
	answer := *m // of a message that the program puts together
	answer.Answer(wire.MADGetResp, 0)
	answer.SetTID(uint64(own.number)<<32 | 0x99)
	must.OK(t, p.register(port, client(1)).Send(&Request{MAD: &answer, GRH: true, To: to(there, nil).To, Dest: wire.GSIQPN}))
	if r := q.next(); r.MAD != answer {
		t.Errorf("received %v", &r.MAD)
	}
	plain := message(vendor, wire.MADSet, 2)
	plain.SetTID(7)
	must.OK(t, kernel.Send(to(there, plain)))
	if r := q.next(); r.MAD != *plain {
		t.Errorf("received %v", &r.MAD)
	}
	p.quiet() // its agent has not got what nobody puts together
}

// Queue pair 0 is the agent of this port. Nothing else is reached.
func TestSubnet(t *testing.T) {
	_, port, _ := pair(t)
	p := newProgram(t)
	a := p.register(port, client(0))
	directed := func(change func(wire.SMP)) *wire.MAD {
		m := wire.SMP{MAD: message(wire.MADClassSubnetDirected, wire.MADGet, uint16(wire.AttrNodeInfo))}
		m.SetLIDs(wire.LIDPermissive, wire.LIDPermissive)
		change(m)
		return m.MAD
	}
	asIs := func(wire.SMP) {}
	for name, r := range map[string]*Request{
		"directed":        {MAD: directed(asIs), LID: wire.LIDPermissive},
		"LID":             {MAD: message(wire.MADClassSubnetLID, wire.MADGet, uint16(wire.AttrNodeInfo))},
		"LID, permissive": {MAD: message(wire.MADClassSubnetLID, wire.MADGet, uint16(wire.AttrNodeInfo)), LID: wire.LIDPermissive},
	} {
		r.Timeout, r.Context = time.Hour, name
		must.OK(t, a.Send(r))
		d := p.next()
		if info := (wire.SMPNodeInfo{MAD: &d.MAD}).Info(); info.NodeGUID != 0x1234 || d.Remote || d.Src != 0 || d.MAD.TID() != r.MAD.TID() {
			t.Errorf("%s: %+v from %d", name, info, d.Src)
		}
		if hop := (wire.SMP{MAD: &d.MAD}).HopPointer(); hop != 0 && name != "directed" || hop != 1 && name == "directed" {
			t.Errorf("%s: hop pointer %d", name, hop)
		}
		p.end(name, false)
	}
	for name, r := range map[string]*Request{
		"one hop":     {MAD: directed(func(m wire.SMP) { m.SetHopCount(1) })},
		"LID part":    {MAD: directed(func(m wire.SMP) { m.SetLIDs(3, wire.LIDPermissive) })},
		"on its way":  {MAD: directed(func(m wire.SMP) { m.Answer(wire.MADGetResp, wire.SMPDirection) })},
		"another LID": {MAD: message(wire.MADClassSubnetLID, wire.MADGet, uint16(wire.AttrNodeInfo)), LID: 7},
		"other class": {MAD: message(wire.MADClassPerformance, wire.MADGet, 1)},
		"with a GRH":  to(there, message(wire.MADClassSubnetLID, wire.MADGet, 0x11)),
	} {
		r.Timeout, r.Context = time.Hour, name
		must.OK(t, a.Send(r))
		p.end(name, true)
	}
	for name, m := range map[string]*wire.MAD{
		"ends elsewhere": directed(func(m wire.SMP) { m.SetLIDs(wire.LIDPermissive, 3) }),
		"hop pointer":    directed(func(m wire.SMP) { m.SetHopPointer(1) }),
	} {
		if err := a.Send(local(m)); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.quiet()
	// A trap is for the program that is registered for it.
	trap := newProgram(t)
	trap.register(port, Registration{QPN: 0, Class: wire.MADClassSubnetLID, Version: 1, Methods: methods(5)})
	must.OK(t, a.Send(&Request{MAD: message(wire.MADClassSubnetLID, 5, 2)}))
	if d := trap.next(); d.MAD.Method() != 5 || d.Src != 0 {
		t.Errorf("received %v", &d.MAD)
	}
}

// Thousands of requests, agents that come and go: each ends once.
func TestMany(t *testing.T) {
	const rounds, each = 20, 40
	_, port, other := pair(t)
	s := newProgram(t)
	s.received = make(chan *Datagram, rounds*each)
	serves := s.register(other, server)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case q := <-s.received:
				back := q.MAD
				back.Answer(wire.MADGetResp, 0)
				_ = serves.Send(&Request{MAD: &back}) // as mad_respond_via
			}
		}
	}()
	for range rounds {
		p := newProgram(t)
		p.received = make(chan *Datagram, 2*each)
		a := p.register(port, client(1))
		for i := range each {
			m := message(vendor, wire.MADGet, uint16(i))
			m.SetTID(uint64(i))
			must.OK(t, a.Send(to(there, m)))
		}
		runtime.Gosched()
		a.Unregister()
		for range each {
			select {
			case e := <-p.ended:
				if e.timedOut {
					t.Error("given up")
				}
			case <-time.After(wait):
				t.Fatal("a request has not ended")
			}
		}
	}
	close(stop)
	<-stopped
	if n := port.Agents(); n != 0 {
		t.Errorf("%d agents are left", n)
	}
}

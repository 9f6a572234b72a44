package gsi

import (
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Agent receives the management datagrams of one class.
type Agent interface {
	// ReceiveMAD receives one datagram that queue pair src sent to queue pair 1. An
	// answer to the sender goes to from. The datagram is the agent's own copy. Calls
	// come from one goroutine, one after the other; those for datagrams that an Expecter
	// expects come from another one. Calls may send, and must not block.
	ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD)
}

// Expecter is an Agent that has exchanges under way. Their datagrams do not wait behind
// those of strangers, and strangers' datagrams do not displace them.
type Expecter interface {
	Agent
	// Expects reports whether a datagram belongs to an exchange that is under way. A
	// stranger must not be able to forge one. It must not wait; several threads may call
	// it at once.
	Expects(mad *wire.MAD) bool
}

// Taker is offered the datagrams that the agents of the classes do not take.
type Taker interface {
	// TakeMAD is Agent.ReceiveMAD for a datagram of any class. It returns false if it has
	// no use for the datagram.
	TakeMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) bool
}

// Config describes a Mux.
type Config struct {
	// Queue is how many datagrams of a lane wait for the agents; 0 means 2048. When the
	// lane is full, further ones are dropped, as any network may drop them.
	Queue int
	// Counters are the port's counters, for performance management. Nil: the port has
	// no agent of that class.
	Counters *PortCounters
}

const defaultQueue = 2048

// datagram is a received datagram in a lane.
type datagram struct {
	from wire.Datagram // all but Data
	src  wire.QPN
	mad  wire.MAD
}

// Mux handles the packets to queue pair 1 of one device. It implements rxe.GSI.
type Mux struct {
	expected lane // datagrams that an Expecter expects
	others   lane
	shares   shares    // of others
	free     sync.Pool // of *datagram
	counters counters
	pma      *pma // nil: none

	dev *rxe.Device // set before the goroutines start

	mu     sync.Mutex // a leaf lock
	agents map[wire.MADClass]Agent
	taker  Taker

	closing chan struct{}
	closed  sync.WaitGroup
	once    sync.Once
}

// New makes a Mux, which rxe.Config.GSI then names. Datagrams wait in its lanes until
// Start.
func New(cfg Config) *Mux {
	n := cfg.Queue
	if n == 0 {
		n = defaultQueue
	}
	m := &Mux{
		expected: make(lane, n),
		others:   make(lane, n),
		shares:   newShares(n),
		free:     sync.Pool{New: func() any { return new(datagram) }},
		agents:   make(map[wire.MADClass]Agent),
		closing:  make(chan struct{}),
	}
	if cfg.Counters != nil {
		m.pma = &pma{m, cfg.Counters}
		m.Register(wire.MADClassPerformance, m.pma)
	}
	return m
}

// Start begins to call the agents. The device dev is the one whose packets the Mux
// receives. Start must be called once, and before Send and Close.
func (m *Mux) Start(dev *rxe.Device) {
	m.dev = dev
	m.closed.Go(func() { m.run(m.expected, nil) })
	m.closed.Go(func() { m.run(m.others, &m.shares) })
}

// Close ends the goroutines, after calls of agents that are under way. Datagrams in the
// lanes are lost. An agent must not call it. Close the Mux before its device.
func (m *Mux) Close() {
	m.once.Do(func() { close(m.closing) })
	m.closed.Wait()
}

// Register makes a the agent of a class. A nil Agent removes it; a call that is under way
// may end after Register returns.
func (m *Mux) Register(class wire.MADClass, a Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a == nil {
		delete(m.agents, class)
		return
	}
	m.agents[class] = a
}

// Offer makes t the Taker; nil: none. As with Register, a call may be under way.
func (m *Mux) Offer(t Taker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taker = t
}

// take offers a datagram to the Taker.
func (m *Mux) take(from rxe.AHAttr, d *datagram) bool {
	m.mu.Lock()
	t := m.taker
	m.mu.Unlock()
	if t == nil {
		return false
	}
	mad := d.mad
	return t.TakeMAD(from, d.src, &mad)
}

func (m *Mux) agent(class wire.MADClass) Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agents[class]
}

// Send sends a datagram from queue pair 1 to queue pair dest at the address to. The errors
// are those of rxe.Device.SendGSI. Any goroutine may call it, with no QP locked.
func (m *Mux) Send(to rxe.AHAttr, dest wire.QPN, mad *wire.MAD) error {
	err := m.dev.SendGSI(to, dest, mad[:])
	if err != nil {
		m.counters.SendErrors.Add(1)
		return err
	}
	m.counters.Sent.Add(1)
	return nil
}

// ReceiveGSI queues a packet to queue pair 1. It never waits.
func (m *Mux) ReceiveGSI(pkt wire.Packet, from *wire.Datagram) {
	c := &m.counters
	c.Received.Add(1)
	mad, err := wire.ParseMAD(pkt.Payload())
	if err != nil {
		c.Malformed.Add(1)
		return
	}
	d := m.free.Get().(*datagram)
	d.from, d.src, d.mad = *from, pkt.SrcQP(), *mad
	d.from.Data = nil // valid during the call only
	if dropped := m.queue(d); dropped != nil {
		dropped.Add(1)
		m.free.Put(d)
	}
}

// queue puts a datagram into its lane. If it cannot, it returns the counter for that.
func (m *Mux) queue(d *datagram) (dropped *atomic.Uint64) {
	if e, ok := m.agent(d.mad.Class()).(Expecter); ok && e.Expects(&d.mad) {
		if !m.expected.put(d) {
			return &m.counters.ExpectedOverflow
		}
		return nil
	}
	if !m.shares.take(d.from.Src) {
		return &m.counters.OverShare
	}
	if !m.others.put(d) {
		m.shares.give(d.from.Src)
		return &m.counters.Overflow
	}
	return nil
}

// run calls the agents for the datagrams of a lane. Nil shares are those of a lane that has
// none.
func (m *Mux) run(l lane, s *shares) {
	for {
		select {
		case <-m.closing:
			return
		case d := <-l:
			if s != nil {
				s.give(d.from.Src)
			}
			m.dispatch(d)
			m.free.Put(d)
		}
	}
}

// dispatch hands a datagram to its agent, or answers it.
func (m *Mux) dispatch(d *datagram) {
	from, ok := m.address(&d.from)
	if !ok {
		m.counters.BadAddress.Add(1)
		return
	}
	if !acceptable(&d.mad) {
		m.counters.Malformed.Add(1)
		return
	}
	if a := m.agent(d.mad.Class()); a != nil && takes(&d.mad) {
		mad := d.mad
		a.ReceiveMAD(from, d.src, &mad)
		return
	}
	if m.take(from, d) {
		return
	}
	m.answerUnsupported(from, d.src, &d.mad)
}

// address returns where an answer to a datagram goes. It leaves from the address that the
// datagram came to; ok is false if the port has lost that address.
func (m *Mux) address(dg *wire.Datagram) (to rxe.AHAttr, ok bool) {
	i, ok := m.dev.GIDIndex(wire.GIDFromAddr(dg.Dst))
	if !ok || i > 0xff { // an AHAttr has room for no more
		return rxe.AHAttr{}, false
	}
	const ecn = 3 // bits of the path, not of the sender (RFC 3168)
	return rxe.AHAttr{
		DGID: wire.GIDFromAddr(dg.Src), SGIDIndex: uint8(i), TrafficClass: dg.TrafficClass &^ ecn, PortNum: 1,
	}, true
}

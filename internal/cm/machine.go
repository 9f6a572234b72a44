package cm

import (
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Config says what a Machine works with.
type Config struct {
	// GUID is the device's node GUID. Peers know a connection by it and by the comm ID.
	GUID uint64
	// Random returns random bits, for comm IDs, transaction identifiers and PSNs.
	Random func() uint32
	// Send sends a datagram from queue pair 1 to queue pair 1. The datagram is valid
	// during the call. Send must not call the Machine.
	Send func(to rxe.AHAttr, mad *wire.MAD)
	// Opened and Ended, unless nil, are called with the comm ID of a connection when it
	// begins and ends to exist. They must not call the Machine.
	Opened, Ended func(commID uint32)
	// PeerUser, unless nil, returns the user of the connection with a comm ID at an address, if
	// that address is one of this process's devices; nil: not known. It may call UserOf of any
	// Machine, and nothing else.
	PeerUser func(at wire.GID, commID uint32) any
	// TargetACKDelay is what a REP announces: how long the device takes to
	// acknowledge, 4.096 µs times 2 to this power. 0 means that of rdma_rxe, 15.
	TargetACKDelay uint8
	// Limits bounds the memory. Zero fields have defaults.
	Limits Limits
}

// Machine is the connection manager of one device.
type Machine struct {
	cfg       Config
	tidHigh   uint64 // the upper 32 bits of transaction identifiers; the lower ones are 0
	ids       idSource
	conns     map[uint32]*Conn // by local comm ID
	peers     peerTable
	lookups   map[sidrRequest]*Conn
	listeners map[uint64]*Listener
	timers    timerHeap
	counts    counts
	counters  Counters
	closed    bool
	out       wire.MAD // for messages that are not sent again
}

// New returns a Machine without connections.
func New(cfg Config) *Machine {
	if cfg.TargetACKDelay == 0 {
		cfg.TargetACKDelay = defaultTargetACKDelay
	}
	cfg.Limits.setDefaults()
	m := &Machine{
		cfg:       cfg,
		ids:       newIDSource(cfg.Random),
		conns:     make(map[uint32]*Conn),
		peers:     newPeerTable(),
		lookups:   make(map[sidrRequest]*Conn),
		listeners: make(map[uint64]*Listener),
		counts:    newCounts(),
	}
	// Linux takes the upper half from the number of the MAD agent, of which it uses
	// 24 bits.
	m.tidHigh = uint64(cfg.Random()&0xffffff) << 32
	return m
}

// Receive takes a datagram of the connection manager's class. An answer to its sender
// goes to from. The datagram may be reused when Receive returns.
func (m *Machine) Receive(now rxe.Time, from rxe.AHAttr, mad *wire.MAD) {
	msg, err := wire.ParseCM(mad[:])
	if err != nil || mad.Method() != wire.MADSend || m.closed {
		m.counters.Ignored++
		return
	}
	m.counters.RxMsgs.add(msg.CMAttribute())
	switch msg := msg.(type) {
	case wire.CMREQ:
		m.receiveREQ(now, from, msg)
	case wire.CMMRA:
		m.receiveMRA(now, from, msg)
	case wire.CMREJ:
		m.receiveREJ(now, from, msg)
	case wire.CMREP:
		m.receiveREP(now, from, msg)
	case wire.CMRTU:
		m.receiveRTU(now, from, msg)
	case wire.CMDREQ:
		m.receiveDREQ(now, from, msg)
	case wire.CMDREP:
		m.receiveDREP(now, from, msg)
	case wire.CMSIDRREQ:
		m.receiveSIDRREQ(now, from, msg)
	case wire.CMSIDRREP:
		m.receiveSIDRREP(now, from, msg)
	case wire.CMLAP, wire.CMAPR:
		// A RoCE port has no alternate paths: Linux drops both (cm_lap_handler).
		m.counters.Unexpected++
	}
}

// Counters returns the Machine's counters, not a copy.
func (m *Machine) Counters() *Counters { return &m.counters }

// Usage is what a Machine remembers.
type Usage struct {
	Conns    int // each ends with Conn.Destroy
	HalfOpen int // of them, those that a peer asked for and that are not established
	Peers    int // of them, those whose peer's comm ID and queue pair are known
	Lookups  int // of them, SIDR_REQs that are not answered
	Timers   int // of them, those that wait for an answer or the end of timewait
}

// Usage returns what the Machine remembers.
func (m *Machine) Usage() Usage {
	return Usage{
		Conns: len(m.conns), HalfOpen: m.counts.halfOpen(), Peers: max(len(m.peers.byCommID), len(m.peers.byQPN)),
		Lookups: len(m.lookups), Timers: len(m.timers),
	}
}

// Close destroys every connection, as Conn.Destroy does, and closes every listener.
// The Machine then ignores what it receives.
func (m *Machine) Close(now rxe.Time) {
	ids := make([]uint32, 0, len(m.conns))
	for id := range m.conns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if c := m.conns[id]; c != nil {
			c.Destroy(now)
		}
	}
	clear(m.listeners)
	m.closed = true
}

// find returns the connection with these comm IDs, or nil. The peer's ID of a connection
// is 0 until it is known (cm_acquire_id). The message must come from the connection's peer,
// whose address is also that of its packets. Linux does not look.
func (m *Machine) find(from rxe.AHAttr, local, remote uint32) *Conn {
	c := m.conns[local]
	if c == nil || c.peer.commID != remote || !m.fromPeer(from, c) {
		return nil
	}
	return c
}

// fromPeer reports whether a message comes from the peer of a connection. It counts those that
// do not.
func (m *Machine) fromPeer(from rxe.AHAttr, c *Conn) bool {
	if from.DGID != c.path.DGID {
		m.counters.Forged++
		return false
	}
	return true
}

// send sends a message once.
func (m *Machine) send(to rxe.AHAttr, mad *wire.MAD) {
	m.counters.TxMsgs.add(wire.CMAttribute(mad.Attribute()))
	m.cfg.Send(to, mad)
}

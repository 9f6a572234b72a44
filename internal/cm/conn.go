package cm

import (
	"fmt"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// State is the state of a connection, as in Linux's enum ib_cm_state.
type State uint8

// The states. An MRA state on this side means that the user has the message: a
// duplicate is then answered with an MRA. Linux's states of alternate paths do not
// exist here.
const (
	StateIdle       State = iota // failed or over: only Destroy may follow
	StateREQSent                 // active: waits for the REP
	StateMRAREQRcvd              // active: the peer said that the REP takes longer
	StateREQRcvd                 // passive: the listener's handler is being called
	StateMRAREQSent              // passive: the user has the REQ
	StateREPSent                 // passive: waits for the RTU
	StateMRAREPRcvd              // passive: the peer said that the RTU takes longer
	StateREPRcvd                 // active: the handler is being called
	StateMRAREPSent              // active: the user has the REP
	StateEstablished
	StateDREQSent
	StateDREQRcvd // the user has the DREQ
	StateTimewait
	StateSIDRREQSent
	StateSIDRREQRcvd
	StateDestroyed
)

var stateNames = [...]string{
	"idle", "REQ sent", "MRA of REQ received", "REQ received", "MRA of REQ sent", "REP sent", "MRA of REP received",
	"REP received", "MRA of REP sent", "established", "DREQ sent", "DREQ received", "timewait", "SIDR_REQ sent",
	"SIDR_REQ received", "destroyed",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// halfOpen reports whether a passive connection may still be a forgery.
func (s State) halfOpen() bool {
	switch s {
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateSIDRREQRcvd:
		return true
	default:
		return false
	}
}

// Conn is a connection, or a request for one, from its Connect, Lookup or REQ to its
// Destroy.
type Conn struct {
	m        *Machine
	state    State
	handler  Handler
	source   wire.GID // passive: where the REQ came from
	active   bool
	user     any // whose connection it is, and who has the other end (userAt)
	peerUser any
	listener any  // passive: see Admit
	counted  bool // for user
	halfOpen bool // counted as such

	commID  uint32
	peer    peer
	inPeers bool
	service uint64
	tid     uint64     // transaction identifier, which an answer repeats
	path    rxe.AHAttr // to the peer, for datagrams and for the queue pair

	qp     qpParams
	resend resend
	timer  connTimer
}

// Handler handles the events of a connection. It is called within a call of the
// Machine or the connection, may call both, and must not block. The event and its
// bytes are valid during the call.
type Handler func(now rxe.Time, ev *Event)

// newConn returns a new connection, which is in no table of peers.
func (m *Machine) newConn(handler Handler) *Conn {
	c := &Conn{m: m, handler: handler, commID: m.newID()}
	m.conns[c.commID] = c
	if m.cfg.Opened != nil {
		m.cfg.Opened(c.commID)
	}
	return c
}

// newActive returns a new connection for a request that this side sends.
func (m *Machine) newActive(user any, service uint64, path *rxe.AHAttr, handler Handler) *Conn {
	c := m.newConn(handler)
	c.active = true
	c.user, c.counted = user, true
	m.counts.changeUser(user, 1, 0)
	c.service = service
	c.tid = c.newTID()
	c.path = *path
	c.path.PortNum = 1
	c.resend.retries = maxRetries
	return c
}

// setState changes the state. A connection that is not half-open any more is not counted as such.
func (c *Conn) setState(s State) {
	c.state = s
	if !s.halfOpen() {
		c.noMoreHalfOpen()
	}
}

// reset forgets the peer: the connection has failed, or was never made
// (cm_reset_to_idle).
func (c *Conn) reset() {
	c.stopTimer()
	c.m.peers.remove(c)
	c.setState(StateIdle)
}

// event calls the handler.
func (c *Conn) event(now rxe.Time, ev *Event) {
	if c.handler != nil {
		c.handler(now, ev)
	}
}

// SetHandler replaces the handler of the connection's events.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// State returns the state of the connection.
func (c *Conn) State() State { return c.state }

// LocalCommID returns the comm ID that this side chose.
func (c *Conn) LocalCommID() uint32 { return c.commID }

// RemoteCommID returns the comm ID that the peer chose, or 0. For a SIDR_REQ that came
// in, it is the request ID.
func (c *Conn) RemoteCommID() uint32 { return c.peer.commID }

// LocalQPN returns the queue pair that Connect or Accept named.
func (c *Conn) LocalQPN() wire.QPN { return c.qp.localQPN }

// Path returns the address of the peer.
func (c *Conn) Path() rxe.AHAttr { return c.path }

// Active reports whether this side asked for the connection.
func (c *Conn) Active() bool { return c.active }

// newTID returns the transaction identifier of a message that starts an exchange.
func (c *Conn) newTID() uint64 { return c.m.tidHigh | uint64(c.commID) }

package cm

import (
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Times of the protocol, as powers of 2 of 4.096 µs (IBA 12.7.22), with the values of
// Linux 6.12.
const (
	responseTimeout       = 20 // of a REQ, both ways (CMA_CM_RESPONSE_TIMEOUT)
	maxRetries            = 15 // CMA_MAX_CM_RETRIES
	packetLifetime        = 16 // CMA_IBOE_PACKET_LIFETIME
	mraServiceTimeout     = 24 // CMA_CM_MRA_SETTING
	defaultTargetACKDelay = 15 // of rdma_rxe

	// The response time of a REQ and the service time of an MRA are bounded. Without
	// that, a forged message would keep a connection half-open for hours.
	maxPeerResponseTimeout = 22
	maxPeerServiceTimeout  = mraServiceTimeout
	// maxPeerACKTimeout bounds a peer's local ACK timeout where the connection manager
	// waits for it. The queue pair has what the peer says.
	maxPeerACKTimeout = 22
)

// duration returns the time of a code, rounded as Linux does: the unit is 4 µs, and
// times below 1 ms are 1 ms (cm_convert_to_ms).
func duration(code uint8) rxe.Time {
	return rxe.Time(time.Millisecond) << max(int(code)-8, 0)
}

// ackTimeout returns the local ACK timeout of a queue pair: twice the packet lifetime
// plus the peer's delay, in codes (IBA 12.7.34; cm_ack_timeout).
func ackTimeout(targetACKDelay, packetLifetime uint8) uint8 {
	less, more := packetLifetime+1, targetACKDelay
	if less > more {
		less, more = more, less
	}
	// The codes are exponents: their times add up to more than the longer one only
	// if they are about equal.
	if less+1 >= more {
		more++
	}
	return min(more, 31)
}

// resend is a message that is sent again until it is answered.
type resend struct {
	mad      wire.MAD
	interval rxe.Time // between sends
	left     uint8    // how often it is sent again
	retries  uint8    // of each message of this connection: what the REQ says
	timeout  rxe.Time // of each message of this connection
}

// sendUntilAnswered sends c.resend.mad, and again until stopTimer.
func (c *Conn) sendUntilAnswered(now rxe.Time) {
	c.resend.interval, c.resend.left = c.resend.timeout, c.resend.retries
	c.setTimer(now + c.resend.interval)
	c.m.send(c.path, &c.resend.mad)
}

// extend handles an MRA: the answer takes longer. Linux keeps the longer interval for all
// later sends (ib_modify_mad).
func (c *Conn) extend(now rxe.Time, serviceTimeout uint8) {
	c.resend.interval = duration(min(serviceTimeout, maxPeerServiceTimeout)) + c.ackWait()
	c.setTimer(now + c.resend.interval)
}

// ackWait returns the local ACK timeout, bounded, which the connection manager waits for.
func (c *Conn) ackWait() rxe.Time { return duration(min(c.qp.ackTimeout, maxPeerACKTimeout)) }

// Expire runs every timer that is due.
func (m *Machine) Expire(now rxe.Time) {
	for {
		c := m.timers.due(now)
		if c == nil {
			return
		}
		c.expire(now)
	}
}

// Deadline returns when Expire is due next; ok is false if no timer runs.
func (m *Machine) Deadline() (at rxe.Time, ok bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].timer.at, true
}

// expire handles a timer that is due.
func (c *Conn) expire(now rxe.Time) {
	if c.state == StateTimewait {
		c.leaveTimewait(now)
		return
	}
	if c.resend.left > 0 {
		c.resend.left--
		c.setTimer(now + c.resend.interval)
		c.m.counters.TxRetries.add(wire.CMAttribute(c.resend.mad.Attribute()))
		c.m.send(c.path, &c.resend.mad)
		return
	}
	c.stopTimer()
	c.unanswered(now)
}

// unanswered handles a message that no retry got an answer to (cm_process_send_error).
func (c *Conn) unanswered(now rxe.Time) {
	switch c.state {
	case StateREQSent, StateMRAREQRcvd, StateREPSent, StateMRAREPRcvd:
		c.reset()
		c.event(now, &Event{Kind: EventUnreachable, Status: statusTimeout})
	case StateDREQSent:
		c.enterTimewait(now)
		c.event(now, &Event{Kind: EventDisconnected, Status: statusTimeout})
	case StateSIDRREQSent:
		c.reset()
		c.event(now, &Event{Kind: EventLookupUnreachable, Status: statusTimeout})
	default:
		panic("cm: a timer runs in state " + c.state.String())
	}
}

package cm

import "github.com/gorxe/gorxe/rxe"

// In timewait, packets of the ended connection may still be on their way, so its queue
// pair must not be used again yet (IBA 12.9.8.4). The connection still answers a repeated
// DREQ. Its peer's comm ID and queue pair are free at once, as in Linux
// (cm_enter_timewait): a new REQ with either is neither a duplicate nor stale.
//
// A destroyed connection has no timewait: the Machine forgets it at once, and answers a
// repeated DREQ as one for an unknown connection.

// enterTimewait ends the connection.
func (c *Conn) enterTimewait(now rxe.Time) {
	c.m.peers.remove(c)
	c.setState(StateTimewait)
	c.setTimer(now + c.ackWait())
}

// leaveTimewait ends timewait (cm_timewait_handler).
func (c *Conn) leaveTimewait(now rxe.Time) {
	c.stopTimer()
	c.setState(StateIdle)
	c.event(now, &Event{Kind: EventTimewaitExit})
}

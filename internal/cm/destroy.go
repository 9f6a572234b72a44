package cm

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Destroy ends and frees the connection (cm_destroy_id). It sends the peer, once, the
// message that the state calls for. The handler is not called any more.
func (c *Conn) Destroy(now rxe.Time) {
	if c.state == StateDestroyed {
		return
	}
	c.handler = nil
	switch c.state {
	case StateREQSent, StateMRAREQRcvd:
		// The peer finds its end of the connection by GUID and ID.
		c.sendREJ(&Refuse{Reason: wire.RejectTimeout, ARI: binary.BigEndian.AppendUint64(nil, c.m.cfg.GUID)})
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent:
		c.sendREJ(&Refuse{Reason: wire.RejectConsumer})
	case StateEstablished:
		// Nothing waits for the DREP: a DREQ that is lost is not sent again.
		c.sendDREQ(now)
	case StateDREQRcvd:
		c.sendDREP()
	case StateSIDRREQRcvd:
		c.refuseSIDR(nil)
	case StateIdle, StateDREQSent, StateTimewait, StateSIDRREQSent, StateDestroyed:
	}
	c.reset()
	c.setState(StateDestroyed)
	delete(c.m.conns, c.commID)
	if c.counted {
		c.m.counts.changeUser(c.user, -1, 0)
	}
	if c.m.cfg.Ended != nil {
		c.m.cfg.Ended(c.commID)
	}
}

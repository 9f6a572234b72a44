package cm

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// maxInfo is the length of additional information in a REJ or SIDR_REP.
const maxInfo = 72

// Reject sends a REJ. It refuses the REQ or REP of the peer, or withdraws that of this
// side. A SIDR_REQ is refused with the status wire.SIDRReject, without reason and ari.
// The data is at most 148 bytes, 136 for a SIDR_REQ; ari at most 72.
func (c *Conn) Reject(now rxe.Time, reason wire.CMReason, ari, data []byte) error {
	if c.state == StateSIDRREQRcvd {
		if len(data) > wire.CMSIDRREPPrivateLen {
			return ErrPrivateData
		}
		c.refuseSIDR(data)
		return nil
	}
	if len(ari) > maxInfo || len(data) > wire.CMREJPrivateLen {
		return ErrPrivateData
	}
	r := Refuse{Reason: reason, ARI: ari, Data: data}
	switch c.state {
	case StateREQSent, StateMRAREQRcvd, StateREQRcvd, StateMRAREQSent, StateREPRcvd, StateMRAREPSent:
		c.sendREJ(&r)
		c.reset()
	case StateREPSent, StateMRAREPRcvd:
		c.sendREJ(&r)
		c.enterTimewait(now)
	default:
		return ErrState
	}
	return nil
}

// sendREJ sends the REJ of a state (cm_format_rej).
func (c *Conn) sendREJ(r *Refuse) {
	rej := c.m.out.InitREJ(c.tid)
	local, subject := c.commID, wire.CMSubjectOther
	switch c.state {
	case StateREQRcvd:
		// The peer does not know this side's ID yet.
		local, subject = 0, wire.CMSubjectREQ
	case StateMRAREQSent:
		subject = wire.CMSubjectREQ
	case StateREPRcvd, StateMRAREPSent:
		subject = wire.CMSubjectREP
	default:
	}
	rej.SetCommIDs(local, c.peer.commID)
	rej.SetMessageRejected(subject)
	fillREJ(rej, r)
	c.m.send(c.path, rej.MAD)
}

func fillREJ(rej wire.CMREJ, r *Refuse) {
	rej.SetReason(r.Reason)
	rej.SetInfo(r.ARI)
	copy(rej.PrivateData(), r.Data)
}

// receiveREJ ends a connection that the peer refuses (cm_rej_handler).
func (m *Machine) receiveREJ(now rxe.Time, from rxe.AHAttr, rej wire.CMREJ) {
	c := m.rejected(from, rej)
	if c == nil {
		m.counters.Unexpected++
		return
	}
	switch c.state {
	case StateREQSent, StateMRAREQRcvd, StateREPSent, StateMRAREPRcvd, StateREQRcvd, StateMRAREQSent:
		if rej.Reason() == wire.RejectStale {
			c.enterTimewait(now)
		} else {
			c.reset()
		}
	case StateREPRcvd, StateMRAREPSent, StateEstablished, StateDREQSent:
		c.enterTimewait(now)
	default:
		m.counters.Unexpected++
		return
	}
	c.event(now, &Event{
		Kind: EventRejected, PrivateData: rej.PrivateData(),
		Reason: rej.Reason(), MessageRejected: rej.MessageRejected(), ARI: rej.Info(),
	})
}

// rejected returns the connection that a REJ is for, or nil (cm_acquire_rejected_id).
func (m *Machine) rejected(from rxe.AHAttr, rej wire.CMREJ) *Conn {
	switch {
	case rej.Reason() == wire.RejectTimeout:
		// The active side gave up and does not know this side's ID. Its own ID, and its
		// GUID as additional information, say which REQ it withdraws.
		info := rej.Info()
		if len(info) < 8 {
			return nil
		}
		c := m.peers.withCommID(binary.BigEndian.Uint64(info), rej.LocalCommID())
		if c == nil || !m.fromPeer(from, c) {
			return nil
		}
		return c
	case rej.MessageRejected() == wire.CMSubjectREQ:
		return m.find(from, rej.RemoteCommID(), 0)
	default:
		return m.find(from, rej.RemoteCommID(), rej.LocalCommID())
	}
}

package rdmacm

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// connEvent turns an event of a connection into one of the ID (cma_ib_handler,
// cma_sidr_rep_handler). It is called within calls of the Machine, programs' calls
// included, so the handler is called later. Manager.mu is held.
func (id *ID) connEvent(_ rxe.Time, ev *cm.Event) {
	var out *Event
	switch ev.Kind {
	case cm.EventReply:
		out = &Event{Kind: ConnectResponse, Conn: &ConnEvent{
			PrivateData: copied(ev.PrivateData), ResponderResources: ev.InitiatorDepth, InitiatorDepth: ev.ResponderResources,
			FlowControl: ev.FlowControl, RNRRetryCount: ev.RNRRetryCount, SRQ: ev.SRQ, QPN: ev.RemoteQPN,
		}}
	case cm.EventReady:
		out = &Event{Kind: Established, Conn: new(ConnEvent)}
	case cm.EventRejected:
		out = &Event{Kind: Rejected, Status: int32(ev.Reason), Peer: id.dst.AddrPort, Conn: &ConnEvent{PrivateData: copied(ev.PrivateData)}}
	case cm.EventUnreachable, cm.EventLookupUnreachable:
		out = &Event{Kind: Unreachable, Status: -int32(unix.ETIMEDOUT)}
	case cm.EventDisconnect:
		out = &Event{Kind: Disconnected}
	case cm.EventDisconnected:
		out = &Event{Kind: Disconnected, Status: ev.Status}
	case cm.EventTimewaitExit:
		out = &Event{Kind: TimewaitExit}
	case cm.EventLookupReply:
		out = id.lookupReply(ev)
	}
	id.m.later(id, func() {
		if id.expects(out.Kind) {
			id.event(out)
		}
	})
}

// expects reports whether the state of the ID allows an event of its connection. If so,
// the ID enters the state that follows.
func (id *ID) expects(k EventKind) bool {
	switch {
	case k == TimewaitExit:
		return id.state == StateDisconnect
	case id.state != StateConnect:
		return false
	case k == Disconnected:
		id.state = StateDisconnect
	}
	return true
}

// lookupReply says which queue pair serves the datagrams, or why none does.
func (id *ID) lookupReply(ev *cm.Event) *Event {
	ud := &UDEvent{PrivateData: copied(ev.PrivateData)}
	if ev.SIDRStatus != wire.SIDRSuccess {
		return &Event{Kind: Unreachable, Status: int32(ev.SIDRStatus), UD: ud}
	}
	if ev.QKey == 0 || id.setQKey(ev.QKey) != nil {
		return &Event{Kind: AddrError, Status: -int32(unix.EINVAL), UD: ud}
	}
	ud.AH, ud.QPN, ud.QKey = id.conn.Path(), ev.RemoteQPN, ev.QKey
	return &Event{Kind: Established, UD: ud}
}

// copied returns a copy of bytes that are valid during a call only.
func copied(b []byte) []byte { return append([]byte(nil), b...) }

// udQKey is RDMA_UDP_QKEY, the queue key of the port spaces UDP and IB.
const udQKey = 0x01234567

// setQKey sets the queue key of a UD ID, which cannot change then; 0 is that of the port space
// (cma_set_qkey, cma_set_default_qkey).
func (id *ID) setQKey(qkey uint32) error {
	switch {
	case qkey == 0 && id.qkey != 0:
		return nil
	case qkey == 0:
		qkey = udQKey
	case id.qkey != 0 && id.qkey != qkey:
		return refuse(unix.EINVAL, "qkey", "is not the one that the id has", "use one Q_Key for an id")
	}
	id.qkey = qkey
	return nil
}

package cm

import (
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The masks that Linux fills in for XRC (cm_init_qp_rtr_attr, cm_init_qp_rts_attr).
const (
	maskRTRInitiator = maskRTR &^ (rxe.QPAttrMaxDestRdAtomic | rxe.QPAttrMinRNRTimer)
	maskRTSTarget    = maskRTS &^ (rxe.QPAttrRetryCnt | rxe.QPAttrRNRRetry | rxe.QPAttrMaxRdAtomic)
)

// TestXRC: an initiator connects to a target. The messages are those of Linux (cm_format_req,
// cm_format_rep): the REQ has nothing that only a requester at the peer needs, and the REP has the
// target's number in another place. Each queue pair gets the attributes that its half has.
func TestXRC(t *testing.T) {
	a, b := newNode(t, 1, "192.0.2.1"), newNode(t, 2, "192.0.2.2")
	b.listen()
	asks := a.connectParams(b)
	asks.QPType, asks.SRQ = rxe.QPXRCIni, true
	c, err := a.m.Connect(a.now, asks, a.handler)
	a.noError(err)
	req := wire.CMREQ{MAD: a.take(wire.AttrREQ)}
	if !req.XRC() || req.QPN() != clientQPN || req.InitiatorDepth() != 4 ||
		req.ResponderResources() != 0 || req.RetryCount() != 0 || req.RNRRetryCount() != 0 || req.SRQ() {
		t.Errorf("%v: depths %d and %d, retries %d and %d, SRQ %v", parsed(t, req.MAD),
			req.ResponderResources(), req.InitiatorDepth(), req.RetryCount(), req.RNRRetryCount(), req.SRQ())
	}
	b.receive(a, req.MAD)
	target := b.taken[0]
	accepts := acceptParams()
	accepts.FlowControl = true
	b.noError(target.Accept(b.now, accepts))
	m := b.take(wire.AttrREP)
	rep, ok := parsed(t, m).(wire.CMREP)
	if !ok || rep.QPN() != 0 || rep.XRCQPN() != serverQPN || !rep.SRQ() || rep.FlowControl() ||
		rep.InitiatorDepth() != 0 || rep.ResponderResources() != 4 || rep.RNRRetryCount() != 5 {
		t.Errorf("%v: depths %d and %d, RNR retries %d, SRQ %v, flow control %v", rep,
			rep.ResponderResources(), rep.InitiatorDepth(), rep.RNRRetryCount(), rep.SRQ(), rep.FlowControl())
	}
	a.receive(b, m)
	if e := a.event(EventReply); e.RemoteQPN != serverQPN || !e.SRQ {
		t.Errorf("the reply is %+v", e)
	}

	attr := func(c *Conn, target rxe.QPState, want rxe.QPAttrMask) rxe.QPAttr {
		t.Helper()
		got, mask, err := c.QPAttr(target)
		if err != nil || mask != want {
			t.Errorf("state %d: mask %#x, want %#x; %v", target, uint32(mask), uint32(want), err)
		}
		return got
	}
	rtr, rts := attr(c, rxe.QPRTR, maskRTRInitiator), attr(c, rxe.QPRTS, maskRTS)
	if rtr.DestQPN != serverQPN || rtr.MaxDestRdAtomic != 0 || rts.MaxRdAtomic != 4 || rts.RetryCnt != 7 || rts.RNRRetry != 5 || rts.Timeout == 0 {
		t.Errorf("the initiator's attributes are %+v and %+v", rtr, rts)
	}
	rtr, rts = attr(target, rxe.QPRTR, maskRTR), attr(target, rxe.QPRTS, maskRTSTarget)
	if rtr.DestQPN != clientQPN || rtr.MaxDestRdAtomic != 4 || rts.MaxRdAtomic != 0 || rts.RetryCnt != 0 || rts.Timeout == 0 {
		t.Errorf("the target's attributes are %+v and %+v", rtr, rts)
	}
	a.noError(c.Ready(a.now))
	b.receive(a, a.take(wire.AttrRTU))
	b.event(EventReady)

	// Each side's DREQ names the other's queue pair.
	a.noError(c.Disconnect(a.now))
	dreq, ok := parsed(t, a.take(wire.AttrDREQ)).(wire.CMDREQ)
	if !ok || dreq.RemoteQPN() != serverQPN {
		t.Errorf("%v", dreq)
	}
	b.receive(a, dreq.MAD)
	b.event(EventDisconnect)
}

package rdmacm

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The attributes of a queue pair at each step, on both sides.
func TestQPAttr(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		mask := func(id *ID, s rxe.QPState, want rxe.QPAttrMask) rxe.QPAttr {
			t.Helper()
			attr, got, err := id.QPAttr(s)
			must.OK(t, err)
			if got != want || attr.State != s {
				t.Errorf("mask for state %d is %#x of state %d, want %#x", s, uint32(got), attr.State, uint32(want))
			}
			return attr
		}
		// before Connect, all are those of INIT
		for _, s := range []rxe.QPState{rxe.QPInit, rxe.QPRTR, rxe.QPRTS} {
			if attr := mask(u.ID, s, 0x39); attr.Access != 0 || attr.PortNum != 1 {
				t.Errorf("attributes before Connect are %+v", attr)
			}
		}
		must.OK(t, u.SetAckTimeout(14))
		must.OK(t, u.Connect(&ConnParams{QPN: 0x11, ResponderResources: 5, InitiatorDepth: 6, RetryCount: 3, RNRRetryCount: 2}))
		synctest.Wait()
		if attr := mask(u.ID, rxe.QPInit, 0x39); attr.Access&rxe.AccessRemoteRead == 0 {
			t.Errorf("access after Connect is %#x", attr.Access)
		}
		p := l.child(l.next(ConnectRequest))
		rtr := mask(p.ID, rxe.QPRTR, 0x129181) // before Accept, as UCX reads it
		if rtr.PathMTU != 1024 || rtr.DestQPN != 0x11 || rtr.AH.DGID.Addr() != netip.MustParseAddr("10.0.0.1") || rtr.AH.SGIDIndex != 0 {
			t.Errorf("passive RTR is %+v", rtr)
		}
		must.OK(t, p.Accept(&ConnParams{QPN: 0x22, ResponderResources: 6, InitiatorDepth: 5}))
		u.next(ConnectResponse)
		active, passive := mask(u.ID, rxe.QPRTR, 0x129181), mask(p.ID, rxe.QPRTS, 0x12e01)
		if active.RQPSN != passive.SQPSN || rtr.RQPSN != mask(u.ID, rxe.QPRTS, 0x12e01).SQPSN {
			t.Error("one side does not start with the PSN that the other expects")
		}
		if passive.RetryCnt != 3 || passive.RNRRetry != 2 || passive.MaxRdAtomic != 5 || passive.Timeout != 17 {
			t.Errorf("passive RTS is %+v", passive)
		}
		if rts := mask(u.ID, rxe.QPRTS, 0x12e01); rts.Timeout != 14 {
			t.Errorf("the timeout that the program has set is %d, want 14", rts.Timeout)
		}
		if active.MaxDestRdAtomic != 5 {
			t.Errorf("the active side answers %d READs at a time, want 5", active.MaxDestRdAtomic)
		}

		ud := a.user(wire.PortSpaceUDP)
		must.OK(t, ud.Bind(at("10.0.0.1:0")))
		for _, s := range []rxe.QPState{rxe.QPInit, rxe.QPRTR, rxe.QPRTS} {
			if attr := mask(ud.ID, s, 0x71); attr.QKey != 0x01234567 {
				t.Errorf("UD queue key is %#x", attr.QKey)
			}
		}
	})
}

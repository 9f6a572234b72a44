package uverbs

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/rxe"
)

// TestBind: BIND MW requests find regions and windows by the keys that the
// program was told.
func TestBind(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		e := newEndpoint(t, u, rxe.QPRC)
		e.connect(e.qp, rxe.QPRC, e.qpn)
		mw := u.allocMW(e.pd, 2)
		bind := func(id uint64, mwRKey, next, lkey uint32, addr, length uint64) rxe.WCStatus {
			t.Helper()
			e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRBindMW, Flags: rxe.SendSignaled},
				MWRKey: mwRKey, BindRKey: next, MRLKey: lkey, BindAddr: addr, BindLength: length,
				BindAccess: uint32(rxe.AccessRemoteWrite | rxe.AccessLocalWrite)})
			e.call(doorbellVerb(e.qp))
			wc, ok := e.comp.Poll()
			if !ok || wc.ID != id {
				t.Fatalf("bind %d: completion %+v %v", id, wc, ok)
			}
			return rxe.WCStatus(wc.Status)
		}
		next := mw.RKey&^0xff | (mw.RKey+1)&0xff
		if s := bind(1, mw.RKey, next, e.mr.LKey, programData, 100); s != rxe.WCSuccess {
			t.Fatalf("bind: %v", s)
		}
		e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRLocalInv, Flags: rxe.SendSignaled, InvRKey: 0}, Edit: func(w *librxeclient.SendWQE, _ []byte) {
			*librxeclient.At[uint32](w.Ex[:]) = next
		}})
		e.call(doorbellVerb(e.qp))
		if wc, ok := e.comp.Poll(); !ok || wc.Status != 0 {
			t.Fatalf("invalidate: %+v %v", wc, ok)
		}
		if s := bind(3, next, next+1, e.mr.LKey+1, programData, 100); s != rxe.WCMWBindErr {
			t.Errorf("bind to a region that is not there: %v", s)
		}
	})
}

package uverbs

import (
	"testing"

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
			e.send.postSend(&sendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRBindMW, Flags: rxe.SendSignaled},
				mwRKey: mwRKey, bindRKey: next, mrLKey: lkey, bindAddr: addr, bindLength: length,
				bindAccess: uint32(rxe.AccessRemoteWrite | rxe.AccessLocalWrite)})
			e.call(doorbellVerb(e.qp))
			wc, ok := e.comp.poll()
			if !ok || wc.id != id {
				t.Fatalf("bind %d: completion %+v %v", id, wc, ok)
			}
			return rxe.WCStatus(wc.status)
		}
		next := mw.RKey&^0xff | (mw.RKey+1)&0xff
		if s := bind(1, mw.RKey, next, e.mr.LKey, programData, 100); s != rxe.WCSuccess {
			t.Fatalf("bind: %v", s)
		}
		e.send.postSend(&sendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRLocalInv, Flags: rxe.SendSignaled, InvRKey: 0}, edit: func(w *cSendWQE, _ []byte) {
			*at[uint32](w.ex[:]) = next
		}})
		e.call(doorbellVerb(e.qp))
		if wc, ok := e.comp.poll(); !ok || wc.status != 0 {
			t.Fatalf("invalidate: %+v %v", wc, ok)
		}
		if s := bind(3, next, next+1, e.mr.LKey+1, programData, 100); s != rxe.WCMWBindErr {
			t.Errorf("bind to a region that is not there: %v", s)
		}
	})
}

package librxe

import (
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// operations are those of each type of queue pair (ibv_post_send(3)), beside the local ones.
var operations = map[rxe.QPType][]rxe.WROpcode{
	rxe.QPUD: {rxe.WRSend, rxe.WRSendImm},
	rxe.QPUC: {rxe.WRSend, rxe.WRSendImm, rxe.WRWrite, rxe.WRWriteImm, rxe.WRBindMW, rxe.WRLocalInv},
	rxe.QPRC: {rxe.WRSend, rxe.WRSendImm, rxe.WRWrite, rxe.WRWriteImm, rxe.WRBindMW, rxe.WRLocalInv,
		rxe.WRSendInv, rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd, rxe.WRFlush, rxe.WRAtomicWrite},
}

// TestCombinations posts each opcode with each combination of flags on each type of queue pair,
// well-formed otherwise. What the manual does not have ends with the status of rdma_rxe. A flag
// that says nothing of an operation is ignored, as by the kernel.
func TestCombinations(t *testing.T) {
	// IBV_SEND_IP_CSUM, which says nothing here, and no flag
	const checksum, beyond = 1 << 4, 1 << 5
	for typ, known := range operations {
		want := make(map[rxe.WROpcode]bool)
		for _, op := range known {
			want[op] = true
		}
		for op := range rxe.WROpcode(20) {
			for flags := rxe.SendFlags(0); flags < 2*beyond; flags++ {
				status := rxe.WCSuccess
				returns := op == rxe.WRRead || op == rxe.WRCompareSwap || op == rxe.WRFetchAdd
				switch {
				case !want[op]:
					status = rxe.WCLocQPOpErr
				case returns && flags&rxe.SendInline != 0:
					status = rxe.WCLocProtErr
				}
				if flags >= checksum && flags&(checksum|beyond) != flags&^rxe.SendInline {
					continue // of the flags that say nothing: alone, and with IBV_SEND_INLINE
				}
				t.Run(fmt.Sprintf("%v/%v/%#x", typ, op, uint32(flags)), func(t *testing.T) { tryCombination(t, typ, op, flags, status) })
			}
		}
	}
}

func tryCombination(t *testing.T, typ rxe.QPType, op rxe.WROpcode, flags rxe.SendFlags, want rxe.WCStatus) {
	a, b := pair(t, typ)
	next := uint32(a.mw.RKey())&^0xff | (uint32(a.mw.RKey())+1)&0xff
	wr := librxeclient.SendWR{
		SendWR: rxe.SendWR{ID: 1, Op: op, Flags: flags, SGL: []rxe.SGE{a.sge(0, 8)}, RemoteAddr: stationBase, RKey: b.mr.RKey(),
			RemoteQPN: b.qp.Num(), RemoteQKey: rxedev.QKey, InvRKey: wire.RKey(next), FlushType: 1, FlushLength: 8},
		MWRKey: uint32(a.mw.RKey()), BindRKey: next, MRLKey: uint32(a.mr.LKey()),
		BindAddr: stationBase, BindLength: 4096, BindAccess: uint32(rxe.AccessRemoteWrite),
	}
	if flags&rxe.SendInline != 0 {
		wr.Inline = make([]byte, 8)
	}
	if typ == rxe.QPUD {
		wr.AHNum = must.Get[*rxe.AH](t)(a.dom.CreateAH(rxe.AHAttr{DGID: wire.GIDFromAddr(rxedev.Addr), PortNum: 1})).Num()
	}
	if typ != rxe.QPUD && (op == rxe.WRLocalInv || op == rxe.WRSendInv) {
		owner, bind := a, wr
		if op == rxe.WRSendInv { // a window of the peer
			owner, next = b, uint32(b.mw.RKey())&^0xff|(uint32(b.mw.RKey())+1)&0xff
			wr.InvRKey, bind.MWRKey, bind.MRLKey = wire.RKey(next), uint32(b.mw.RKey()), uint32(b.mr.LKey())
		}
		bind.Op, bind.Flags, bind.BindRKey = rxe.WRBindMW, 0, next
		owner.post(bind)
	}
	b.recv.PostRecv(9, b.sge(0, 100))
	signaled := librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRSend, Flags: rxe.SendSignaled, RemoteQPN: b.qp.Num(), RemoteQKey: rxedev.QKey},
		AHNum: wr.AHNum}
	a.post(wr)
	if want != rxe.WCSuccess || flags&rxe.SendSignaled != 0 {
		a.want(1, want)
	}
	b.recv.PostRecv(10, b.sge(0, 100))
	a.post(signaled)
	if want == rxe.WCSuccess {
		a.want(2, rxe.WCSuccess)
	} else {
		a.want(2, rxe.WCFlushErr)
	}
	a.wantNone()
}

// TestInlineAnswer: ibv_wr_set_inline_data sets no flag. A READ or an atomic with inline data fails
// all the same.
func TestInlineAnswer(t *testing.T) {
	for _, op := range []rxe.WROpcode{rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd} {
		a, b := pair(t, rxe.QPRC)
		a.post(librxeclient.SendWR{NoFlag: true, SendWR: rxe.SendWR{ID: 1, Op: op, Flags: rxe.SendInline, Inline: make([]byte, 8),
			RemoteAddr: stationBase, RKey: b.mr.RKey()}})
		a.want(1, rxe.WCLocProtErr)
	}
}

// TestAtomicLength: the list of an atomic has 8 bytes, in one piece or in several.
func TestAtomicLength(t *testing.T) {
	for _, op := range []rxe.WROpcode{rxe.WRCompareSwap, rxe.WRFetchAdd} {
		for n := range uint32(20) {
			want := rxe.WCLocLenErr
			if n == 8 {
				want = rxe.WCSuccess
			}
			a, b := pair(t, rxe.QPRC)
			a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: op, Flags: rxe.SendSignaled, SGL: []rxe.SGE{a.sge(0, n/2), a.sge(100, n-n/2)},
				RemoteAddr: stationBase, RKey: b.mr.RKey()}})
			a.want(1, want)
		}
	}
}

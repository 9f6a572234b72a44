package mlx5

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// FuzzQueues: whatever a program writes into its queues and their records, the engine gets no more
// than the queues hold. Another queue pair of the device goes on.
func FuzzQueues(f *testing.F) {
	record := []byte{0, 0, 0, 2, 0, 0, 0, 4}
	for _, op := range []byte{opNop, opSendInv, opWrite, opWriteImm, opSend, opSendImm, opTSO, opRead, opCompSwap, opFetchAdd, opUMR, 0x2f} {
		for units := range byte(6) {
			head := seg(uint32(op), uint32(units+1), uint32(signaled), uint32(0))
			f.Add(op%4, append(head, seg(uint64(dataAt), uint32(5), uint32(0), uint32(8), uint32(5), uint64(dataAt))...), seg(uint32(8), uint32(5), uint64(dataAt)), record)
		}
	}
	for _, op := range []byte{opSend, opTSO} {
		for _, n := range []uint16{0, 2, 18, 60, 200, ethInsertVLAN, 0xffff} {
			head := seg(uint32(op), uint32(5), uint32(signaled), uint32(0), uint32(0), uint8(0xc0), uint8(0), uint16(8), uint32(0), n, uint16(1))
			f.Add(byte(4), append(head, make([]byte, 48)...), seg(uint32(8), uint32(5), uint64(dataAt)), record)
		}
	}
	types := []rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD, rxe.QPXRCIni, rxe.QPRaw}
	f.Fuzz(func(t *testing.T, typ byte, sends, receives, record []byte) {
		p := newProgram(t, rxedev.New(t))
		q, peer := p.newQP(types[int(typ)%len(types)], 1), (*pair)(nil)
		if peer = q; q.qp.Type() == rxe.QPXRCIni {
			peer = p.newTarget(must.Get[*rxe.XRCD](t)(p.dev.Whole().OpenXRCD(rxe.XRCDInit{Create: true})))
			peer.connect(q)
		}
		other := p.newQP(rxe.QPRC, 2)
		q.connect(peer)
		other.connect(other)
		sq := q.bytes(q.sq, sqBlocks*blockSize)
		copy(sq, sends)
		// The number of the queue pair, and the keys, are right where the input says 5.
		for at := 0; at+16 <= len(sq); at += 16 {
			if sq[at+4] == 0 {
				copy(sq[at+4:at+7], seg(uint32(q.qp.Num()) << 8)[:3])
			}
			if sq[at+7] == 5 {
				copy(sq[at+4:at+8], seg(uint32(p.mr.LKey())))
			}
			if sq[at+11] == 5 {
				copy(sq[at+8:at+12], seg(uint32(p.mr.RKey())))
			}
		}
		if q.recv != nil {
			copy(q.bytes(q.rq, rqEntries<<rqShift), receives)
		}
		copy(q.bytes(q.rec, recordSize), record)
		if err := q.mem.Doorbell(); err != nil {
			t.Fatal(err)
		}
		if err := q.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState); err != nil {
			t.Fatal(err)
		}
		if n := count(q.send); n > sqBlocks {
			t.Errorf("%d completions of %d blocks", n, sqBlocks)
		}
		other.post(opNop, signaled, 0)
		if c := other.send.one(); c.op != cqeReq {
			t.Errorf("another queue pair: %+v", c)
		}
		if q.recv == nil {
			return
		}
		if n := count(q.recv); n > rqEntries+1 {
			t.Errorf("%d completions of %d receives", n, rqEntries)
		}
	})
}

func count(q *queue) (n int) {
	for _, ok := q.poll(); ok; _, ok = q.poll() {
		n++
	}
	return n
}

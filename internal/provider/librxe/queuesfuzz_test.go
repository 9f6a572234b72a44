package librxe

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// fuzzQPTypes are the types that a fuzzed byte chooses from.
var fuzzQPTypes = [...]rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD}

// FuzzSendWQE: whatever two slots of a send queue hold, the engine gets work
// requests within the queue's bounds, and every one of them completes.
func FuzzSendWQE(f *testing.F) {
	for op := range uint32(17) {
		w := librxeclient.SendWQE{ID: 7, Opcode: op, Flags: uint32(rxedev.Signaled), DMA: librxeclient.DMA{Length: 8, Resid: 8, NumSGE: 1}}
		b := unsafe.Slice((*byte)(unsafe.Pointer(&w)), unsafe.Sizeof(w))
		payload := make([]byte, 64)
		librxeclient.PutSGL(payload, []rxe.SGE{sge(stationBase, 8, 1)})
		f.Add(byte(op), append(append([]byte{}, b...), payload...), []byte{})
	}
	f.Fuzz(func(t *testing.T, typ byte, first, second []byte) {
		a, b := pair(t, fuzzQPTypes[int(typ)%len(fuzzQPTypes)])
		for i := range uint64(4) {
			b.recv.PostRecv(i, b.sge(0, 4096))
		}
		for _, wqe := range [][]byte{first, second} {
			slot := a.send.Next()[:1<<*a.send.Word(0)]
			copy(slot, wqe)
			// Of the two keys one is right, so that more than the refusal is seen.
			if n := binary.NativeEndian.Uint32(slot[196:]); n == 1 {
				binary.NativeEndian.PutUint32(slot[208+12:], uint32(a.mr.LKey()))
			}
			if len(wqe)%2 == 1 {
				binary.NativeEndian.PutUint32(slot[32:], uint32(b.mr.RKey()))
			}
			a.send.AdvanceProducer()
		}
		checkBatch(t, a)
		ring := a.rings()[typ>>7] // by a call, or without one
		if err := ring(); err != nil {
			t.Fatal(err)
		}
		if c := a.send.Consumer(); c > 2 {
			t.Fatalf("consumer %d of 2", c)
		}
		a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
		if !a.send.Empty() {
			t.Fatal("a work request was lost")
		}
		for n := 0; ; n++ {
			wc, ok := a.comp.Poll()
			if !ok {
				break
			}
			if n == 2 || wc.Status > uint32(rxe.WCGeneralErr) {
				t.Fatalf("completion %d: %+v", n, wc)
			}
		}
	})
}

// checkBatch looks at what a doorbell would give the engine, and puts it back.
func checkBatch(t *testing.T, s *station) {
	t.Helper()
	b := new(sendBatch)
	s.sq.fetch(b, 15, noShare)
	for i := range b.wrs {
		wr := &b.wrs[i]
		if len(wr.SGL) > int(s.sq.maxSGE) || len(wr.Inline) > int(s.sq.maxInline) {
			t.Fatalf("%d SGEs, %d bytes inline", len(wr.SGL), len(wr.Inline))
		}
		if wr.AH != nil && wr.AH.PD() != s.dom && wr.Status == rxe.WCSuccess {
			t.Fatal("an address handle of another domain")
		}
	}
	s.sq.fetched = s.sq.cons
}

// FuzzRecvWQE: a receive WQE is sound and within bounds, or bad.
func FuzzRecvWQE(f *testing.F) {
	f.Add([]byte{}, byte(1))
	w := make([]byte, 40+32)
	w[28] = 2
	f.Add(w, byte(2))
	w[28] = 3
	f.Add(w, byte(2))
	f.Fuzz(func(t *testing.T, wqe []byte, maxSGE byte) {
		limit := uint32(maxSGE) % (maxQueueSGE + 1)
		var b [recvSGL + maxQueueSGE*sgeSize]byte
		copy(b[:], wqe)
		var got rxe.RecvWQE
		ok := decodeRecv(&got, &b, limit)
		n := binary.NativeEndian.Uint32(b[28:])
		var total uint64
		for i := range min(n, maxQueueSGE) {
			total += uint64(binary.NativeEndian.Uint32(b[40+16*i+8:]))
		}
		if want := n <= limit && total <= 1<<32-1; ok != want {
			t.Fatalf("%d of %d SGEs, %d bytes: %v", n, limit, total, ok)
		}
		if ok && len(got.SGL) != int(n) {
			t.Fatalf("%d SGEs of %d", len(got.SGL), n)
		}
	})
}

// FuzzRing: a program that writes any index at any time gets what is in its
// queues, within their bounds, and the daemon's own indices stay its own.
func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{0, 0, 0, 0, 0, 0x80, 0xff, 0x81, 0x7f, 5, 5, 5, 6, 6, 6})
	f.Fuzz(func(t *testing.T, ops []byte) {
		a := testArena(t)
		cq := must.Get[*cqRing](t)(newCQRing(a, 3))
		rq := must.Get[*recvRing](t)(newRecvRing(a, 3, 1))
		cc, rc := client(t, a, cq), client(t, a, rq)
		var w rxe.RecvWQE
		var prod, cons uint32 // the daemon's, counted here
		for i, op := range ops {
			value := uint32(op>>3) * 0x08421085
			switch op & 7 {
			case 0:
				if cq.Push(&rxe.WC{ID: uint64(i)}) {
					prod++
				}
			case 1:
				if ok, _ := rq.Pop(&w); ok {
					cons++
				}
			case 2:
				cc.SetConsumer(value)
			case 3:
				rc.SetProducer(value)
			case 4: // the daemon's indices, and the geometry: of no effect
				cc.SetProducer(value)
				rc.SetConsumer(value)
				*cc.Word(0), *cc.Word(4), *rc.Word(0), *rc.Word(4) = value, value, value, value
			case 5:
				if n, err := resizedCQ(a, cq, 1+int(op>>3)); err == nil {
					prod = uint32(n.Waiting())
					cq.free()
					cq, cc = n, client(t, a, n)
				}
			case 6:
				if n, err := resizedRecv(a, rq, uint32(op>>3)); err == nil {
					cons = 0
					rq.free()
					rq, rc = n, client(t, a, n)
				}
			case 7:
				rq.reset()
				cons = rq.cons
			}
			if cq.prod != prod&cq.mask || rq.cons != cons&rq.mask {
				t.Fatalf("op %d: producer %d, consumer %d; want %d, %d", i, cq.prod, rq.cons, prod, cons)
			}
			if n := cq.Waiting(); n < 0 || n > cq.entries() {
				t.Fatalf("%d wait in a queue of %d", n, cq.entries())
			}
			if n := rq.Len(); n < 0 || n > rq.entries() {
				t.Fatalf("%d wait in a queue of %d", n, rq.entries())
			}
		}
	})
}

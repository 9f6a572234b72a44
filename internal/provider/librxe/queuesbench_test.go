package librxe

import (
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// BenchmarkDoorbell is the path of a message without what surrounds it: WQEs
// from the ring, through the engine, to completions in the ring.
func BenchmarkDoorbell(b *testing.B) {
	for _, size := range []uint32{8, 4096, 65536} {
		for _, list := range []int{1, 32} {
			b.Run(fmt.Sprintf("WRITE/size=%d/list=%d", size, list), func(b *testing.B) {
				caps := stationCap
				caps.MaxSendWR = 63
				x, y := pairCap(b, rxe.QPRC, caps)
				wr := librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRWrite, SGL: []rxe.SGE{x.sge(0, size)},
					RemoteAddr: stationBase, RKey: y.mr.RKey()}}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for n := 0; n < b.N; n += list {
					for i := range list {
						wr.Flags = 0
						if i == list-1 {
							wr.Flags = rxedev.Signaled
						}
						if !x.send.PostSend(&wr) {
							b.Fatal("full")
						}
					}
					if err := x.sq.doorbell(); err != nil {
						b.Fatal(err)
					}
					if wc, ok := x.comp.Poll(); !ok || wc.Status != 0 {
						b.Fatalf("%+v", wc)
					}
				}
			})
		}
	}
}

func BenchmarkPush(b *testing.B) {
	a := testArena(b)
	r := must.Get[*cqRing](b)(newCQRing(a, 1000))
	c := client(b, a, r)
	wc := &rxe.WC{Opcode: rxe.WCRecv}
	b.ReportAllocs()
	for range b.N {
		r.Push(wc)
		c.Poll()
	}
}

func BenchmarkPop(b *testing.B) {
	a := testArena(b)
	r := must.Get[*recvRing](b)(newRecvRing(a, 1000, 1))
	c := client(b, a, r)
	w, list := &rxe.RecvWQE{}, []rxe.SGE{{Length: 1}}
	b.ReportAllocs()
	for range b.N {
		c.PostRecv(1, list...)
		r.Pop(w)
	}
}

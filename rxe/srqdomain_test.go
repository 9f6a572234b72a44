package rxe

import (
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestSRQDomain: the buffers of an SRQ are those of the SRQ's protection domain, whatever domain
// the QP that takes them has (IBA 10.2.9.1).
func TestSRQDomain(t *testing.T) {
	for _, size := range []uint32{0, 16, 3000, 200_000} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/region of the SRQ's domain=%v", size, own), func(t *testing.T) {
				const memory = 1 << 19
				e := newPairEnd(t, &armRecorder{now: 1}, "10.0.0.1", memory)
				other, err := e.dev.AllocPD()
				must.OK(t, err)
				region := e.mr
				if own {
					region, err = other.RegMR(e.mem, 0, memory, 0, AccessLocalWrite)
					must.OK(t, err)
				}
				srq, err := other.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 1})
				must.OK(t, err)
				recvCQ, err := e.dev.CreateCQ(CQInit{Entries: 4})
				must.OK(t, err)
				init := QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: QPCap{MaxSendWR: 4, MaxSendSGE: 1}}
				from, err := e.pd.CreateQP(init)
				must.OK(t, err)
				init.SRQ, init.RecvCQ = srq, recvCQ
				to, err := e.pd.CreateQP(init)
				must.OK(t, err)
				connect(t, from, to, e.gid, 1024)
				connect(t, to, from, e.gid, 1024)
				_, err = srq.PostRecv([]RecvWR{{ID: 1, SGL: []SGE{{Addr: memory / 2, Length: memory / 2, LKey: region.LKey()}}}})
				must.OK(t, err)
				_, err = from.PostSend([]SendWR{{Op: WRSend, Flags: SendSignaled, SGL: []SGE{{Length: size, LKey: e.mr.LKey()}}}})
				must.OK(t, err)
				send, recv := WCSuccess, WCSuccess
				if !own && size > 0 {
					send, recv = WCRemOpErr, WCLocProtErr
				}
				wantStatus(t, "send", e.cq, send)
				wantStatus(t, "receive", recvCQ, recv)
			})
		}
	}
}

func wantStatus(t *testing.T, what string, cq *CQ, want WCStatus) {
	t.Helper()
	wcs := make([]WC, 4)
	n, err := cq.Poll(wcs)
	must.OK(t, err)
	if n != 1 || wcs[0].Status != want {
		t.Errorf("%s: %d completions %+v, want one with %v", what, n, wcs[:n], want)
	}
}

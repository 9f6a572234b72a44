package explain

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// told keeps the records of failures.
type told []Record

func (l *told) Failed(q *rxe.QP, f *rxe.Failure) { *l = append(*l, Failed(q.Num(), f)) }

// TestLongMessageOfPeer: a peer's message that only a fault rule makes too long is the rule's
// fault, and not the peer's.
func TestLongMessageOfPeer(t *testing.T) {
	gid := wire.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))
	for _, op := range []rxe.WROpcode{rxe.WRSend, rxe.WRWrite, rxe.WRRead} {
		d := newTables(t).d
		sub := must(d.Subdevice(map[rxe.Limit]uint64{rxe.LimitMsgSize: 100}, noWatch{}))
		mem := &simnet.Memory{Base: 4096, Data: make([]byte, 4096)}
		var records told
		var qps [2]*rxe.QP
		var keys [2]*rxe.MR
		for i, u := range []*rxe.Subdevice{d.Whole(), sub} {
			pd, cq := must(u.AllocPD()), must(u.CreateCQ(rxe.CQInit{Entries: 8}))
			keys[i] = must(pd.RegMR(mem, 4096, 4096, 4096, rxe.AccessLocalWrite|rxe.AccessRemoteWrite|rxe.AccessRemoteRead))
			init := rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: cq, RecvCQ: cq, Cap: rxe.QPCap{MaxSendWR: 1, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1}}
			if i == 1 {
				init.Reports = &records
			}
			qps[i] = must(pd.CreateQP(init))
		}
		for i, q := range qps {
			a := attrs()
			a.AH.DGID, a.DestQPN, a.Access, a.MaxRdAtomic, a.MaxDestRdAtomic = gid, qps[1-i].Num(), rxe.AccessRemoteWrite|rxe.AccessRemoteRead, 1, 1
			for s := rxe.QPReset; s < rxe.QPRTS; s++ {
				a.State = s + 1
				if err := q.Modify(&a, rxe.RequiredMask(rxe.QPRC, s, s+1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		must(qps[1].PostRecv([]rxe.RecvWR{{ID: 1, SGL: []rxe.SGE{{Addr: 4096, Length: 4096, LKey: keys[1].LKey()}}}}))
		must(qps[0].PostSend([]rxe.SendWR{{Op: op, SGL: []rxe.SGE{{Addr: 4096, Length: 101, LKey: keys[0].LKey()}},
			RemoteAddr: 4096, RKey: keys[1].RKey()}}))
		if len(records) != 1 {
			t.Fatalf("%v: %d records", op, len(records))
		}
		r := records[0]
		checkSentence(t, &r, "refused PSN", "a fault rule limits max_msg_sz to 100; see gorxe fault list.")
		if r.Fault != Rule || !strings.Contains(r.Answer, "invalid request") {
			t.Errorf("%v: %+v", op, r)
		}
	}
}

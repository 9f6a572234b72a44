package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestMistakes checks what each end sees of a program's mistakes, with two real
// devices, over the network and within one device. The statuses are those of Linux
// rdma_rxe.
func TestMistakes(t *testing.T) {
	send := func(n int) func(a, b *party) rxe.SendWR {
		return func(a, b *party) rxe.SendWR { return rxe.SendWR{Op: rxe.WRSend, SGL: a.sge(0, n)} }
	}
	remote := func(op rxe.WROpcode, off int, key wire.RKey) func(a, b *party) rxe.SendWR {
		return func(a, b *party) rxe.SendWR {
			return rxe.SendWR{Op: op, SGL: a.sge(0, 8), RemoteAddr: va(off), RKey: b.mr.RKey() ^ key}
		}
	}
	for _, c := range []struct {
		name   string
		change func(a, b *rxe.QPAttr)
		spoil  func(a, b *party)
		wr     func(a, b *party) rxe.SendWR
		want   rxe.WCStatus   // of the request
		recv   []rxe.WCStatus // of two receives posted at the other end
		ends   rxe.QPState    // of the other QP
		recvs  int            // posted, beyond two
	}{
		{name: "no receive", change: func(a, _ *rxe.QPAttr) { a.RNRRetry = 2 },
			recvs: -2, wr: send(8), want: rxe.WCRNRRetryErr, ends: rxe.QPRTS},
		{name: "write, bad rkey", wr: remote(rxe.WRWrite, 0, 1), want: rxe.WCRemAccessErr, recv: flushed2, ends: rxe.QPErr},
		{name: "read, bad rkey", wr: remote(rxe.WRRead, 0, 1), want: rxe.WCRemAccessErr, recv: flushed2, ends: rxe.QPErr},
		{name: "atomic, bad rkey", wr: remote(rxe.WRFetchAdd, 0, 1), want: rxe.WCRemAccessErr, recv: flushed2, ends: rxe.QPErr},
		{name: "write out of range", wr: remote(rxe.WRWrite, stageMem-4, 0), want: rxe.WCRemAccessErr, recv: flushed2, ends: rxe.QPErr},
		{name: "send above the buffer", wr: send(200), want: rxe.WCRemInvReqErr,
			recv: []rxe.WCStatus{rxe.WCLocLenErr, rxe.WCFlushErr}, ends: rxe.QPErr},
		{name: "write not permitted", change: func(_, b *rxe.QPAttr) { b.Access = 0 },
			wr: remote(rxe.WRWrite, 0, 0), want: rxe.WCRemInvReqErr, recv: flushed2, ends: rxe.QPErr},
		{name: "read not permitted", change: func(_, b *rxe.QPAttr) { b.Access = 0 },
			wr: remote(rxe.WRRead, 0, 0), want: rxe.WCRemInvReqErr, recv: flushed2, ends: rxe.QPErr},
		{name: "atomic not permitted", change: func(_, b *rxe.QPAttr) { b.Access = 0 },
			wr: remote(rxe.WRFetchAdd, 0, 0), want: rxe.WCRemInvReqErr, recv: flushed2, ends: rxe.QPErr},
		{name: "peer in ERR", spoil: func(_, b *party) {
			if err := b.q.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState); err != nil {
				t.Fatal(err)
			}
		}, wr: send(8), want: rxe.WCRetryExcErr, recv: flushed2, ends: rxe.QPErr},
		{name: "bad lkey", wr: func(a, _ *party) rxe.SendWR {
			return rxe.SendWR{Op: rxe.WRSend, SGL: []rxe.SGE{{Addr: va(0), Length: 8, LKey: a.mr.LKey() ^ 1}}}
		}, want: rxe.WCLocProtErr, ends: rxe.QPRTS},
		{name: "local memory unmapped", wr: func(a, _ *party) rxe.SendWR {
			a.mem.Data = a.mem.Data[:4]
			return rxe.SendWR{Op: rxe.WRSend, SGL: a.sge(0, 8)}
		}, want: rxe.WCLocProtErr, ends: rxe.QPRTS},
		{name: "target memory unmapped", wr: func(a, b *party) rxe.SendWR {
			b.mem.Data = b.mem.Data[:4]
			return rxe.SendWR{Op: rxe.WRWrite, SGL: a.sge(0, 8), RemoteAddr: va(0), RKey: b.mr.RKey()}
		}, want: rxe.WCRemAccessErr, recv: flushed2, ends: rxe.QPErr},
	} {
		for _, where := range []string{"network", "loopback"} {
			t.Run(c.name+"/"+where, func(t *testing.T) {
				a, b := newParties(t, where == "loopback", c.change)
				for i := range 2 + c.recvs {
					b.recv(uint64(i+1), 100)
				}
				if c.spoil != nil {
					c.spoil(a, b)
				}
				wr := c.wr(a, b)
				wr.ID = 1
				a.post(t, wr, rxe.SendWR{ID: 2, Op: rxe.WRSend, SGL: a.sge(0, 1)})
				a.s.wait(10 * time.Second)
				a.statuses(t, c.want, rxe.WCFlushErr)
				b.statuses(t, c.recv...)
				if got := a.q.State(); got != rxe.QPErr {
					t.Errorf("the requester's QP is in %v", got)
				}
				if got := b.q.State(); got != c.ends {
					t.Errorf("the responder's QP is in %v, want %v", got, c.ends)
				}
			})
		}
	}
}

var flushed2 = []rxe.WCStatus{rxe.WCFlushErr, rxe.WCFlushErr}

// A misaligned atomic is refused when posted; nothing is queued.
func TestMisalignedAtomic(t *testing.T) {
	s := newStage(t, nil)
	wr := s.fetchAdd(1)
	wr.RemoteAddr++
	if n, err := s.q.PostSend([]rxe.SendWR{s.send(2, 8), wr, s.send(3, 8)}); n != 1 || !errors.Is(err, rxe.ErrInvalid) {
		t.Fatalf("PostSend: %d, %v", n, err)
	}
	s.wait(20 * time.Microsecond)
	s.expect(wire.RCSendOnly)
}

// party is one end of a conversation between two devices, or within one.
type party struct {
	s   *stage
	mem *simnet.Memory
	mr  *rxe.MR
	cq  *rxe.CQ
	q   *rxe.QP
}

func newParties(t *testing.T, loopback bool, change func(a, b *rxe.QPAttr)) (a, b *party) {
	s := newStage(t, nil)
	devs := [2]*rxe.Device{s.dev, s.dev}
	addrs := [2]wire.GID{wire.GIDFromAddr(nearAddr), wire.GIDFromAddr(nearAddr)}
	if !loopback {
		port := s.net.NewPort(friendAddr)
		d, err := rxe.New(rxe.Config{Name: "b", GUID: 2, Link: port, Clock: port, Seed: [32]byte{2}})
		s.ok(err)
		port.Attach(d)
		s.ok(d.SetGIDs([]wire.GID{wire.GIDFromAddr(friendAddr)}))
		s.ok(d.SetPort(rxe.PortActive, 4096))
		devs[1], addrs[1] = d, wire.GIDFromAddr(friendAddr)
	}
	a, b = newParty(s, devs[0]), newParty(s, devs[1])
	attrs := [2]rxe.QPAttr{}
	for i := range attrs {
		attrs[i] = rxe.QPAttr{PortNum: 1, Access: everyAccess &^ (rxe.AccessLocalWrite | rxe.AccessMWBind),
			PathMTU: stageMTU, MaxRdAtomic: 2, MaxDestRdAtomic: 2, MinRNRTimer: 1, Timeout: 10,
			RetryCnt: 2, RNRRetry: 7, SQPSN: stageSQ, RQPSN: stageSQ,
			AH: rxe.AHAttr{DGID: addrs[1-i], PortNum: 1}}
	}
	attrs[0].DestQPN, attrs[1].DestQPN = b.q.Num(), a.q.Num()
	if change != nil {
		change(&attrs[0], &attrs[1])
	}
	connectRC(t, a.q, attrs[0])
	connectRC(t, b.q, attrs[1])
	return a, b
}

func newParty(s *stage, d *rxe.Device) *party {
	p := &party{s: s, mem: &simnet.Memory{Base: memBase, Data: append([]byte(nil), template[:stageMem]...)}}
	pd, err := d.AllocPD()
	s.ok(err)
	p.mr, err = pd.RegMR(p.mem, memBase, stageMem, memBase, everyAccess)
	s.ok(err)
	p.cq, err = d.CreateCQ(rxe.CQInit{Entries: 64})
	s.ok(err)
	p.q, err = pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: p.cq, RecvCQ: p.cq, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
	s.ok(err)
	return p
}

func (p *party) sge(off, n int) []rxe.SGE {
	return []rxe.SGE{{Addr: va(off), Length: uint32(n), LKey: p.mr.LKey()}}
}

func (p *party) recv(id uint64, n int) {
	_, err := p.q.PostRecv([]rxe.RecvWR{{ID: id, SGL: p.sge(0x1000, n)}})
	p.s.ok(err)
}

func (p *party) post(t *testing.T, wrs ...rxe.SendWR) {
	t.Helper()
	if n, err := p.q.PostSend(wrs); err != nil {
		t.Fatalf("PostSend: %d, %v", n, err)
	}
}

func (p *party) statuses(t *testing.T, want ...rxe.WCStatus) {
	t.Helper()
	var wcs [16]rxe.WC
	n, err := p.cq.Poll(wcs[:])
	p.s.ok(err)
	same := n == len(want)
	for i := 0; same && i < n; i++ {
		same = wcs[i].Status == want[i] && wcs[i].ID == uint64(i+1)
	}
	if !same {
		t.Errorf("completions %+v, want %v", wcs[:n], want)
	}
}

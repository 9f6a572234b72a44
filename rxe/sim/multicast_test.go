package sim

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestMulticast: a datagram to a group reaches every attached QP once: the sender's
// own, others of its device, and those of another device. After a detach it does
// not (IBA 10.5).
func TestMulticast(t *testing.T) {
	net := simnet.New(simnet.Config{Latency: time.Microsecond, MaxBatch: 4})
	group := wire.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
	near, far := newMember(t, net, nearAddr, 1), newMember(t, net, farAddr, 2)
	qs := []*rxe.QP{near.newQP(), near.newQP(), far.newQP(), far.newQP()}
	for _, q := range qs[:3] {
		if err := q.AttachMcast(group, 0); err != nil {
			t.Fatal(err)
		}
	}
	ah, err := near.pd.CreateAH(rxe.AHAttr{DGID: group, PortNum: 1})
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		if _, err := qs[0].PostSend([]rxe.SendWR{{ID: 1, Op: rxe.WRSend, Flags: rxe.SendSignaled,
			SGL: near.sge(0, 100), AH: ah, RemoteQPN: wire.MulticastQPN, RemoteQKey: qkey}}); err != nil {
			t.Fatal(err)
		}
		net.Drain(net.Now() + 100_000)
	}
	send()
	near.received(qs[0], qs[1])
	far.received(qs[2])
	if !bytes.Equal(far.mem.Data[0x1000+wire.GRHLen:][:100], template[:100]) {
		t.Error("wrong data")
	}
	if err := qs[0].DetachMcast(group, 0); err != nil {
		t.Fatal(err)
	}
	if err := qs[2].DetachMcast(group, 0); err != nil {
		t.Fatal(err)
	}
	send()
	near.received(qs[1])
	far.received()
}

// member is a device with UD QPs that all receive to the same place.
type member struct {
	t   *testing.T
	dev *rxe.Device
	pd  *rxe.PD
	cq  *rxe.CQ
	mem *simnet.Memory
	mr  *rxe.MR
}

func newMember(t *testing.T, net *simnet.Network, addr netip.Addr, id byte) *member {
	t.Helper()
	m := &member{t: t, mem: &simnet.Memory{Base: memBase, Data: bytes.Clone(template[:stageMem])}}
	port := net.NewPort(addr)
	var errs [6]error
	m.dev, errs[0] = rxe.New(rxe.Config{Name: "member", GUID: uint64(id), Link: port, Clock: port, Seed: [32]byte{id}})
	port.Attach(m.dev)
	errs[1] = m.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(addr)})
	errs[2] = m.dev.SetPort(rxe.PortActive, 4096)
	m.pd, errs[3] = m.dev.AllocPD()
	m.cq, errs[4] = m.dev.CreateCQ(rxe.CQInit{Entries: 64})
	m.mr, errs[5] = m.pd.RegMR(m.mem, memBase, stageMem, memBase, rxe.AccessLocalWrite)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *member) sge(off, n int) []rxe.SGE {
	return []rxe.SGE{{Addr: va(off), Length: uint32(n), LKey: m.mr.LKey()}}
}

func (m *member) newQP() *rxe.QP {
	m.t.Helper()
	q, err := m.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPUD, SendCQ: m.cq, RecvCQ: m.cq,
		Cap: rxe.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		m.t.Fatal(err)
	}
	a := rxe.QPAttr{PortNum: 1, QKey: qkey}
	for from := range rxe.QPRTS {
		a.State = from + 1
		if err := q.Modify(&a, rxe.RequiredMask(rxe.QPUD, from, a.State)); err != nil {
			m.t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := q.PostRecv([]rxe.RecvWR{{ID: recvID, SGL: m.sge(0x1000, 200)}}); err != nil {
			m.t.Fatal(err)
		}
	}
	return q
}

// received polls one receive for each of these QPs, in any order.
func (m *member) received(qs ...*rxe.QP) {
	m.t.Helper()
	var wcs [16]rxe.WC
	n, err := m.cq.Poll(wcs[:])
	if err != nil {
		m.t.Fatal(err)
	}
	got := make(map[wire.QPN]int)
	for _, wc := range wcs[:n] {
		if wc.Status != rxe.WCSuccess {
			m.t.Errorf("completion %+v", wc)
		}
		if wc.ID == recvID {
			got[wc.QPN]++
			if wc.ByteLen != 100+wire.GRHLen || wc.Flags&rxe.WCGRH == 0 {
				m.t.Errorf("completion %+v", wc)
			}
		}
	}
	for _, q := range qs {
		if got[q.Num()] != 1 {
			m.t.Errorf("QP %#x received %d times", q.Num(), got[q.Num()])
		}
	}
	if len(got) != len(qs) {
		m.t.Errorf("%d QPs received, want %d", len(got), len(qs))
	}
}

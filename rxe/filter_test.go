package rxe

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// recordedFilter keeps what a Filter was told.
type recordedFilter struct {
	mark  wire.QPNMark
	peers map[netip.Addr]int
}

func newRecordedFilter() *recordedFilter {
	return &recordedFilter{mark: wire.NewQPNMark(8), peers: make(map[netip.Addr]int)}
}

func (f *recordedFilter) SetMark(m wire.QPNMark)  { f.mark = m }
func (f *recordedFilter) AddPeer(addr netip.Addr) { f.peers[addr]++ }
func (f *recordedFilter) RemovePeer(addr netip.Addr) {
	if f.peers[addr]--; f.peers[addr] == 0 {
		delete(f.peers, addr)
	}
}

// The filter knows the peers of connected queue pairs for as long as these are connected.
func TestFilterPeers(t *testing.T) {
	f := newRecordedFilter()
	d := newLocalPair(t, 2, 1<<16, 1024, func(c *Config) { c.Filter = f })
	here := d.gid.Addr()
	want := func(what string, peers map[netip.Addr]int) {
		t.Helper()
		if !maps.Equal(f.peers, peers) {
			t.Errorf("%s: peers %v, want %v", what, f.peers, peers)
		}
	}
	want("four connected queue pairs", map[netip.Addr]int{here: 4})
	must.OK(t, d.qps[0].Modify(&QPAttr{State: QPErr}, QPAttrState))
	want("one in ERR", map[netip.Addr]int{here: 4})
	must.OK(t, d.qps[0].Modify(&QPAttr{State: QPReset}, QPAttrState))
	want("it was reset", map[netip.Addr]int{here: 3})
	there := netip.MustParseAddr("10.0.0.7")
	connect(t, d.qps[0], d.qps[1], wire.GIDFromAddr(there), 1024)
	want("connected to another host", map[netip.Addr]int{here: 3, there: 1})
	for _, q := range d.qps {
		must.OK(t, q.Destroy())
	}
	want("all are destroyed", map[netip.Addr]int{})
}

// Each number has the mark of its queue pair's type. With very many queue pairs more numbers
// have it, and the filter knows that before such a number is given.
func TestFilterMark(t *testing.T) {
	f := newRecordedFilter()
	d := newLocalPair(t, 0, 1<<16, 1024, nil)
	d.dev.cfg.Filter, d.dev.cfg.Mark, d.dev.mark = f, f.mark, f.mark
	const more = 64 // QPs beyond those of 8 bits
	n := f.mark.Numbers()/spareNumbers + more
	var qps []*QP
	for i := range n {
		typ := QPType(QPRC)
		if i%8 == 0 {
			typ = QPUD
		}
		q, err := d.pd.CreateQP(QPInitAttr{Type: typ, SendCQ: d.cq, RecvCQ: d.cq})
		must.OK(t, err)
		if is := f.mark.Datagram(q.Num()); is != (typ == QPUD) || is == isConnected(f.mark, q) {
			t.Fatalf("queue pair %d of type %v has number %#x", i, typ, q.Num())
		}
		qps = append(qps, q)
	}
	if f.mark.Bits != 7 {
		t.Errorf("with %d queue pairs the mark has %d bits, want 7", n, f.mark.Bits)
	}
	// When they go, fewer numbers have the mark again, but always those of the others.
	last := 0 // the last queue pair whose number does not have all 8 bits
	full := wire.QPNMark{Mul: f.mark.Mul, Bits: 8}
	for i, q := range qps {
		if !isConnected(full, q) && !full.Datagram(q.Num()) {
			last = i
		}
	}
	if last == 0 {
		t.Fatal("each number has the mark of 8 bits")
	}
	for i, q := range qps[:last] {
		must.OK(t, q.Destroy())
		if f.mark.Bits != 7 {
			t.Fatalf("after %d queue pairs the mark has %d bits: number %#x loses it", i+1, f.mark.Bits, qps[last].Num())
		}
	}
	for _, q := range qps[last:] {
		must.OK(t, q.Destroy())
	}
	if f.mark.Bits != 8 {
		t.Errorf("when all are gone, the mark has %d bits, want 8", f.mark.Bits)
	}
}

// A number that fits is found even if it is the only one. The special numbers do not fit.
func TestRandomQPN(t *testing.T) {
	r := random{gen: rand.NewChaCha8([32]byte{1})}
	const only = 0x123457
	if n := r.qpn(func(n wire.QPN) bool { return n <= 1 || n == wire.QPNMask || n == only }); n != only {
		t.Errorf("it draws %#x", n)
	}
	if a, b := r.qpn(wire.QPNMark{}.Connected), r.qpn(wire.QPNMark{}.Connected); a == b {
		t.Errorf("it draws %#x twice", a)
	}
}

func isConnected(m wire.QPNMark, q *QP) bool { return m.Connected(q.Num()) || m.Unlisted(q.Num()) }

// TestFilterShares: a user with very many peers takes its share of the filter. Its further queue
// pairs have numbers that pass from all addresses, and those of other users do not.
func TestFilterShares(t *testing.T) {
	f := newRecordedFilter()
	d := newLocalPair(t, 0, 1<<16, 1024, nil)
	d.dev.cfg.Filter, d.dev.cfg.Mark, d.dev.mark = f, f.mark, f.mark
	create := func(user any) *QP {
		t.Helper()
		q, err := d.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: d.cq, RecvCQ: d.cq, User: user})
		must.OK(t, err)
		return q
	}
	next := netip.MustParseAddr("10.1.0.0")
	to := func(q *QP) error { // connects to yet another host
		t.Helper()
		must.OK(t, q.Modify(&QPAttr{State: QPReset}, QPAttrState))
		a := QPAttr{State: QPInit, PortNum: 1}
		must.OK(t, q.Modify(&a, RequiredMask(QPRC, QPReset, QPInit)))
		next = next.Next()
		a = QPAttr{State: QPRTR, PathMTU: 1024, AH: AHAttr{DGID: wire.GIDFromAddr(next), HopLimit: 64, PortNum: 1}}
		return q.Modify(&a, RequiredMask(QPRC, QPInit, QPRTR))
	}
	var qps []*QP
	for i := range 2 * filterShare {
		q := create("many")
		must.OK(t, to(q))
		if listed := f.mark.Connected(q.Num()); listed != (i < filterShare) || !isConnected(f.mark, q) {
			t.Fatalf("queue pair %d has number %#x", i, q.Num())
		}
		qps = append(qps, q)
	}
	if len(f.peers) != filterShare {
		t.Errorf("the filter lists %d peers of one user", len(f.peers))
	}
	q := create("few")
	must.OK(t, to(q))
	if !f.mark.Connected(q.Num()) || f.peers[next] != 1 {
		t.Errorf("another user's queue pair has number %#x, its peer is listed %d times", q.Num(), f.peers[next])
	}
	must.OK(t, q.Destroy())
	// Queue pairs of one peer take one place, and a hundred when they are reset.
	first := qps[0]
	must.OK(t, first.Modify(&QPAttr{State: QPReset}, QPAttrState))
	must.OK(t, to(first))
	shared := create("reset")
	must.OK(t, to(shared))
	peer, same := next, []*QP{shared}
	for range filterShare {
		next = peer.Prev()
		q := create("reset")
		must.OK(t, to(q))
		if !f.mark.Connected(q.Num()) {
			t.Fatal("the queue pairs of one peer take more than one place")
		}
		same = append(same, q)
	}
	refused := 0
	for _, q := range same {
		if err := to(q); errors.Is(err, ErrLimit) {
			refused++
		} else {
			must.OK(t, err)
		}
	}
	if refused != 1 {
		t.Errorf("%d of %d queue pairs found no place", refused, len(same))
	}
	for _, q := range append(qps, same...) {
		must.OK(t, q.Destroy())
	}
	if len(f.peers) != 0 || len(d.dev.filterUsers.of) != 0 {
		t.Errorf("left are %d peers and %d users", len(f.peers), len(d.dev.filterUsers.of))
	}
}

package rxe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
)

// notes is an Observer that writes down what it sees.
type notes struct{ seen []string }

func (n *notes) Posted(_ *QP, wr SendWR) { n.add("posted %v %d", wr.Op, wr.ID) }

func (n *notes) Accessed(q *QP, _ uint32, va, size uint64, need Access) {
	n.add("%d: %d bytes at %d, need %d", q.Num(), size, va, need)
}

func (n *notes) Receiving(q *QP) { n.add("%d: receiving", q.Num()) }

func (n *notes) Completed(_ *QP, wc WC, pushed bool) {
	what := "completed"
	if !pushed {
		what = "unsignaled"
	}
	n.add("%s %v %d: %v", what, wc.Opcode, wc.ID, wc.Status)
}

func (n *notes) add(format string, args ...any) {
	n.seen = append(n.seen, fmt.Sprintf(format, args...))
}

// TestObserver: an observer sees each posted request, each access that a key allows, and each
// completion, in order. It sees no access that a key refuses.
func TestObserver(t *testing.T) {
	var n notes
	d := newLocalPair(t, 1, 1<<20, 4096, nil)
	for _, q := range d.qps {
		q.observer = &n
	}
	a, b := d.qps[0], d.qps[1]
	if a.Num() == b.qpn {
		a, b = b, a
	}
	key := d.mr.LKey()
	post := func(wr SendWR) []string {
		t.Helper()
		n.seen = nil
		if wr.ID != 4 {
			wr.Flags |= SendSignaled
		}
		_, err := a.PostSend([]SendWR{wr})
		must.OK(t, err)
		return n.seen
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("seen %q, want %q", got, want)
		}
	}
	sgl := []SGE{{Addr: 64, Length: 8, LKey: key}}
	want(post(SendWR{ID: 1, Op: WRWrite, SGL: sgl, RemoteAddr: 4096, RKey: d.mr.RKey()}),
		"posted RDMA_WRITE 1",
		fmt.Sprintf("%d: 8 bytes at 64, need 0", a.Num()),
		fmt.Sprintf("%d: 8 bytes at 4096, need 2", b.Num()),
		"completed RDMA_WRITE 1: success")
	_, err := b.PostRecv([]RecvWR{{ID: 7, SGL: []SGE{{Addr: 8192, Length: 32, LKey: key}}}})
	must.OK(t, err)
	want(post(SendWR{ID: 2, Op: WRSend, SGL: sgl}),
		"posted SEND 2",
		fmt.Sprintf("%d: 8 bytes at 64, need 0", a.Num()),
		fmt.Sprintf("%d: receiving", b.Num()),
		fmt.Sprintf("%d: 32 bytes at 8192, need 1", b.Num()),
		"completed RECV 7: success",
		"completed SEND 2: success")
	want(post(SendWR{ID: 4, Op: WRWrite, SGL: sgl, RemoteAddr: 4096, RKey: d.mr.RKey()}),
		"posted RDMA_WRITE 4",
		fmt.Sprintf("%d: 8 bytes at 64, need 0", a.Num()),
		fmt.Sprintf("%d: 8 bytes at 4096, need 2", b.Num()),
		"unsignaled RDMA_WRITE 4: success")
	want(post(SendWR{ID: 3, Op: WRWrite, SGL: []SGE{{Addr: 64, Length: 8, LKey: key + 1}}, RemoteAddr: 4096, RKey: d.mr.RKey()}),
		"posted RDMA_WRITE 3",
		"completed RDMA_WRITE 3: local protection error",
		fmt.Sprintf("%d: receiving", a.Num())) // which are flushed
}

// unseen is an Observer that does nothing.
type unseen struct{}

func (unseen) Posted(*QP, SendWR)                           {}
func (unseen) Accessed(*QP, uint32, uint64, uint64, Access) {}
func (unseen) Receiving(*QP)                                {}
func (unseen) Completed(*QP, WC, bool)                      {}

// watched returns what posts a WRITE and polls its completion, with this observer.
func watched(t testing.TB, o Observer) func() {
	d := newLocalPair(t, 1, 1<<20, 4096, nil)
	a := d.qps[0]
	for _, q := range d.qps {
		q.observer = o
	}
	wrs := []SendWR{{Op: WRWrite, Flags: SendSignaled, SGL: []SGE{{Addr: 64, Length: 8, LKey: d.mr.LKey()}}, RemoteAddr: 4096, RKey: d.mr.RKey()}}
	wcs := make([]WC, 1)
	return func() {
		if _, err := a.PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		if n, err := a.sendCQ.Poll(wcs); n != 1 || err != nil || wcs[0].Status != WCSuccess {
			t.Fatal(n, err, wcs[0].Status)
		}
	}
}

// TestNoObserver: without an observer, a request allocates nothing for it.
func TestNoObserver(t *testing.T) {
	once := watched(t, nil)
	if n := testing.AllocsPerRun(200, once); n >= 1 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkObserver: a WRITE within a device without an observer, and with one that does nothing.
func BenchmarkObserver(b *testing.B) {
	for name, o := range map[string]Observer{"none": nil, "unseen": unseen{}} {
		b.Run(name, func(b *testing.B) {
			once := watched(b, o)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

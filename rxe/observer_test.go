package rxe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
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

package rxe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// workSeen is a WorkTap that writes down what it sees.
type workSeen struct{ list []string }

func (w *workSeen) Posted(_ *QP, id uint64, op WROpcode, bytes uint32) {
	w.list = append(w.list, fmt.Sprintf("posted %d %v %d", id, op, bytes))
}

func (w *workSeen) Began(q *QP, id uint64, first, last wire.PSN, route *wire.Route, peer wire.QPN) {
	w.list = append(w.list, fmt.Sprintf("began %d %d %v %v", id, last.Diff(first)+1, route.Dst == q.route.Dst, peer == q.attr.DestQPN))
}

func (w *workSeen) Completed(_ *QP, wc WC, receive bool) {
	w.list = append(w.list, fmt.Sprintf("completed %d %v %v", wc.ID, wc.Status, receive))
}

// TestSetTap: a Tap that comes while queue pairs exist sees each packet between them and each work
// request, also one without a completion. Without it, packets are not formed and nothing is seen.
func TestSetTap(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	a, b := d.qps[0], d.qps[1]
	w, packets := new(workSeen), 0
	send := func(id uint64) {
		t.Helper()
		_, err := b.PostRecv([]RecvWR{{ID: id + 100, SGL: []SGE{{Length: 4096, LKey: d.mr.LKey()}}}})
		must.OK(t, err)
		_, err = a.PostSend([]SendWR{{ID: id, Op: WRSend, SGL: []SGE{{Length: 3000, LKey: d.mr.LKey()}}}})
		must.OK(t, err)
		d.dev.Deliver()
	}
	send(1)
	d.dev.SetTap(&Tap{Packets: func(b *wire.Burst) { packets += b.N() }, Work: w})
	send(2)
	d.dev.SetTap(nil)
	send(3)
	want := []string{"posted 2 SEND 3000", "began 2 3 true true", "completed 102 success true", "completed 2 success false"}
	if !slices.Equal(w.list, want) || packets != 4 {
		t.Errorf("%d packets, %q", packets, w.list)
	}
}

// TestLatency: one in LatencySample of a queue pair's work requests counts, by the time that it
// took, and one that fails does not.
func TestLatency(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	a, clock := d.qps[0], d.dev.cfg.Clock.(*armRecorder)
	// a request, and its acknowledgement
	d.dev.SetTap(&Tap{Packets: func(*wire.Burst) { clock.now += 2_500_000 }})
	for range 3 * LatencySample {
		_, err := a.PostSend([]SendWR{{ID: 1, Op: WRWrite, RKey: d.mr.RKey(), SGL: []SGE{{Length: 1000, LKey: d.mr.LKey()}}}})
		must.OK(t, err)
		d.dev.Deliver()
	}
	if l := d.dev.Latency(); l.Buckets[13] != 3 || l.Sum != 15_000_000 {
		t.Errorf("%+v", l)
	}
	_, err := a.PostSend([]SendWR{{ID: 1, Op: WRWrite, RKey: d.mr.RKey() + 1, SGL: []SGE{{Length: 1000, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	d.dev.Deliver()
	if l := d.dev.Latency(); l.Sum != 15_000_000 {
		t.Errorf("with one that fails: %+v", l)
	}
}

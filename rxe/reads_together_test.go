package rxe

import (
	"fmt"
	"math"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestLongReadsFail: a READ whose data cannot be read is refused in its turn. Those before it are
// answered, and nothing keeps the region in use.
func TestLongReadsFail(t *testing.T) {
	const half, size, n = 1 << 20, 64 << 10, 4
	for bad := range n {
		t.Run(fmt.Sprint("READ ", bad), func(t *testing.T) {
			p := newPair(t, 1, 2*half, 4096)
			p.b.dev.cfg.CostlyMemory = true
			mem := &callCounter{Memory: p.b.mem, hole: uint64(bad*size + 4096)}
			mr, err := p.b.pd.RegMR(mem, 0, half, 0, AccessRemoteRead)
			must.OK(t, err)
			for i := range half {
				p.b.mem.b[i] = byte(i ^ i>>12)
			}
			wrs := make([]SendWR, n)
			for i := range wrs {
				at := uint64(i) * size
				wrs[i] = SendWR{ID: uint64(i), Op: WRRead, Flags: SendSignaled, RemoteAddr: at, RKey: mr.RKey(),
					SGL: []SGE{{Addr: half + at, Length: size, LKey: p.a.mr.LKey()}}}
			}
			_, err = p.a.qps[0].PostSend(wrs)
			must.OK(t, err)
			p.pump()
			wantFailedWith(t, p.a.cq, n, bad, WCRemAccessErr)
			arrived := bad * size
			equal(t, "target", p.a.mem.b[half:half+arrived], p.b.mem.b[:arrived])
			must.OK(t, mr.Dereg())
		})
	}
}

// TestLongReadsStop: a short READ, a replay, one that has begun, one whose key is gone, and one of
// other memory are not answered together with those before them.
func TestLongReadsStop(t *testing.T) {
	const size = 64 << 10
	for _, tt := range []struct {
		name   string
		change func(q *QP, queue []response)
		n      int
	}{
		{"all", func(*QP, []response) {}, 4},
		{"short", func(_ *QP, queue []response) { queue[3].left = aheadMessage }, 3},
		{"atomic", func(_ *QP, queue []response) { queue[2].kind = respondAtomic }, 2},
		{"replay", func(_ *QP, queue []response) { queue[2].replay = true }, 2},
		{"begun", func(_ *QP, queue []response) { queue[0].began = true }, 1},
		{"long", func(_ *QP, queue []response) { queue[2].left += 4097 }, 3},
		{"a long one after another", func(_ *QP, queue []response) { queue[1].left = 4 * size }, 1},
		{"key of the third", func(_ *QP, queue []response) { queue[2].rkey++ }, 2},
		{"key of the second", func(_ *QP, queue []response) { queue[1].rkey++ }, 1},
		{"cheap memory", func(q *QP, _ []response) { q.dev.cfg.CostlyMemory = false }, 1},
		{"other memory", func(q *QP, queue []response) {
			mr, err := q.pd.RegMR(&callCounter{hole: math.MaxUint64}, 0, 1<<20, 0, AccessRemoteRead)
			must.OK(t, err)
			queue[3].rkey = mr.RKey()
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, 1, 1<<20, 4096)
			p.b.dev.cfg.CostlyMemory = true
			q, st := p.b.qps[0], p.b.dev.newStep()
			r := &q.resp
			q.lock()
			for range 6 {
				r.queue = append(r.queue, response{kind: respondRead, rkey: p.b.mr.RKey(), pd: q.pd, left: size, total: size})
			}
			tt.change(q, r.queue)
			packets := 0
			for i := range tt.n {
				packets += int(readPackets(r.queue[i].left, q.mtu()))
			}
			refused := q.refused
			sent, err := q.gather(r, 64+1, math.MaxInt, st)
			must.OK(t, err)
			if int(sent) != packets || len(r.queue) != 6-tt.n {
				t.Errorf("%d packets were sent, and %d READs are left, want %d and %d", sent, len(r.queue), packets, 6-tt.n)
			}
			if q.refused != refused {
				t.Error("a key counts as refused before its READ is")
			}
			r.queue = nil
			q.unlock(st)
			st.done()
			must.OK(t, p.b.mr.Dereg())
		})
	}
}

// TestWholeReads: a quantum of responses ends with a READ if a few more packets let it, and if no
// peer is slow.
func TestWholeReads(t *testing.T) {
	p := newPair(t, 1, 1<<20, 4096)
	q := p.b.qps[0]
	r := &q.resp
	for _, tt := range []struct {
		kib    []uint32 // that READs have left
		limit  int
		budget int
		want   int
	}{
		{[]uint32{64, 64, 64, 64, 64}, 0, 60, 64},
		{[]uint32{64, 64, 64, 64, 64}, 60, 60, 60},
		{[]uint32{64, 64, 64}, 0, 60, 60},
		{[]uint32{240, 64}, 0, 60, 60},
		{[]uint32{1024, 64}, 0, 60, 60},
		{[]uint32{64, 64, 64, 108}, 0, 60, 60},
		{[]uint32{64, 64, 64, 104}, 0, 60, 74},
		{nil, 0, 60, 60},
	} {
		r.queue, r.pace.limit = nil, tt.limit
		for _, kib := range tt.kib {
			r.queue = append(r.queue, response{kind: respondRead, left: kib << 10})
		}
		if got := r.wholeReads(q, tt.budget); got != tt.want {
			t.Errorf("READs with %v KiB, limit %d: %d packets, want %d", tt.kib, tt.limit, got, tt.want)
		}
	}
	r.queue, r.pace.limit = nil, 0
	r.queue = append(r.queue, response{kind: respondRead, left: 260 << 10})
	q.rate.rate = 1 << 30
	if got := r.wholeReads(q, 60); got != 60 {
		t.Errorf("with a rate: %d packets, want 60", got)
	}
	q.rate.rate, r.queue = 0, nil
}

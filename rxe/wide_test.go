package rxe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// sendRecorder notes how many packets the bursts of each Send have.
type sendRecorder struct {
	*pipe
	sends [][]int
}

func (l *sendRecorder) Send(bursts []wire.Burst) {
	var packets []int
	for i := range bursts {
		packets = append(packets, bursts[i].N())
	}
	l.sends = append(l.sends, packets)
	l.pipe.Send(bursts)
}

// TestLongMessages: the packets of several long messages leave with one call of the link, and their
// payloads are read with one call. A message that is one burst and a packet long, and is alone, is
// read with one call too.
func TestLongMessages(t *testing.T) {
	const half = 2 << 20 // of each memory
	for _, tt := range []struct {
		op   WROpcode
		size uint32
		n    int
		// Packets in each burst, for each call of the link. A packet with a RETH or an AETH is
		// longer than those without, so one of these ends its burst.
		sends [][]int
		reads int
	}{
		{WRWrite, 64 << 10, 4, [][]int{{2, 14, 2, 14, 2, 14, 2, 14}}, 1},
		{WRWrite, 64 << 10, 7, [][]int{{2, 14, 2, 14, 2, 14, 2, 14}, {2, 14, 2, 14, 2, 14}}, 2},
		{WRWrite, 40_002, 2, [][]int{{2, 8, 2, 8}}, 1},
		{WRSend, 64 << 10, 4, [][]int{{15, 15, 15, 15, 4}}, 1},
		{WRRead, 64 << 10, 3, [][]int{{2, 13, 3, 13, 3, 13, 1}}, 1},
		{WRRead, 64 << 10, 5, [][]int{{2, 13, 3, 13, 3, 13, 3, 13, 1}, {2, 13, 1}}, 2},
		{WRRead, 40_002, 7, [][]int{{2, 8, 2, 8, 2, 8, 2, 8, 2, 8, 2, 8, 2, 8}}, 2},
		{WRWrite, 1 << 20, 1, [][]int{{2, 15, 15, 15, 14}, {15, 15, 15, 15}, {15, 15, 15, 15}, {15, 15, 15, 15}, {15}}, 17},
		{WRWrite, aheadMessage, 8, [][]int{{2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}}, 2},
	} {
		t.Run(fmt.Sprintf("%v of %d bytes", tt.op, tt.size), func(t *testing.T) {
			p := newPair(t, 1, 2*half, 4096)
			p.a.dev.cfg.CostlyMemory, p.b.dev.cfg.CostlyMemory = true, true
			source, target := p.a, p.b
			if tt.op == WRRead {
				source, target = p.b, p.a
			}
			mem := &callCounter{Memory: source.mem, hole: math.MaxUint64}
			mr, err := source.pd.RegMR(mem, 0, 2*half, 0, allRemote)
			must.OK(t, err)
			link := &sendRecorder{pipe: source.link}
			source.dev.cfg.Link = link
			for i := range half {
				source.mem.b[i] = byte(i ^ i>>12)
			}

			local, remote := mr, target.mr
			from, to := uint64(0), uint64(half)
			if tt.op == WRRead {
				local, remote, from, to = target.mr, mr, half, 0
			}
			wrs := make([]SendWR, tt.n)
			for i := range wrs {
				at := uint64(i) * uint64(tt.size)
				wrs[i] = SendWR{Op: tt.op, Flags: SendSignaled, RemoteAddr: to + at, RKey: remote.RKey(),
					SGL: []SGE{{Addr: from + at, Length: tt.size, LKey: local.LKey()}}}
				if tt.op == WRSend {
					_, err := target.qps[0].PostRecv([]RecvWR{{SGL: []SGE{{Addr: to + at, Length: tt.size, LKey: target.mr.LKey()}}}})
					must.OK(t, err)
				}
			}
			_, err = p.a.qps[0].PostSend(wrs)
			must.OK(t, err)
			p.pump()
			p.a.take(t, tt.n)
			if tt.op == WRSend {
				p.b.take(t, tt.n)
			}

			if !slices.EqualFunc(link.sends, tt.sends, slices.Equal) {
				t.Errorf("sent bursts of %v packets, want %v", link.sends, tt.sends)
			}
			if reads := len(mem.calls); reads != tt.reads {
				t.Errorf("ReadV was called %d times, want %d", reads, tt.reads)
			}
			moved := tt.n * int(tt.size)
			equal(t, "target", target.mem.b[half:half+moved], source.mem.b[:moved])
		})
	}
}

// TestLongMessagesFail: a message whose payload cannot be read fails in its turn. Those before it
// arrive, those behind it are flushed, and nothing keeps the region in use.
func TestLongMessagesFail(t *testing.T) {
	const half, size, n = 1 << 20, 60_000, 4
	for _, tt := range []struct {
		name  string
		spoil func(mem *callCounter, wr *SendWR)
	}{
		{"key", func(_ *callCounter, wr *SendWR) { wr.SGL[0].LKey++ }},
		{"second key", func(_ *callCounter, wr *SendWR) { wr.SGL[1].LKey++ }},
		{"memory", func(mem *callCounter, wr *SendWR) { mem.hole = wr.SGL[0].Addr + 4096 }},
	} {
		for bad := range n {
			t.Run(fmt.Sprintf("%s of message %d", tt.name, bad), func(t *testing.T) {
				p := newPair(t, 1, 2*half, 4096)
				p.a.dev.cfg.CostlyMemory = true
				mem := &callCounter{Memory: p.a.mem, hole: math.MaxUint64}
				mr, err := p.a.pd.RegMR(mem, 0, 2*half, 0, allRemote)
				must.OK(t, err)
				for i := range half {
					p.a.mem.b[i] = byte(i ^ i>>12)
				}
				wrs := make([]SendWR, n)
				for i := range wrs {
					at := uint64(i) * size
					wrs[i] = SendWR{ID: uint64(i), Op: WRWrite, Flags: SendSignaled, RemoteAddr: half + at, RKey: p.b.mr.RKey(),
						SGL: []SGE{{Addr: at, Length: size / 2, LKey: mr.LKey()}, {Addr: at + size/2, Length: size / 2, LKey: mr.LKey()}}}
				}
				tt.spoil(mem, &wrs[bad])
				_, err = p.a.qps[0].PostSend(wrs)
				must.OK(t, err)
				p.pump()
				wantFailed(t, p.a.cq, n, bad)
				arrived := bad * size
				equal(t, "target", p.b.mem.b[half:half+arrived], p.a.mem.b[:arrived])
				rest := p.b.mem.b[half+arrived:]
				equal(t, "what no message was for", rest, make([]byte, len(rest)))
				must.OK(t, mr.Dereg())
			})
		}
	}
}

// TestSeveralStop: a message with a fence, a short one, and one that does not fit the window whole
// are not sent together with those before them.
func TestSeveralStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(q *QP, wrs []SendWR)
		n      int
	}{
		{"all", func(*QP, []SendWR) {}, 4},
		{"fence", func(_ *QP, wrs []SendWR) { wrs[2].Flags |= SendFence }, 2},
		{"fence of the first", func(_ *QP, wrs []SendWR) { wrs[0].Flags |= SendFence }, 4},
		{"short", func(_ *QP, wrs []SendWR) { wrs[3].SGL[0].Length = aheadMessage }, 3},
		{"long", func(_ *QP, wrs []SendWR) { wrs[1].SGL[0].Length *= 4 }, 1},
		{"READ", func(_ *QP, wrs []SendWR) { wrs[2].Op = WRRead }, 2},
		{"window", func(q *QP, _ []SendWR) { q.send.window = 2*16 + 15 }, 2},
		{"retransmission", func(q *QP, _ []SendWR) { q.send.limit = q.send.psn.Next() }, 1},
		{"cheap memory", func(q *QP, _ []SendWR) { q.dev.cfg.CostlyMemory = false }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, 1, 1<<20, 4096)
			p.a.dev.cfg.CostlyMemory = true
			q, st := p.a.qps[0], p.a.dev.newStep()
			wrs := make([]SendWR, 6)
			for i := range wrs {
				wrs[i] = SendWR{Op: WRWrite, RKey: p.b.mr.RKey(), SGL: []SGE{{Length: 64 << 10, LKey: p.a.mr.LKey()}}}
			}
			tt.change(q, wrs)
			q.lock()
			_, err := q.postSend(wrs)
			must.OK(t, err)
			q.begin(q.sq.at(q.send.cur), st)
			q.req.fill(q, 0, &st.message)
			plan := q.plan(&q.req, &st.message, uint32(q.send.window), math.MaxInt, st)
			if plan.messages != tt.n || plan.messages > 1 && (plan.bytes < plan.messages*(64<<10) || plan.bytes > wideBytes) {
				t.Errorf("%d messages with %d bytes, want %d", plan.messages, plan.bytes, tt.n)
			}
			q.unlock(st)
			st.done()
		})
	}
}

// TestWideOutbox: an outbox changes its memory only while it is empty, and keeps both.
func TestWideOutbox(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 4096, nil)
	st := d.dev.newStep()
	defer st.done()
	for round := range 2 {
		st.reserve(4096, 1, wideBytes)
		if cap(st.buf) != wideBytes {
			t.Fatalf("round %d: room for %d bytes, want %d", round, cap(st.buf), wideBytes)
		}
		h := wire.Headers{Opcode: wire.RCWriteOnly, DestQP: d.qps[1].qpn}
		h.Put(st.packet(d.qps[0].route, h.Len(), h.Len()+smallItemBytes))
		if st.reserve(4096, 1, outboxBytes); cap(st.buf) != wideBytes {
			t.Errorf("round %d: not empty, and %d bytes of room, want %d", round, cap(st.buf), wideBytes)
		}
		if d.dev.deliverWhole(st) {
			t.Errorf("round %d: an inbox got the memory of a wide outbox", round)
		}
		st.flush()
		if st.reserve(4096, 1, outboxBytes); cap(st.buf) != outboxBytes {
			t.Errorf("round %d: room for %d bytes, want %d", round, cap(st.buf), outboxBytes)
		}
	}
	st.reserve(4096, 1, wideBytes)
	if n := testing.AllocsPerRun(10, func() {
		st.reserve(4096, 1, outboxBytes)
		st.reserve(4096, 1, wideBytes)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestManyBursts: an outbox with many bursts makes room for all those of several long messages.
// Otherwise packets would leave before their payloads are read.
func TestManyBursts(t *testing.T) {
	const half, size, n = 1 << 20, 17 << 10, 8
	p := newPair(t, 1, 2*half, 256)
	p.a.dev.cfg.CostlyMemory = true
	for i := range half {
		p.a.mem.b[i] = byte(i ^ i>>12)
	}
	q, st := p.a.qps[0], p.a.dev.newStep()
	q.lock()
	st.reserve(4096, 1, wideBytes)
	var routes [maxBursts]wire.Route
	for i := range maxBursts - groupBursts {
		routes[i] = *q.route
		h := wire.Headers{Opcode: wire.RCAck, DestQP: 1 << 20} // no such queue pair
		h.Put(st.packet(&routes[i], h.Len(), h.Len()))
	}
	wrs := make([]SendWR, n)
	for i := range wrs {
		at := uint64(i) * size
		wrs[i] = SendWR{Op: WRWrite, Flags: SendSignaled, RemoteAddr: half + at, RKey: p.b.mr.RKey(),
			SGL: []SGE{{Addr: at, Length: size, LKey: p.a.mr.LKey()}}}
	}
	_, err := q.postSend(wrs)
	must.OK(t, err)
	q.runRequester(st)
	q.unlock(st)
	st.done()
	p.pump()
	p.a.take(t, n)
	equal(t, "target", p.b.mem.b[half:half+n*size], p.a.mem.b[:n*size])
}

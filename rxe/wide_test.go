package rxe

import (
	"fmt"
	"math"
	"slices"
	"testing"

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

// TestLongMessages: the packets of several long messages leave with one call of the link, and a message that is one burst
// and a packet long is read with one call.
func TestLongMessages(t *testing.T) {
	const half = 2 << 20 // of each memory
	for _, tt := range []struct {
		op   WROpcode
		size uint32
		n    int
		// Packets in each burst, for each call of the link. A packet with a RETH or an AETH is longer than those
		// without, so one of these ends its burst.
		sends [][]int
		reads int
	}{
		{WRWrite, 64 << 10, 4, [][]int{{2, 14, 2, 14, 2, 14, 2, 14}}, 4},
		{WRSend, 64 << 10, 4, [][]int{{15, 15, 15, 15, 4}}, 4},
		{WRRead, 64 << 10, 3, [][]int{{2, 13, 3, 13, 3, 13, 1}}, 3},
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
			must(t, err)
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
					must(t, err)
				}
			}
			_, err = p.a.qps[0].PostSend(wrs)
			must(t, err)
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

// TestWideOutbox: an outbox changes its memory only while it is empty, and keeps both.
func TestWideOutbox(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 4096, nil)
	o := d.dev.getOutbox()
	defer o.done()
	for round := range 2 {
		o.reserve(4096, true)
		if cap(o.buf) != wideBytes {
			t.Fatalf("round %d: room for %d bytes, want %d", round, cap(o.buf), wideBytes)
		}
		h := wire.Headers{Opcode: wire.RCWriteOnly, DestQP: d.qps[1].qpn}
		h.Put(o.packet(d.qps[0].route, h.Len(), h.Len()+smallItemBytes))
		if o.reserve(4096, false); cap(o.buf) != wideBytes {
			t.Errorf("round %d: not empty, and %d bytes of room, want %d", round, cap(o.buf), wideBytes)
		}
		if d.dev.deliverWhole(o) {
			t.Errorf("round %d: an inbox got the memory of a wide outbox", round)
		}
		o.flush()
		if o.reserve(4096, false); cap(o.buf) != outboxBytes {
			t.Errorf("round %d: room for %d bytes, want %d", round, cap(o.buf), outboxBytes)
		}
	}
	o.reserve(4096, true)
	if n := testing.AllocsPerRun(10, func() {
		o.reserve(4096, false)
		o.reserve(4096, true)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

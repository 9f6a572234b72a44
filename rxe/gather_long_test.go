package rxe

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

const (
	longHalf = 1 << 20 // of a pair's memory: sources, and then destinations
	longSize = 64 << 10
)

// longPair is a pair of one device that gathers long messages ahead.
type longPair struct {
	*pairEnd
	seen *callCounter
	mr   *MR
	next uint64 // where the next message's payload is
	wrs  []SendWR
}

func newLongPair(t *testing.T) *longPair {
	t.Helper()
	d := newLocalPair(t, 1, 2*longHalf, 4096, func(c *Config) { c.CostlyMemory = true })
	p := &longPair{pairEnd: d, seen: &callCounter{Memory: d.mem, hole: 1}}
	var err error
	p.mr, err = d.pd.RegMR(p.seen, 0, 2*longHalf, 0, AccessLocalWrite|AccessRemoteWrite)
	must.OK(t, err)
	for i := range longHalf {
		d.mem.b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}

// write adds a WRITE whose payload is in so many pieces.
func (p *longPair) write(flags SendFlags, pieces ...uint32) {
	wr := SendWR{ID: uint64(len(p.wrs)), Op: WRWrite, Flags: flags | SendSignaled, RKey: p.mr.RKey(), RemoteAddr: longHalf + p.next}
	for _, n := range pieces {
		wr.SGL = append(wr.SGL, SGE{Addr: p.next, Length: n, LKey: p.mr.LKey()})
		p.next += uint64(n)
	}
	p.wrs = append(p.wrs, wr)
}

// post sends the messages, and compares their completions and how many pieces each ReadV had.
func (p *longPair) post(t *testing.T, calls []int) {
	t.Helper()
	if n, err := p.qps[0].PostSend(p.wrs); err != nil || n != len(p.wrs) {
		t.Fatalf("PostSend: %d, %v", n, err)
	}
	for i, wc := range p.take(t, len(p.wrs)) {
		if wc.ID != uint64(i) || wc.Status != WCSuccess {
			t.Errorf("completion %d: %+v", i, wc)
		}
	}
	if !slices.Equal(p.seen.calls, calls) {
		t.Errorf("ReadV was called with %v pieces, want %v", p.seen.calls, calls)
	}
	if !bytes.Equal(p.mem.b[longHalf:longHalf+p.next], p.mem.b[:p.next]) {
		t.Error("the data differs")
	}
	must.OK(t, p.mr.Dereg()) // nothing keeps it in use
}

// TestGatherLong: payloads of long messages that follow each other are read with one call, as many
// as a requester sends before it yields.
func TestGatherLong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		add   func(p *longPair)
		calls []int
	}{
		{"more than a turn", func(p *longPair) {
			for range 6 {
				p.write(0, longSize)
			}
		}, []int{4, 2}},
		{"alone", func(p *longPair) { p.write(0, longSize) }, []int{1}},
		{"odd lengths and pieces", func(p *longPair) {
			p.write(0, 50_001)
			p.write(0, 20_003, 30_000)
			p.write(0, 16_385)
		}, []int{4}},
		{"a short one between", func(p *longPair) {
			p.write(0, longSize)
			p.write(0, longSize)
			p.write(0, 8)
			p.write(0, longSize)
			p.write(0, longSize)
		}, []int{2, 1, 2}},
		{"too long for one super-packet", func(p *longPair) {
			p.write(0, longSize+1)
			p.write(0, longSize)
		}, []int{1, 1, 1}},
		{"after a fence", func(p *longPair) {
			p.write(0, longSize)
			p.write(0, longSize)
			p.write(SendFence, longSize)
			p.write(0, longSize)
		}, []int{2, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newLongPair(t)
			tt.add(p)
			p.post(t, tt.calls)
		})
	}
}

// TestGatherLongWindow: a message that does not fit the window whole is not gathered ahead.
func TestGatherLongWindow(t *testing.T) {
	for _, tt := range []struct {
		window int32
		calls  []int
	}{{24, []int{1, 1, 1}}, {32, []int{2}}} {
		p := newLongPair(t)
		p.qps[0].send.window = tt.window
		p.write(0, longSize)
		p.write(0, longSize)
		p.post(t, tt.calls)
	}
}

// TestGatherLongFails: a message whose payload cannot be read fails in its turn. Those before it
// are sent, and nothing keeps the region in use.
func TestGatherLongFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(mem *callCounter, wr *SendWR)
	}{
		{"key", func(_ *callCounter, wr *SendWR) { wr.SGL[0].LKey++ }},
		{"second key", func(_ *callCounter, wr *SendWR) { wr.SGL[1].LKey++ }},
		{"memory", func(mem *callCounter, wr *SendWR) { mem.hole = wr.SGL[1].Addr }},
	} {
		for bad := range 4 {
			t.Run(fmt.Sprintf("%s of message %d", tt.name, bad), func(t *testing.T) {
				p := newLongPair(t)
				for range 4 {
					p.write(0, 30_000, 30_000)
				}
				tt.spoil(p.seen, &p.wrs[bad])
				if n, err := p.qps[0].PostSend(p.wrs); err != nil || n != len(p.wrs) {
					t.Fatalf("PostSend: %d, %v", n, err)
				}
				wantFailed(t, p.cq, len(p.wrs), bad)
				arrived := 60_000 * bad
				if !bytes.Equal(p.mem.b[longHalf:longHalf+arrived], p.mem.b[:arrived]) {
					t.Error("the data differs")
				}
				if rest := p.mem.b[longHalf+arrived:]; !bytes.Equal(rest, make([]byte, len(rest))) {
					t.Error("a message arrived that was not sent")
				}
				must.OK(t, p.mr.Dereg())
			})
		}
	}
}

// wantFailed takes the completions of n work requests. The one at bad has a local protection error,
// and those behind it are flushed.
func wantFailed(t *testing.T, cq *CQ, n, bad int) {
	t.Helper()
	wantFailedWith(t, cq, n, bad, WCLocProtErr)
}

// wantFailedWith is wantFailed with another status of the one at bad.
func wantFailedWith(t *testing.T, cq *CQ, n, bad int, status WCStatus) {
	t.Helper()
	wcs := make([]WC, n+1)
	if got, err := cq.Poll(wcs); err != nil || got != n {
		t.Fatalf("%d completions, want %d: %v", got, n, err)
	}
	for i, wc := range wcs[:n] {
		want := WCSuccess
		switch {
		case i == bad:
			want = status
		case i > bad:
			want = WCFlushErr
		}
		if wc.ID != uint64(i) || wc.Status != want {
			t.Errorf("completion %d: %+v, want %v", i, wc, want)
		}
	}
}

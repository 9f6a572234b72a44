package verbsapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// peers are the ways in which two queue pairs can be apart.
var peers = []struct {
	name string
	open func(t testing.TB) (a, b *Context)
}{
	{"two devices", func(t testing.TB) (a, b *Context) {
		return openTest(t, Config{}), openTest(t, Config{})
	}},
	{"one device", func(t testing.TB) (a, b *Context) {
		c := openTest(t, Config{})
		return c, c
	}},
	{"two contexts of one device", func(t testing.TB) (a, b *Context) {
		addr := testAddr()
		return openTest(t, Config{Address: addr}), openTest(t, Config{Address: addr})
	}},
}

// forPeers runs a test over each kind of distance.
func forPeers(t *testing.T, cfg endConfig, f func(t *testing.T, ctx context.Context, a, b *end)) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			x, y := p.open(t)
			a, b := pair(t, x, y, cfg, ConnectAttr{})
			f(t, testContext(t), a, b)
		})
	}
}

func TestSendRecv(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		fill(a.buf[:5000], 1)
		b.recv(7, 100, 6000)
		a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 2000), a.mr.SGE(2000, 3000)}})
		a.expect(ctx, 1, WCSuccess)
		wc := b.expect(ctx, 7, WCSuccess)
		if wc.Opcode != WCRecv || wc.ByteLen != 5000 || wc.QPN != b.qp.Num() {
			t.Errorf("completion %+v", wc)
		}
		if !bytes.Equal(a.buf[:5000], b.buf[100:5100]) {
			t.Error("the data differ")
		}
	})
}

func TestSendImmInline(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		b.recv(7, 0, 100)
		a.post(SendWR{ID: 1, Op: WRSendImm, Imm: 0xdeadbeef, Flags: SendInline | SendSolicited, Inline: []byte("inline")})
		a.expect(ctx, 1, WCSuccess)
		wc := b.expect(ctx, 7, WCSuccess)
		if wc.Flags&WCWithImm == 0 || wc.Imm != 0xdeadbeef || string(b.buf[:6]) != "inline" {
			t.Errorf("completion %+v, data %q", wc, b.buf[:6])
		}
	})
}

func TestWriteRead(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		fill(a.buf[:20000], 2)
		a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 20000)}, RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey()})
		a.expect(ctx, 1, WCSuccess)
		a.post(SendWR{ID: 2, Op: WRRead, SGL: []SGE{a.mr.SGE(30000, 20000)}, RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey()})
		if wc := a.expect(ctx, 2, WCSuccess); wc.Opcode != WCRead || wc.ByteLen != 20000 {
			t.Errorf("completion %+v", wc)
		}
		if !bytes.Equal(a.buf[:20000], a.buf[30000:50000]) {
			t.Error("what was read back differs")
		}
		b.recv(9, 0, 0)
		a.post(SendWR{ID: 3, Op: WRWriteImm, Imm: 5, SGL: []SGE{a.mr.SGE(0, 9)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.expect(ctx, 3, WCSuccess)
		if wc := b.expect(ctx, 9, WCSuccess); wc.Opcode != WCRecvImm || wc.Imm != 5 || wc.ByteLen != 9 {
			t.Errorf("completion %+v", wc)
		}
		// Nothing at all is a message too.
		a.post(SendWR{ID: 4, Op: WRWrite}, SendWR{ID: 5, Op: WRRead})
		a.expect(ctx, 4, WCSuccess)
		a.expect(ctx, 5, WCSuccess)
	})
}

func TestAtomics(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		word := func(e *end, off int) uint64 { return binary.NativeEndian.Uint64(e.buf[off:]) }
		binary.NativeEndian.PutUint64(b.buf[8:], 40)
		at := SendWR{SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()}

		wr := at
		wr.ID, wr.Op, wr.CompareAdd = 1, WRFetchAdd, 2
		a.post(wr)
		if a.expect(ctx, 1, WCSuccess); word(a, 0) != 40 {
			t.Errorf("fetch-and-add found %d", word(a, 0))
		}
		wr.ID, wr.Op, wr.CompareAdd, wr.Swap = 2, WRCompareSwap, 42, 99
		a.post(wr)
		if a.expect(ctx, 2, WCSuccess); word(a, 0) != 42 {
			t.Errorf("compare-and-swap found %d", word(a, 0))
		}
		wr.ID, wr.Swap = 3, 1 // does not compare
		a.post(wr)
		if a.expect(ctx, 3, WCSuccess); word(a, 0) != 99 {
			t.Errorf("the second compare-and-swap found %d", word(a, 0))
		}
		if word(b, 8) != 99 {
			t.Errorf("memory holds %d", word(b, 8))
		}
		a.post(SendWR{ID: 4, Op: WRAtomicWrite, AtomicWrite: 1 << 60, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()})
		if a.expect(ctx, 4, WCSuccess); word(b, 8) != 1<<60 {
			t.Errorf("after ATOMIC WRITE memory holds %#x", word(b, 8))
		}
		a.post(SendWR{ID: 5, Op: WRFlush, FlushType: 1, FlushLength: 64, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		if wc := a.expect(ctx, 5, WCSuccess); wc.Opcode != WCFlush {
			t.Errorf("completion %+v", wc)
		}
	})
}

func TestIPv6(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	a := openTest(t, Config{Address: netip.MustParseAddr("::1")})
	x, y := pair(t, a, a, endConfig{}, ConnectAttr{})
	ctx := testContext(t)
	y.recv(1, 0, 10)
	x.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{x.mr.SGE(0, 10)}})
	x.expect(ctx, 2, WCSuccess)
	y.expect(ctx, 1, WCSuccess)
}

func TestUC(t *testing.T) {
	forPeers(t, endConfig{typ: QPUC}, func(t *testing.T, ctx context.Context, a, b *end) {
		fill(a.buf[:9000], 3)
		b.recv(7, 0, 9000)
		b.recv(8, 0, 0)
		a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 9000)}},
			SendWR{ID: 2, Op: WRWriteImm, SGL: []SGE{a.mr.SGE(0, 9000)}, RemoteAddr: b.mr.Addr() + 10000, RKey: b.mr.RKey()})
		a.expect(ctx, 1, WCSuccess)
		a.expect(ctx, 2, WCSuccess)
		b.expect(ctx, 7, WCSuccess)
		b.expect(ctx, 8, WCSuccess)
		if !bytes.Equal(a.buf[:9000], b.buf[:9000]) || !bytes.Equal(a.buf[:9000], b.buf[10000:19000]) {
			t.Error("the data differ")
		}
	})
}

func TestMemoryWindows(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		const rights = AccessRemoteWrite | AccessRemoteRead
		part := MWBind{MR: b.mr, Addr: b.mr.Addr() + 64, Length: 64, Access: rights}
		write := func(key RKey, id uint64, want WCStatus) {
			t.Helper()
			a.post(SendWR{ID: id, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: part.Addr, RKey: key})
			a.expect(ctx, id, want)
		}

		one := must(b.pd.AllocMW(MWType1))(t)
		bind := part
		bind.MW = one
		if err := b.qp.BindMW(1, SendSignaled, bind); err != nil {
			t.Fatal(err)
		}
		if wc := b.expect(ctx, 1, WCSuccess); wc.Opcode != WCBindMW {
			t.Errorf("completion %+v", wc)
		}
		write(one.RKey(), 2, WCSuccess)
		if err := b.mr.Dereg(); !errors.Is(err, ErrBusy) {
			t.Errorf("Dereg of a region with a window: %v", err)
		}
		if err := one.Dealloc(); err != nil {
			t.Error(err)
		}

		two := must(b.pd.AllocMW(MWType2))(t)
		bind.MW, bind.RKey = two, IncRKey(two.RKey())
		b.post(SendWR{ID: 3, Op: WRBindMW, Bind: &bind})
		b.expect(ctx, 3, WCSuccess)
		if two.RKey() != bind.RKey {
			t.Errorf("rkey %#x, bound with %#x", two.RKey(), bind.RKey)
		}
		write(bind.RKey, 4, WCSuccess)
		b.post(SendWR{ID: 5, Op: WRLocalInv, InvRKey: bind.RKey})
		b.expect(ctx, 5, WCSuccess)

		bind.RKey = IncRKey(bind.RKey)
		b.post(SendWR{ID: 6, Op: WRBindMW, Bind: &bind})
		b.expect(ctx, 6, WCSuccess)
		b.recv(7, 0, 0)
		a.post(SendWR{ID: 8, Op: WRSendInv, InvRKey: bind.RKey})
		a.expect(ctx, 8, WCSuccess)
		if wc := b.expect(ctx, 7, WCSuccess); wc.Flags&WCWithInv == 0 || wc.InvRKey != bind.RKey {
			t.Errorf("completion %+v", wc)
		}
		write(bind.RKey, 9, WCRemAccessErr)
	})
}

// TestType2AWindows: on a device that has these, a queue pair on which one is bound stays.
func TestType2AWindows(t *testing.T) {
	limits := DefaultLimits()
	limits.Cap = limits.Cap&^CapMemWindowType2B | CapMemWindowType2A
	cfg := Config{Address: testAddr(), Limits: &limits}
	ctx, c, other := testContext(t), openTest(t, cfg), openTest(t, cfg) // of one device
	a, b := pair(t, c, c, endConfig{}, ConnectAttr{})
	mw := must(b.pd.AllocMW(MWType2))(t)
	bind := MWBind{MW: mw, RKey: IncRKey(mw.RKey()), MR: b.mr, Addr: b.mr.Addr(), Length: 8, Access: AccessRemoteWrite}
	b.post(SendWR{ID: 1, Op: WRBindMW, Bind: &bind})
	b.expect(ctx, 1, WCSuccess)
	if err := b.qp.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("Destroy with a window bound: %v", err)
	}
	a.post(SendWR{ID: 2, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: bind.Addr, RKey: bind.RKey})
	a.expect(ctx, 2, WCSuccess)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := other.eng.dev.Objects(); left.MW+left.QP+left.MR+left.PD > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestErrors: what each mistake completes with, at both ends.
func TestErrors(t *testing.T) {
	const flushedID = 99
	for _, c := range []struct {
		name           string
		wr             func(a, b *end) SendWR
		recv           int // bytes posted at b
		sender         WCStatus
		receiver       WCStatus // of the receive; WCFlushErr: it was not used
		receiverStands bool     // b's queue pair is not in error
	}{
		{name: "bad rkey", recv: 10, sender: WCRemAccessErr, receiver: WCFlushErr, wr: func(a, b *end) SendWR {
			return SendWR{Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 0x5a00}
		}},
		{name: "stale key variant", recv: 10, sender: WCRemAccessErr, receiver: WCFlushErr, wr: func(a, b *end) SendWR {
			return SendWR{Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: IncRKey(b.mr.RKey())}
		}},
		{name: "beyond the region", recv: 10, sender: WCRemAccessErr, receiver: WCFlushErr, wr: func(a, b *end) SendWR {
			return SendWR{Op: WRRead, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + uint64(b.mr.Len()) - 7, RKey: b.mr.RKey()}
		}},
		{name: "bad lkey", recv: 10, sender: WCLocProtErr, receiverStands: true, wr: func(a, b *end) SendWR {
			sge := a.mr.SGE(0, 8)
			sge.LKey ^= 0x5a00
			return SendWR{Op: WRSend, SGL: []SGE{sge}}
		}},
		{name: "longer than the receive", recv: 10, sender: WCRemInvReqErr, receiver: WCLocLenErr, wr: func(a, b *end) SendWR {
			return SendWR{Op: WRSend, SGL: []SGE{a.mr.SGE(0, 11)}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := newPair(t, endConfig{}, ConnectAttr{})
			b.recv(1, 0, c.recv)
			wr := c.wr(a, b)
			wr.ID = 2
			a.post(wr, SendWR{ID: flushedID, Op: WRWrite})
			a.expect(ctx, 2, c.sender)
			a.expect(ctx, flushedID, WCFlushErr)
			if s := a.qp.State(); s != QPErr {
				t.Errorf("the sender is in %v", s)
			}
			if !c.receiverStands {
				b.expect(ctx, 1, c.receiver)
				if s := b.qp.State(); s != QPErr {
					t.Errorf("the receiver is in %v", s)
				}
			}
		})
	}
}

func TestRetryExceeded(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{Timeout: 1})
	if err := b.qp.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	a.post(SendWR{ID: 1, Op: WRSend})
	a.expect(ctx, 1, WCRetryExcErr)
}

func TestRNRThenReceive(t *testing.T) {
	forPeers(t, endConfig{}, func(t *testing.T, ctx context.Context, a, b *end) {
		a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 10)}})
		b.recv(2, 0, 10)
		a.expect(ctx, 1, WCSuccess)
		b.expect(ctx, 2, WCSuccess)
	})
}

func TestPostErrors(t *testing.T) {
	a, _ := newPair(t, endConfig{depth: 2}, ConnectAttr{})
	ok := SendWR{Op: WRWrite}
	n, err := a.qp.PostSend([]SendWR{ok, {Op: 200}, ok})
	if n != 1 || !errors.Is(err, ErrInvalid) {
		t.Errorf("an unknown opcode at 1: %d, %v", n, err)
	}
	var opErr *OpError
	if !errors.As(err, &opErr) || opErr.Op == "" {
		t.Errorf("%v is no OpError", err)
	}
	recv := make([]RecvWR, 100)
	if n, err := a.qp.PostRecv(recv); n != 2 || !errors.Is(err, ErrFull) {
		t.Errorf("100 receives into a queue for 2: %d, %v", n, err)
	}
}

// TestConcurrent: many goroutines share one queue pair and its queue; everything
// that was posted completes once.
func TestConcurrent(t *testing.T) {
	const (
		posters = 4
		each    = 50
	)
	forPeers(t, endConfig{depth: posters * each}, func(t *testing.T, ctx context.Context, a, b *end) {
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				for i := range each {
					n, err := a.qp.PostSend([]SendWR{{ID: uint64(p*each + i), Op: WRWrite, Flags: SendSignaled,
						SGL: []SGE{a.mr.SGE(0, 700)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
					if n != 1 || err != nil {
						t.Errorf("PostSend: %d, %v", n, err)
					}
				}
			})
		}
		var mu sync.Mutex
		seen := make(map[uint64]int)
		left := posters * each
		waitCtx, stop := context.WithCancel(ctx)
		for range 3 {
			wg.Go(func() {
				wcs := make([]WC, 5)
				for {
					n, err := a.cq.Wait(waitCtx, wcs)
					if err != nil {
						return
					}
					mu.Lock()
					for _, wc := range wcs[:n] {
						seen[wc.ID]++
						if left--; left == 0 {
							stop()
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		stop()
		if len(seen) != posters*each {
			t.Errorf("%d of %d completed", len(seen), posters*each)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%d completed %d times", id, n)
			}
		}
	})
}

package verbsapi

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/leak"
)

// TestMain fails the run if a test leaves a goroutine or a descriptor behind.
func TestMain(m *testing.M) {
	leak.Main(m, openDevices, leak.Files(), leak.Goroutines("gorxe/gorxe/rocev2", "engine.(*clock)"))
}

func openDevices() error {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	if n := len(engines.open); n > 0 {
		return fmt.Errorf("%d devices are still open", n)
	}
	return nil
}

// lastAddr gives every test addresses of its own, in 127.77.0.0/16.
var lastAddr atomic.Uint32

func testAddr() netip.Addr {
	n := lastAddr.Add(1)
	return netip.AddrFrom4([4]byte{127, 77, byte(n >> 8), byte(n)})
}

// testTimeout only ends a test that would otherwise hang.
const testTimeout = time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func openTest(t testing.TB, cfg Config) *Context {
	t.Helper()
	if !cfg.Address.IsValid() {
		cfg.Address = testAddr()
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !c.isClosed() {
			c.Close()
		}
	})
	return c
}

// end is one side of a pair of connected queue pairs, with a buffer.
type end struct {
	t   testing.TB
	ctx *Context
	pd  *PD
	cq  *CQ
	qp  *QP
	mr  *MR
	buf []byte
}

const testAccess = defaultConnAccess | AccessMWBind

type endConfig struct {
	typ     QPType
	bufSize int
	depth   uint32 // of the queues
	srq     *SRQ   // of the second end
	cq      *CQ    // of the first end; nil: one of its own
}

func newEnd(t testing.TB, c *Context, cfg endConfig) *end {
	t.Helper()
	e := &end{t: t, ctx: c, buf: make([]byte, cfg.bufSize)}
	e.pd = must(c.AllocPD())(t)
	e.mr = must(e.pd.RegMR(e.buf, testAccess))(t)
	if e.cq = cfg.cq; e.cq == nil {
		e.cq = must(c.CreateCQ(int(4*cfg.depth), nil))(t)
	}
	e.qp = must(e.pd.CreateQP(QPInitAttr{
		Type: cfg.typ, SendCQ: e.cq, RecvCQ: e.cq, SRQ: cfg.srq,
		Cap: QPCap{MaxSendWR: cfg.depth, MaxRecvWR: cfg.depth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64},
	}))(t)
	return e
}

// must turns (v, err) into v or a failed test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (e *end) info(psn PSN) Info { return must(e.qp.Info(psn, 0))(e.t) }

func (e *end) post(wrs ...SendWR) {
	e.t.Helper()
	for i := range wrs {
		wrs[i].Flags |= SendSignaled
	}
	if n, err := e.qp.PostSend(wrs); err != nil || n != len(wrs) {
		e.t.Fatalf("PostSend took %d of %d: %v", n, len(wrs), err)
	}
}

func (e *end) recv(id uint64, off, n int) {
	e.t.Helper()
	if _, err := e.qp.PostRecv([]RecvWR{{ID: id, SGL: []SGE{e.mr.SGE(off, n)}}}); err != nil {
		e.t.Fatal(err)
	}
}

// wait returns the next completion.
func (e *end) wait(ctx context.Context) WC {
	e.t.Helper()
	var wcs [1]WC
	if _, err := e.cq.Wait(ctx, wcs[:]); err != nil {
		e.t.Fatalf("waiting for a completion: %v", err)
	}
	return wcs[0]
}

// expect waits for a completion with this ID and status.
func (e *end) expect(ctx context.Context, id uint64, status WCStatus) WC {
	e.t.Helper()
	wc := e.wait(ctx)
	if wc.ID != id || wc.Status != status {
		e.t.Fatalf("completion %d: %v; want %d: %v", wc.ID, wc.Status, id, status)
	}
	return wc
}

// pair makes two connected ends on two contexts, which may be the same.
func pair(t testing.TB, a, b *Context, cfg endConfig, conn ConnectAttr) (*end, *end) {
	t.Helper()
	if cfg.bufSize == 0 {
		cfg.bufSize = 1 << 16
	}
	if cfg.depth == 0 {
		cfg.depth = 64
	}
	if cfg.typ == 0 {
		cfg.typ = QPRC
	}
	second, first := cfg, cfg
	second.cq, first.srq = nil, nil
	y, x := newEnd(t, b, second), newEnd(t, a, first)
	ix, iy := x.info(0xfffffe), y.info(77) // the PSNs of one end wrap soon
	if err := x.qp.Connect(ix, iy, conn); err != nil {
		t.Fatal(err)
	}
	if err := y.qp.Connect(iy, ix, conn); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// newPair is pair on two devices of their own.
func newPair(t testing.TB, cfg endConfig, conn ConnectAttr) (*end, *end) {
	t.Helper()
	return pair(t, openTest(t, Config{}), openTest(t, Config{}), cfg, conn)
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
}

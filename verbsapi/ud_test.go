package verbsapi

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// qkey of the UD tests.
const testQKey = 0x11111111

func newUD(t *testing.T, c *Context) *end {
	t.Helper()
	e := newEnd(t, c, endConfig{typ: QPUD, bufSize: 8192, depth: 16})
	if err := e.qp.InitUD(testQKey, 5); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestUD(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			ctx := testContext(t)
			x, y := p.open(t)
			a, b := newUD(t, x), newUD(t, y)
			ah := must(a.pd.CreateAH(AHAttr{DGID: wire.GIDFromAddr(y.Addr()), PortNum: 1, TrafficClass: 0x20}))(t)
			fill(a.buf[:1000], 4)
			b.recv(1, 0, 1000+GRHLen)
			a.post(SendWR{ID: 2, Op: WRSendImm, Imm: 3, SGL: []SGE{a.mr.SGE(0, 1000)}, AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: testQKey})
			a.expect(ctx, 2, WCSuccess)
			wc := b.expect(ctx, 1, WCSuccess)
			if wc.Flags&WCGRH == 0 || wc.SrcQP != a.qp.Num() || wc.ByteLen != 1000+GRHLen || wc.Imm != 3 || wc.SL != SLRoCEv2IPv4 {
				t.Errorf("completion %+v", wc)
			}
			if !bytes.Equal(b.buf[GRHLen:][:1000], a.buf[:1000]) {
				t.Error("the data differ")
			}
			grh := must(ParseGRH(b.buf))(t)
			if grh.SGID.Addr() != x.Addr() || grh.DGID.Addr() != y.Addr() || grh.TrafficClass != 0x20 {
				t.Errorf("GRH %+v", grh)
			}
			back := must(b.pd.CreateAHFromWC(&wc, b.buf, 1))(t)
			if attr := back.Query(); attr.DGID.Addr() != x.Addr() {
				t.Errorf("handle back %+v", attr)
			}
			a.recv(4, 2000, 100)
			b.post(SendWR{ID: 5, Op: WRSend, SGL: []SGE{b.mr.SGE(0, 10)}, AH: back, RemoteQPN: wc.SrcQP, RemoteQKey: testQKey})
			b.expect(ctx, 5, WCSuccess)
			a.expect(ctx, 4, WCSuccess)

			if _, err := y.InitAHFromWC(2, &wc, b.buf); !errors.Is(err, ErrInvalid) {
				t.Errorf("port 2: %v", err)
			}
			if _, err := y.InitAHFromWC(1, &wc, b.buf[:20]); !errors.Is(err, ErrInvalid) {
				t.Errorf("half a GRH: %v", err)
			}
			if err := errors.Join(ah.Destroy(), back.Destroy()); err != nil {
				t.Error(err)
			}
			if err := ah.Destroy(); !errors.Is(err, ErrClosed) {
				t.Errorf("destroyed twice: %v", err)
			}
		})
	}
}

// TestBlockSelfMulticast: a queue pair receives its own datagram to a group, unless it wants none.
func TestBlockSelfMulticast(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	group := wire.GIDFromAddr(netip.MustParseAddr("239.77.1.2"))
	for _, block := range []bool{false, true} {
		a := newUD(t, c)
		init := a.qp.init
		init.BlockSelfMulticast = block
		a.qp = must(a.pd.CreateQP(init))(t)
		b := newUD(t, c)
		for _, e := range []*end{a, b} {
			if e == a {
				if err := a.qp.InitUD(testQKey, 5); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.qp.AttachMcast(group, 0); err != nil {
				t.Fatal(err)
			}
			e.recv(1, 0, 100+GRHLen)
		}
		ah := must(a.pd.CreateAH(AHAttr{DGID: group, PortNum: 1}))(t)
		a.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}, AH: ah, RemoteQPN: wire.MulticastQPN, RemoteQKey: testQKey})
		b.expect(ctx, 1, WCSuccess)
		ids := map[uint64]bool{}
		for range 2 {
			wcs := make([]WC, 1)
			if n := must(a.cq.Poll(wcs))(t); n == 1 {
				ids[wcs[0].ID] = true
			}
		}
		if !ids[2] || ids[1] == block {
			t.Errorf("block %v: completions %v", block, ids)
		}
		for _, e := range []*end{a, b} {
			if err := e.qp.DetachMcast(group, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMulticast(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	a, b, d := newUD(t, c), newUD(t, c), newUD(t, c)
	group := wire.GIDFromAddr(netip.MustParseAddr("239.77.1.1"))
	for _, e := range []*end{b, d} {
		if err := e.qp.AttachMcast(group, 0); err != nil {
			t.Fatal(err)
		}
		e.recv(1, 0, 100+GRHLen)
	}
	ah := must(a.pd.CreateAH(AHAttr{DGID: group, PortNum: 1}))(t)
	a.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}, AH: ah, RemoteQPN: wire.MulticastQPN, RemoteQKey: testQKey})
	a.expect(ctx, 2, WCSuccess)
	for _, e := range []*end{b, d} {
		if wc := e.expect(ctx, 1, WCSuccess); wc.ByteLen != 100+GRHLen {
			t.Errorf("completion %+v", wc)
		}
	}
	if err := b.qp.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("attached: %v", err)
	}
	if err := b.qp.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
	if err := b.qp.DetachMcast(group, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("detached twice: %v", err)
	}
	if err := b.qp.AttachMcast(wire.GIDFromAddr(c.Addr()), 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("a group that is none: %v", err)
	}
	// d stays attached: Close must handle that.
}

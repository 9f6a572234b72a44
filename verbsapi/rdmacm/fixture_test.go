package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/verbsapi"
)

// testTimeout only ends a test that would otherwise hang.
const testTimeout = time.Minute

// TestMain fails if a goroutine of the connection manager or of a device is left.
func TestMain(m *testing.M) {
	leak.Main(m, leak.Goroutines("gorxe/rocev2", "internal/cm/rdmacm", "internal/cm/route", "internal/mgmt/gsi", "engine.(*clock)"))
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// host is an open device, with what queue pairs need.
type host struct {
	t    testing.TB
	addr netip.Addr
	pd   *verbsapi.PD
	cq   *verbsapi.CQ
	mr   *verbsapi.MR
}

// lastAddr gives every device an address of its own, in 127.78.0.0/16.
var lastAddr atomic.Uint32

func newHost(t testing.TB) *host {
	t.Helper()
	n := lastAddr.Add(1)
	h := &host{t: t, addr: netip.AddrFrom4([4]byte{127, 78, byte(n >> 8), byte(n)})}
	ctx, err := verbsapi.Open(verbsapi.Config{Address: h.addr})
	must.OK(t, err)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil && !errors.Is(err, verbsapi.ErrClosed) {
			t.Error(err)
		}
	})
	h.pd, err = ctx.AllocPD()
	must.OK(t, err)
	h.cq, err = ctx.CreateCQ(64, nil)
	must.OK(t, err)
	h.mr, err = h.pd.RegMR(make([]byte, 4096), verbsapi.AccessLocalWrite)
	must.OK(t, err)
	return h
}

// at returns the device's address with a port.
func (h *host) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.addr, port) }

func (h *host) init() verbsapi.QPInitAttr {
	return verbsapi.QPInitAttr{SendCQ: h.cq, RecvCQ: h.cq, SignalAll: true,
		Cap: verbsapi.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}
}

// config is for a connection whose peer may send one message.
func (h *host) config(data string) Config {
	return Config{PD: h.pd, QP: h.init(), Setup: h.receive, PrivateData: []byte(data)}
}

// receive posts a receive of 2,000 bytes from the middle of the region on.
func (h *host) receive(qp *verbsapi.QP) error {
	_, err := qp.PostRecv([]verbsapi.RecvWR{{ID: 7, SGL: []verbsapi.SGE{h.mr.SGE(2000, 2000)}}})
	return err
}

func (h *host) send(qp *verbsapi.QP, text string, wr verbsapi.SendWR) {
	h.t.Helper()
	n := copy(h.mr.Bytes(), text)
	wr.ID, wr.Op, wr.SGL = 8, verbsapi.WRSend, []verbsapi.SGE{h.mr.SGE(0, n)}
	_, err := qp.PostSend([]verbsapi.SendWR{wr})
	must.OK(h.t, err)
}

// expect waits for the completion with an ID, and wants it to be a success.
func (h *host) expect(id uint64) verbsapi.WC {
	h.t.Helper()
	var wcs [1]verbsapi.WC
	if _, err := h.cq.Wait(testContext(h.t), wcs[:]); err != nil {
		h.t.Fatal(err)
	}
	if wcs[0].ID != id || wcs[0].Status != verbsapi.WCSuccess {
		h.t.Fatalf("completion %+v, want ID %d", wcs[0], id)
	}
	return wcs[0]
}

// next wants an event of one type.
func next(t testing.TB, ch *EventChannel, want EventType) *Event {
	t.Helper()
	ev, err := ch.GetEvent(testContext(t))
	must.OK(t, err)
	if ev.Type != want {
		t.Fatalf("event %v with status %d, want %v", ev.Type, ev.Status, want)
	}
	return ev
}

// text is the private data without the zeros behind it.
func text(data []byte) string { return strings.TrimRight(string(data), "\x00") }

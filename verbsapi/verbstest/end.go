package verbstest

import (
	"testing"

	"github.com/gorxe/gorxe/verbsapi"
)

// Config describes a pair of connected queue pairs. The zero value means the defaults.
type Config struct {
	Type       verbsapi.QPType      // QPRC or QPUC; 0: QPRC
	BufferSize int                  // bytes of the region of each end; 0: 64 KiB
	Depth      uint32               // work requests in each queue; 0: 64
	Attr       verbsapi.ConnectAttr // of both ends
	Like       string               // of both devices that Pair opens, as verbsapi.Config has it
	Sanitize   string               // of verbsapi.Config, for both devices
}

// End is one end of a connection: a device with one queue pair, one completion queue for all
// its completions, and one memory region.
type End struct {
	Context *verbsapi.Context
	PD      *verbsapi.PD
	CQ      *verbsapi.CQ
	QP      *verbsapi.QP
	MR      *verbsapi.MR
	Buffer  []byte // of the region
	t       testing.TB
}

// access is what the peer may do with an end's region.
const access = verbsapi.AccessLocalWrite | verbsapi.AccessRemoteWrite | verbsapi.AccessRemoteRead | verbsapi.AccessRemoteAtomic

// Pair returns two connected ends on two devices of their own.
func Pair(t testing.TB, cfg Config) (*End, *End) {
	t.Helper()
	device := verbsapi.Config{Like: cfg.Like, Sanitize: cfg.Sanitize}
	return Connect(t, Open(t, device), Open(t, device), cfg)
}

// Connect makes two connected ends on two devices, which may be the same.
func Connect(t testing.TB, a, b *verbsapi.Context, cfg Config) (*End, *End) {
	t.Helper()
	if cfg.Type == 0 {
		cfg.Type = verbsapi.QPRC
	}
	if cfg.BufferSize == 0 {
		cfg.BufferSize = 1 << 16
	}
	if cfg.Depth == 0 {
		cfg.Depth = 64
	}
	x, y := newEnd(t, a, cfg), newEnd(t, b, cfg)
	ix, iy := x.info(100), y.info(200)
	check(t, x.QP.Connect(ix, iy, cfg.Attr))
	check(t, y.QP.Connect(iy, ix, cfg.Attr))
	return x, y
}

func newEnd(t testing.TB, ctx *verbsapi.Context, cfg Config) *End {
	t.Helper()
	e := &End{Context: ctx, Buffer: make([]byte, cfg.BufferSize), t: t}
	var err error
	e.PD, err = ctx.AllocPD()
	check(t, err)
	e.MR, err = e.PD.RegMR(e.Buffer, access)
	check(t, err)
	e.CQ, err = ctx.CreateCQ(int(2*cfg.Depth), nil)
	check(t, err)
	e.QP, err = e.PD.CreateQP(verbsapi.QPInitAttr{
		Type: cfg.Type, SendCQ: e.CQ, RecvCQ: e.CQ,
		Cap: verbsapi.QPCap{MaxSendWR: cfg.Depth, MaxRecvWR: cfg.Depth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64},
	})
	check(t, err)
	return e
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (e *End) info(psn verbsapi.PSN) verbsapi.Info {
	e.t.Helper()
	info, err := e.QP.Info(psn, 0)
	check(e.t, err)
	return info
}

// SGE returns the element for n bytes of the end's buffer, from off on.
func (e *End) SGE(off, n int) verbsapi.SGE { return e.MR.SGE(off, n) }

// Post posts signaled work requests to the send queue. The test ends if one is refused.
func (e *End) Post(wrs ...verbsapi.SendWR) {
	e.t.Helper()
	for i := range wrs {
		wrs[i].Flags |= verbsapi.SendSignaled
	}
	if n, err := e.QP.PostSend(wrs); err != nil {
		e.t.Fatalf("post_send took %d of %d work requests: %v", n, len(wrs), err)
	}
}

// PostRecv posts a receive for n bytes of the end's buffer, from off on.
func (e *End) PostRecv(id uint64, off, n int) {
	e.t.Helper()
	if _, err := e.QP.PostRecv([]verbsapi.RecvWR{{ID: id, SGL: []verbsapi.SGE{e.SGE(off, n)}}}); err != nil {
		e.t.Fatalf("post_recv: %v", err)
	}
}

// Next waits for a completion, at most until the test's context ends.
func (e *End) Next() verbsapi.WC {
	e.t.Helper()
	var wcs [1]verbsapi.WC
	if _, err := e.CQ.Wait(e.t.Context(), wcs[:]); err != nil {
		e.t.Fatalf("waiting for a completion: %v", err)
	}
	return wcs[0]
}

// Await waits for the completion of work request id. The test ends if another one comes
// first, or if it is not a success.
func (e *End) Await(id uint64) verbsapi.WC {
	e.t.Helper()
	return e.AwaitStatus(id, verbsapi.WCSuccess)
}

// AwaitStatus is Await for a completion with another status.
func (e *End) AwaitStatus(id uint64, status verbsapi.WCStatus) verbsapi.WC {
	e.t.Helper()
	wc := e.Next()
	if wc.ID != id || wc.Status != status {
		e.t.Fatalf("work request %d completed: %v; want work request %d: %v", wc.ID, wc.Status, id, status)
	}
	return wc
}

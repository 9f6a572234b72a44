package rxe_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// rawPort gives the frames that a queue pair sends to another one.
type rawPort struct {
	to     *rxe.QP
	as     rxe.FrameSend
	frames int
}

func (p *rawPort) SendFrames(_ *rxe.QP, frames []rxe.FrameOut) {
	for _, f := range frames {
		p.as = f.As
		p.frames++
		if p.to != nil {
			p.to.ReceiveFrame(f.Data, rxe.FrameInfo{})
		}
		clear(f.Data) // the caller's buffer: a receiver has a copy
	}
}

// rawEnd is a device's queue pair for raw packets, with memory at 4096.
type rawEnd struct {
	t   *testing.T
	dev *rxe.Device
	pd  *rxe.PD
	cq  *rxe.CQ
	qp  *rxe.QP
	mr  *rxe.MR
	buf []byte
}

const rawBase, rawSize = 4096, 128 << 10

func newRaw(t *testing.T, dev *rxe.Device, f rxe.FrameInit) *rawEnd {
	t.Helper()
	e := &rawEnd{t: t, dev: dev, pd: must.Get[*rxe.PD](t)(dev.Whole().AllocPD())}
	mem := &simnet.Memory{Base: rawBase, Data: make([]byte, rawSize)}
	e.buf = mem.Data
	e.mr = must.Get[*rxe.MR](t)(e.pd.RegMR(mem, rawBase, rawSize, rawBase, rxe.AccessLocalWrite))
	e.cq = must.Get[*rxe.CQ](t)(dev.Whole().CreateCQ(rxe.CQInit{Entries: 64}))
	e.qp = must.Get[*rxe.QP](t)(e.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRaw, SendCQ: e.cq, RecvCQ: e.cq, Frames: &f,
		Cap: rxe.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4}}))
	return e
}

func (e *rawEnd) to(states ...rxe.QPState) {
	e.t.Helper()
	for _, s := range states {
		mask := rxe.QPAttrState
		if s == rxe.QPInit {
			mask |= rxe.QPAttrPort
		}
		must.OK(e.t, e.qp.Modify(&rxe.QPAttr{State: s, PortNum: 1}, mask))
	}
}

func (e *rawEnd) sge(at, n int) rxe.SGE {
	return rxe.SGE{Addr: rawBase + uint64(at), Length: uint32(n), LKey: e.mr.LKey()}
}

func (e *rawEnd) recv(id uint64, at, n int) {
	e.t.Helper()
	_, err := e.qp.PostRecv([]rxe.RecvWR{{ID: id, SGL: []rxe.SGE{e.sge(at, n)}}})
	must.OK(e.t, err)
}

func (e *rawEnd) send(id uint64, sgl ...rxe.SGE) {
	e.t.Helper()
	_, err := e.qp.PostSend([]rxe.SendWR{{ID: id, Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: sgl}})
	must.OK(e.t, err)
}

// wc returns the next completion, which must be there.
func (e *rawEnd) wc(id uint64, want rxe.WCStatus) rxe.WC {
	e.t.Helper()
	var wcs [1]rxe.WC
	if n, err := e.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != id || wcs[0].Status != want {
		e.t.Fatalf("%d completions, %v: %+v; want %d: %v", n, err, wcs[0], id, want)
	}
	return wcs[0]
}

func (e *rawEnd) none() {
	e.t.Helper()
	if n, _ := e.cq.Poll(make([]rxe.WC, 1)); n != 0 {
		e.t.Error("a completion")
	}
}

var ready = []rxe.QPState{rxe.QPInit, rxe.QPRTR, rxe.QPRTS}

// TestRawStates: a queue pair takes frames from RTR on, and sends in RTS only. In ERR both queues
// are flushed. In RESET nothing is left.
func TestRawStates(t *testing.T) {
	port := new(rawPort)
	e := newRaw(t, rxedev.New(t), rxe.FrameInit{Port: port})
	port.to = e.qp
	frame := bytes.Repeat([]byte{7}, 60)
	arrive := func() {
		e.qp.ReceiveFrame(frame, rxe.FrameInfo{})
		e.dev.Deliver()
	}
	arrive() // RESET
	e.to(rxe.QPInit)
	e.recv(1, 0, 100)
	arrive()
	e.none()
	e.to(rxe.QPRTR)
	arrive()
	if wc := e.wc(1, rxe.WCSuccess); wc.ByteLen != 60 || !bytes.Equal(e.buf[:60], frame) {
		t.Errorf("%+v", wc)
	}
	if _, err := e.qp.PostSend([]rxe.SendWR{{Op: rxe.WRSend, SGL: []rxe.SGE{e.sge(0, 60)}}}); !errors.Is(err, rxe.ErrInvalid) {
		t.Errorf("a send in RTR: %v", err)
	}
	e.to(rxe.QPRTS)
	e.recv(2, 200, 100)
	e.send(3, e.sge(0, 14), e.sge(14, 46))
	e.wc(3, rxe.WCSuccess)
	e.wc(2, rxe.WCSuccess)
	if !bytes.Equal(e.buf[200:260], frame) {
		t.Error("another frame arrived")
	}
	e.to(rxe.QPSQD)
	e.send(4, e.sge(0, 60))
	e.none()
	e.recv(5, 300, 100)
	arrive()
	e.wc(5, rxe.WCSuccess)
	e.to(rxe.QPErr)
	e.wc(4, rxe.WCFlushErr)
	e.recv(6, 0, 100)
	e.wc(6, rxe.WCFlushErr)
	arrive()
	e.to(rxe.QPReset)
	arrive()
	e.none()
	if port.frames != 1 {
		t.Errorf("%d frames were sent", port.frames)
	}
	must.OK(t, e.qp.Destroy())
	arrive() // nobody is there
}

// TestRawBounds: a frame of any length that does not fit is dropped and counted, and the receive
// stays for the next one.
func TestRawBounds(t *testing.T) {
	e := newRaw(t, rxedev.New(t), rxe.FrameInit{Port: new(rawPort)})
	e.to(ready...)
	e.recv(1, 0, 100<<10)
	e.recv(2, 0, 20)
	counter := func(name string) uint64 {
		for _, c := range e.dev.Counters() {
			if c.Name == name {
				return c.Value
			}
		}
		return 0
	}
	for i, n := range []int{0, rxe.MinFrame - 1, rxe.MaxFrame + 1} {
		e.qp.ReceiveFrame(make([]byte, n), rxe.FrameInfo{})
		e.dev.Deliver()
		if got := counter("drop_bad_length"); got != uint64(i+1) {
			t.Errorf("%d bytes: counted %d", n, got)
		}
	}
	e.qp.ReceiveFrame(make([]byte, rxe.MaxFrame), rxe.FrameInfo{})
	e.dev.Deliver()
	if wc := e.wc(1, rxe.WCSuccess); wc.ByteLen != rxe.MaxFrame {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	e.qp.ReceiveFrame(make([]byte, 21), rxe.FrameInfo{})
	e.dev.Deliver()
	e.none()
	e.qp.ReceiveFrame(make([]byte, 20), rxe.FrameInfo{})
	e.dev.Deliver()
	e.wc(2, rxe.WCSuccess)
	e.qp.ReceiveFrame(make([]byte, 20), rxe.FrameInfo{})
	e.dev.Deliver()
	if counter("drop_no_recv_wqe") != 1 {
		t.Error("a frame without a receive was not counted")
	}
}

// TestRawInboxBounded: frames for a queue pair whose thread does not come back are dropped at last.
func TestRawInboxBounded(t *testing.T) {
	e := newRaw(t, rxedev.New(t), rxe.FrameInit{Port: new(rawPort)})
	e.to(ready...)
	frame := make([]byte, 60000)
	for range 2000 { // 120 MB
		e.qp.ReceiveFrame(frame, rxe.FrameInfo{})
	}
	dropped := uint64(0)
	for _, c := range e.dev.Counters() {
		if c.Name == "drop_inbox_full" {
			dropped = c.Value
		}
	}
	if dropped < 1000 {
		t.Errorf("%d frames of 2000 were dropped", dropped)
	}
	e.dev.Deliver()
}

// costly returns a device whose memory is that of programs: several frames share a call.
func costly(t *testing.T) *rxe.Device {
	t.Helper()
	dev := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Link: rxedev.Nowhere{}, Clock: rxedev.Nowhere{}, CostlyMemory: true}))
	t.Cleanup(func() { dev.Close() }) //nolint:errcheck // nothing is left
	must.OK(t, dev.SetPort(rxe.PortActive, 4096))
	return dev
}

// TestRawBatch: frames that are posted together arrive in order, each in its receive. If one cannot
// be read, those before it are sent, and those behind it flushed. If one cannot be written, the
// queue pair ends with it.
func TestRawBatch(t *testing.T) {
	port := new(rawPort)
	e := newRaw(t, costly(t), rxe.FrameInit{Port: port})
	to := newRaw(t, e.dev, rxe.FrameInit{Port: port})
	port.to = to.qp
	e.to(ready...)
	to.to(ready...)
	post := func(bad int) {
		t.Helper()
		wrs := make([]rxe.SendWR, 8)
		for i := range wrs {
			e.buf[i*100] = byte(i)
			wrs[i] = rxe.SendWR{ID: uint64(i), Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: []rxe.SGE{e.sge(i*100, 50+i)}}
			if i == bad {
				wrs[i].SGL[0].LKey++
			}
		}
		_, err := e.qp.PostSend(wrs)
		must.OK(t, err)
	}
	for i := range 8 {
		to.recv(uint64(i), i*100, 100)
	}
	post(-1)
	for i := range 8 {
		e.wc(uint64(i), rxe.WCSuccess)
		if wc := to.wc(uint64(i), rxe.WCSuccess); int(wc.ByteLen) != 50+i || to.buf[i*100] != byte(i) {
			t.Errorf("frame %d: %d bytes, %d", i, wc.ByteLen, to.buf[i*100])
		}
	}
	for i := range 8 {
		to.recv(uint64(i), i*100, 100)
	}
	post(5)
	for i := range 8 {
		want := rxe.WCSuccess
		switch {
		case i == 5:
			want = rxe.WCLocProtErr
		case i > 5:
			want = rxe.WCFlushErr
		}
		e.wc(uint64(i), want)
		if i < 5 {
			to.wc(uint64(i), rxe.WCSuccess)
		}
	}
	to.none()
	e.to(rxe.QPReset, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
	to.to(rxe.QPReset, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
	for i := range 3 {
		to.recv(uint64(i), i*100, 100)
	}
	_, err := to.qp.PostRecv([]rxe.RecvWR{{ID: 3, SGL: []rxe.SGE{{Addr: 5, Length: 100, LKey: 5}}}, {ID: 4, SGL: []rxe.SGE{to.sge(0, 100)}}})
	must.OK(t, err)
	post(-1)
	for i := range 5 {
		want := rxe.WCSuccess
		switch {
		case i == 3:
			want = rxe.WCLocProtErr
		case i > 3:
			want = rxe.WCFlushErr
		}
		to.wc(uint64(i), want)
	}
}

// TestRawInfo: what a port says of a frame is in the completion. A tag is removed, and a check
// sequence added, if the queue pair asks for it.
func TestRawInfo(t *testing.T) {
	e := newRaw(t, rxedev.New(t), rxe.FrameInit{Port: new(rawPort), StripVLAN: true, ScatterFCS: true})
	e.to(ready...)
	info := rxe.FrameInfo{Flags: rxe.FrameL3OK | rxe.FrameL4OK | rxe.FrameVLAN | rxe.FrameTag | rxe.FrameHash,
		L3: 2, L4: 3, VLAN: 0xffff, Tag: 0xffffffff, Hash: 0x89abcdef}
	e.recv(1, 0, 100)
	e.qp.ReceiveFrame([]byte("to....from..tagsthe type and the payload"), info)
	e.dev.Deliver()
	wc := e.wc(1, rxe.WCSuccess)
	if wc.Frame() != info || wc.Flags != rxe.WCIPCsumOK {
		t.Errorf("%+v, want %+v", wc.Frame(), info)
	}
	// the check sequence of IEEE 802.3, the least significant byte first
	if got := string(e.buf[:wc.ByteLen]); got[:36] != "to....from..the type and the payload" || len(got) != 40 {
		t.Errorf("%q", got)
	}
	e.recv(2, 0, 100)
	// no type behind the tag
	e.qp.ReceiveFrame([]byte("to....from..tags"), rxe.FrameInfo{Flags: rxe.FrameVLAN})
	e.dev.Deliver()
	if wc := e.wc(2, rxe.WCSuccess); wc.ByteLen != 20 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
}

// TestRawWord: the wishes of a work request survive their packing.
func TestRawWord(t *testing.T) {
	for _, f := range []rxe.FrameSend{{}, {Flags: 7, VLAN: 0xffff, MSS: 0xfffe, Header: 0xfffd}, {MSS: 1}, {Header: 1}} {
		if got := rxe.FrameSendOf(f.Word()); got != f {
			t.Errorf("%+v became %+v", f, got)
		}
	}
}

// TestRawNoPort: without a port there is no such queue pair, and packets of other queue pairs do
// not reach one.
func TestRawNoPort(t *testing.T) {
	dev := rxedev.New(t)
	e := newRaw(t, dev, rxe.FrameInit{Port: new(rawPort)})
	e.to(ready...)
	for _, f := range []*rxe.FrameInit{nil, {}} {
		_, err := e.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRaw, SendCQ: e.cq, RecvCQ: e.cq, Frames: f})
		if !errors.Is(err, rxe.ErrNotSupported) {
			t.Errorf("%v: %v", f, err)
		}
	}
	e.recv(1, 0, 1000)
	peer := wire.GIDFromAddr(rxedev.Addr).Addr().Next()
	for op := range wire.Opcode(255) {
		h := wire.Headers{Opcode: op, DestQP: e.qp.Num(), PKey: 0xffff}
		b := make([]byte, h.Len())
		h.Put(b)
		dev.Receive([]wire.Datagram{{Src: peer, Dst: rxedev.Addr, Data: b}})
	}
	e.none()
}

// TestRawTogether: threads that send, deliver and change a queue pair do not disturb each other.
func TestRawTogether(t *testing.T) {
	port := new(rawPort)
	e := newRaw(t, rxedev.New(t), rxe.FrameInit{Port: port})
	e.to(ready...)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				e.qp.ReceiveFrame(make([]byte, 100), rxe.FrameInfo{})
				e.dev.Deliver()
			}
		})
	}
	all.Go(func() {
		for range 100 {
			e.qp.PostRecv([]rxe.RecvWR{{SGL: []rxe.SGE{e.sge(0, 200)}}}) //nolint:errcheck // it may be full
			e.cq.Poll(make([]rxe.WC, 16))                                //nolint:errcheck // as above
		}
	})
	all.Wait()
	must.OK(t, e.qp.Destroy())
}

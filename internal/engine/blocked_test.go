package engine

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// silent is memory of which a part does not answer until the test allows it, like memory
// with userfaultfd or FUSE. If va is zero, all of it answers.
type silent struct {
	mu      sync.Mutex
	b       []byte
	va      uint64        // accesses from here on block
	blocked chan struct{} // one for each
	free    chan struct{} // closed: they go on
	answer  func()        // closes it
}

func newSilent(n int) *silent {
	m := &silent{b: make([]byte, n), blocked: make(chan struct{}, 64), free: make(chan struct{})}
	m.answer = sync.OnceFunc(func() { close(m.free) })
	return m
}

// silence makes everything from va on stop answering.
func (m *silent) silence(va uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.va = va
}

func (m *silent) move(spans []rxe.Span, copyPart func(mem, buf []byte)) error {
	for _, s := range spans {
		m.mu.Lock()
		blocked := m.va != 0 && s.VA >= m.va
		m.mu.Unlock()
		if blocked {
			m.blocked <- struct{}{}
			<-m.free
		}
		m.mu.Lock()
		copyPart(m.b[s.VA:][:len(s.Buf)], s.Buf)
		m.mu.Unlock()
	}
	return nil
}

func (m *silent) ReadV(spans []rxe.Span) error {
	return m.move(spans, func(mem, buf []byte) { copy(buf, mem) })
}

func (m *silent) WriteV(spans []rxe.Span) error {
	return m.move(spans, func(mem, buf []byte) { copy(mem, buf) })
}

func (m *silent) CompareSwap(uint64, uint64, uint64) (uint64, error) { return 0, nil }
func (m *silent) FetchAdd(uint64, uint64) (uint64, error)            { return 0, nil }
func (m *silent) Store(uint64, uint64) error                         { return nil }

// host is an engine with one region of memory.
type host struct {
	t   *testing.T
	e   *Engine
	pd  *rxe.PD
	mem *silent
	mr  *rxe.MR

	close func() error
}

const (
	silentVA = 0x8000 // the part of the memory that may stop answering
	memSize  = 0x10000
)

func newHost(t *testing.T, addr string) *host {
	t.Helper()
	return newHostOf(t, Config{Name: "rxe0", Address: netip.MustParseAddr(addr)})
}

func newHostOf(t *testing.T, cfg Config) *host {
	t.Helper()
	e, err := Start(cfg)
	must.OK(t, err)
	h := &host{t: t, e: e, mem: newSilent(memSize), close: e.Close}
	t.Cleanup(func() {
		h.mem.answer() // Close waits for accesses
		must.OK(t, h.close())
	})
	h.pd, err = e.Device().AllocPD()
	must.OK(t, err)
	h.mr, err = h.pd.RegMR(h.mem, 0, memSize, 0,
		rxe.AccessLocalWrite|rxe.AccessRemoteWrite|rxe.AccessRemoteRead)
	must.OK(t, err)
	return h
}

// queue is a connected RC QP and its completions.
type queue struct {
	t      *testing.T
	h      *host
	cq     *rxe.CQ
	qp     *rxe.QP
	signal chan struct{}
}

func newQueue(h *host) *queue {
	q := &queue{t: h.t, h: h, signal: make(chan struct{}, 1)}
	var err error
	q.cq, err = h.e.Device().CreateCQ(rxe.CQInit{Entries: 64, OnCompletion: func(*rxe.CQ) {
		select {
		case q.signal <- struct{}{}:
		default:
		}
	}})
	must.OK(h.t, err)
	q.qp, err = h.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: q.cq, RecvCQ: q.cq, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.OK(h.t, err)
	return q
}

// connect brings the QP to RTS towards QP dest of the device at addr.
func (q *queue) connect(addr string, dest wire.QPN, timeout uint8) {
	q.t.Helper()
	a := rxe.QPAttr{
		PortNum: 1, PathMTU: 1024, DestQPN: dest, RQPSN: 1, SQPSN: 1,
		Access: rxe.AccessRemoteWrite | rxe.AccessRemoteRead, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		MinRNRTimer: 1, Timeout: timeout, RetryCnt: 7, RNRRetry: 7,
		AH: rxe.AHAttr{DGID: wire.GIDFromAddr(netip.MustParseAddr(addr)), PortNum: 1},
	}
	for from := range rxe.QPRTS {
		a.State = from + 1
		must.OK(q.t, q.qp.Modify(&a, rxe.RequiredMask(rxe.QPRC, from, a.State)))
	}
}

// write posts a WRITE of 4 KiB from va to the same place at the other end.
func (q *queue) write(va uint64, rkey wire.RKey) {
	q.t.Helper()
	_, err := q.qp.PostSend([]rxe.SendWR{{
		Op: rxe.WRWrite, RemoteAddr: va, RKey: rkey,
		SGL: []rxe.SGE{{Addr: va, Length: 4096, LKey: q.h.mr.LKey()}},
	}})
	must.OK(q.t, err)
}

// wait returns the status of the next completion.
func (q *queue) wait() rxe.WCStatus {
	q.t.Helper()
	var wcs [1]rxe.WC
	end := time.After(timeout)
	for armed := false; ; armed = true {
		n, err := q.cq.Poll(wcs[:])
		must.OK(q.t, err)
		if n == 1 {
			return wcs[0].Status
		}
		if !armed {
			must.OK(q.t, q.cq.ReqNotify(false))
			continue
		}
		select {
		case <-q.signal:
			must.OK(q.t, q.cq.ReqNotify(false))
		case <-end:
			q.t.Fatal("no completion")
		}
	}
}

// ackTimeout is the IBA code for 2 s, much longer than a spare takes to start.
const ackTimeout = 19

// TestSilentTarget has packets arrive for memory that does not answer. Other queue pairs of
// the device continue, and that queue pair continues when the memory answers.
func TestSilentTarget(t *testing.T) {
	const here, there = "127.78.0.11", "127.78.0.12"
	a, b := newHost(t, here), newHost(t, there)
	var qs, peers []*queue
	for range 3 {
		q, p := newQueue(a), newQueue(b)
		q.connect(there, p.qp.Num(), ackTimeout)
		p.connect(here, q.qp.Num(), ackTimeout)
		qs, peers = append(qs, q), append(peers, p)
	}
	b.mem.silence(silentVA)
	// Two of the three block, one after the other.
	for _, q := range qs[:2] {
		q.write(silentVA, b.mr.RKey())
		<-b.mem.blocked
		for range 20 {
			qs[2].write(0, b.mr.RKey())
			if s := qs[2].wait(); s != rxe.WCSuccess {
				t.Fatalf("a queue pair beside it: %v", s)
			}
		}
	}
	// In the other direction, b's requests need b's receiver for their ACKs.
	peers[2].write(0, a.mr.RKey())
	if s := peers[2].wait(); s != rxe.WCSuccess {
		t.Errorf("in the other direction: %v", s)
	}
	if n := b.e.Port().Counters().ReceiverTakeovers.Load(); n < 2 {
		t.Errorf("%d takeovers", n)
	}
	b.mem.answer()
	for _, q := range qs[:2] {
		if s := q.wait(); s != rxe.WCSuccess {
			t.Errorf("once the memory answers: %v", s)
		}
	}
}

// TestSilentSource has a retransmission read memory that no longer answers. This blocks the
// clock's goroutine, and other deadlines are kept.
func TestSilentSource(t *testing.T) {
	const here, nobody = "127.78.0.13", "127.78.0.14"
	a := newHost(t, here)
	blocked, other := newQueue(a), newQueue(a)
	blocked.connect(nobody, 100, soon)
	other.connect(nobody, 101, soon)
	blocked.write(silentVA, 1)
	a.mem.silence(silentVA)
	<-a.mem.blocked // the first retransmission
	other.write(0, 1)
	if s := other.wait(); s != rxe.WCRetryExcErr {
		t.Errorf("a queue pair beside it: %v, want %v", s, rxe.WCRetryExcErr)
	}
	a.mem.answer()
	if s := blocked.wait(); s != rxe.WCRetryExcErr {
		t.Errorf("once the memory answers: %v, want %v", s, rxe.WCRetryExcErr)
	}
}

// TestCloseWhileBlocked: the engine ends although the device's memory does not answer.
func TestCloseWhileBlocked(t *testing.T) {
	const here, there = "127.78.0.15", "127.78.0.16"
	a, b := newHost(t, here), newHost(t, there)
	q, p := newQueue(a), newQueue(b)
	q.connect(there, p.qp.Num(), ackTimeout)
	p.connect(here, q.qp.Num(), ackTimeout)
	b.mem.silence(silentVA)
	q.write(silentVA, b.mr.RKey())
	<-b.mem.blocked
	b.e.closeTimeout = time.Millisecond
	if err := b.close(); !errors.Is(err, errBlockedAccess) {
		t.Errorf("Close: %v, want %v", err, errBlockedAccess)
	}
	b.close = func() error { return nil }
	// The address is free, and the blocked access does no harm when it continues.
	newHost(t, there)
	b.mem.answer()
}

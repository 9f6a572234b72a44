package librxe

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestMalformedSend: a WQE that no librxe writes fails in its turn, as with
// rdma_rxe, after all work requests before it.
func TestMalformedSend(t *testing.T) {
	const opErr, protErr, lenErr = rxe.WCLocQPOpErr, rxe.WCLocProtErr, rxe.WCLocLenErr
	type edit = func(w *librxeclient.SendWQE, payload []byte)
	atomic := rxe.SendWR{Op: rxe.WRFetchAdd, RemoteAddr: stationBase}
	for _, tc := range []struct {
		name string
		typ  rxe.QPType
		wr   rxe.SendWR
		edit edit
		want rxe.WCStatus
	}{
		{"opcode 10", rxe.QPRC, rxe.SendWR{Op: 10}, nil, opErr},
		{"opcode 16", rxe.QPRC, rxe.SendWR{Op: 16}, nil, opErr},
		{"opcode 256", rxe.QPRC, rxe.SendWR{}, func(w *librxeclient.SendWQE, _ []byte) { w.Opcode = 256 + 2 }, opErr},
		{"opcode huge", rxe.QPRC, rxe.SendWR{}, func(w *librxeclient.SendWQE, _ []byte) { w.Opcode = 1<<32 - 1 }, opErr},
		{"READ on UC", rxe.QPUC, rxe.SendWR{Op: rxe.WRRead}, nil, opErr},
		{"WRITE on UD", rxe.QPUD, rxe.SendWR{Op: rxe.WRWrite}, nil, opErr},
		{"num_sge", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend}, func(w *librxeclient.SendWQE, _ []byte) { w.DMA.NumSGE = 5 }, opErr},
		{"num_sge that overflows", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend},
			func(w *librxeclient.SendWQE, _ []byte) { w.DMA.NumSGE = 1<<28 + 1 }, opErr},
		{"READ num_sge", rxe.QPRC, rxe.SendWR{Op: rxe.WRRead},
			func(w *librxeclient.SendWQE, _ []byte) { w.DMA.NumSGE = 1<<32 - 1 }, opErr},
		{"inline too long", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend, Flags: rxe.SendInline},
			func(w *librxeclient.SendWQE, _ []byte) { w.DMA.Length = 65 }, opErr},
		{"inline length huge", rxe.QPRC, rxe.SendWR{Op: rxe.WRWrite, Flags: rxe.SendInline},
			func(w *librxeclient.SendWQE, _ []byte) { w.DMA.Length = 1<<32 - 1 }, opErr},
		{"bytes without a list", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend},
			func(w *librxeclient.SendWQE, _ []byte) { w.DMA.Length = 4096 }, opErr},
		{"message too long", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend,
			SGL: []rxe.SGE{sge(0, 1<<31, 1), sge(0, 1, 1)}}, nil, lenErr},
		{"no such key", rxe.QPRC, rxe.SendWR{Op: rxe.WRSend, SGL: []rxe.SGE{sge(stationBase, 8, 0)}}, nil, protErr},
		{"short atomic", rxe.QPRC, atomic, nil, lenErr},
		{"misaligned atomic", rxe.QPRC, rxe.SendWR{Op: rxe.WRFetchAdd, RemoteAddr: stationBase + 4,
			SGL: []rxe.SGE{sge(stationBase, 8, 0)}}, nil, rxe.WCRemInvReqErr},
		{"misaligned ATOMIC WRITE", rxe.QPRC, rxe.SendWR{Op: rxe.WRAtomicWrite, RemoteAddr: stationBase + 4},
			nil, rxe.WCRemInvReqErr},
		{"FLUSH of no kind", rxe.QPRC, rxe.SendWR{Op: rxe.WRFlush}, nil, opErr},
		{"BIND MW of no window", rxe.QPRC, rxe.SendWR{Op: rxe.WRBindMW}, nil, rxe.WCMWBindErr},
		{"LOCAL INV of nothing", rxe.QPRC, rxe.SendWR{Op: rxe.WRLocalInv}, nil, rxe.WCMWBindErr},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t, tc.typ)
			var before []librxeclient.SendWR
			if tc.typ != rxe.QPUD {
				b.recv.PostRecv(1)
				before = append(before, librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRSend, Flags: rxedev.Signaled}})
			}
			tc.wr.ID = 2
			a.post(append(before, librxeclient.SendWR{SendWR: tc.wr, Edit: tc.edit},
				librxeclient.SendWR{SendWR: rxe.SendWR{ID: 3, Op: rxe.WRSend}})...)
			if before != nil {
				a.want(1, rxe.WCSuccess)
			}
			a.want(2, tc.want)
			a.want(3, rxe.WCFlushErr)
			a.wantNone()
			if !a.send.Empty() {
				t.Error("the consumer index lags")
			}
		})
	}
}

// TestListLength: the list says how long a message is. librxe 44 computes
// dma.length of a list from its first element.
func TestListLength(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	for _, wrong := range []uint32{0, 2, 6, 1 << 31} {
		b.recv.PostRecv(1, b.sge(0, 100))
		a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRSend, SGL: []rxe.SGE{a.sge(0, 1), a.sge(1, 4)}},
			Edit: func(w *librxeclient.SendWQE, _ []byte) { w.DMA.Length, w.DMA.Resid = wrong, wrong }})
		if wc := b.want(1, rxe.WCSuccess); wc.ByteLen != 5 {
			t.Errorf("dma.length %d: %d bytes arrived", wrong, wc.ByteLen)
		}
	}
}

// TestDoorbellState: a QP that does not send refuses, keeps what is in the
// queue, and sends it once it does; RESET forgets it.
func TestDoorbellState(t *testing.T) {
	dev := rxedev.New(t)
	a, b := newStation(t, dev, rxe.QPRC), newStation(t, dev, rxe.QPRC)
	b.connect(a.qp)
	post := func(id uint64) {
		t.Helper()
		if !a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRSend, Flags: rxedev.Signaled}}) {
			t.Fatal("full")
		}
	}
	post(1)
	post(2)
	if err := a.sq.doorbell(); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("doorbell in RESET: %v", err)
	}
	if a.send.Consumer() != 0 {
		t.Fatal("work requests are gone")
	}
	a.connect(b.qp)
	b.recv.PostRecv(8)
	b.recv.PostRecv(9)
	a.must(a.sq.doorbell())
	a.want(1, rxe.WCSuccess)
	a.want(2, rxe.WCSuccess)

	post(3) // never rung for
	a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	a.sq.reset()
	a.rq.reset()
	if !a.send.Empty() {
		t.Error("something is left after RESET")
	}
	a.wantNone()

	a.connect(b.qp)
	a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
	post(4)
	a.must(a.sq.doorbell())
	a.want(4, rxe.WCFlushErr)

	a.must(a.qp.Destroy())
	post(5)
	if err := a.sq.doorbell(); !errors.Is(err, rxe.ErrInvalid) {
		t.Errorf("doorbell of a destroyed QP: %v", err)
	}
	a.sq.free()
	a.must(a.sq.doorbell())
}

// overfull is a station whose ring holds three SENDs, which the engine has room for
// two of. Its peer has nothing to receive them into.
func overfull(t *testing.T) *station {
	t.Helper()
	dev := rxedev.New(t)
	b := newStation(t, dev, rxe.QPRC)
	small := stationCap
	small.MaxSendWR = 2
	a := newStationCap(t, dev, rxe.QPRC, small)
	a.connect(b.qp)
	b.connect(a.qp)
	for id := range uint64(3) {
		if !a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRSend, Flags: rxedev.Signaled}}) {
			t.Fatal("full")
		}
	}
	return a
}

// TestStalledDoorbell: what the engine has no room for is taken up, without
// another doorbell, when it has.
func TestStalledDoorbell(t *testing.T) {
	a := overfull(t)
	a.must(a.sq.doorbell()) // there is nothing to receive into yet
	a.wantNone()
	a.sq.piece.mu.Lock()
	stalled := a.sq.state == sendFull
	a.sq.piece.mu.Unlock()
	if !stalled {
		t.Fatal("three work requests in an engine's queue of two")
	}
	a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
	a.want(0, rxe.WCFlushErr)
	a.want(1, rxe.WCFlushErr)
	must.Eventually(t, "the third work request completes", func() bool {
		wc, ok := a.comp.Poll()
		if ok && (wc.ID != 2 || rxe.WCStatus(wc.Status) != rxe.WCFlushErr) {
			t.Errorf("%+v", wc)
		}
		return ok
	})
}

// TestStalledTooLate: what the engine had no room for is posted at once if all that
// filled it has completed meanwhile: no completion is left to ring for it.
func TestStalledTooLate(t *testing.T) {
	a := overfull(t)
	// As a doorbell does, with the completions right behind the engine's refusal.
	batch := new(sendBatch)
	a.sq.fetch(batch, 3, noShare)
	n, err := batch.post(a.qp, false)
	if n != 2 || !errors.Is(err, rxe.ErrFull) {
		t.Fatalf("the engine took %d of 3: %v", n, err)
	}
	a.must(a.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
	a.want(0, rxe.WCFlushErr)
	a.want(1, rxe.WCFlushErr)
	again, err := a.sq.conclude(batch, n, err)
	if !again || err != nil || a.sq.state != sendOpen {
		t.Fatalf("go on: %v, %v; state %v", again, err, a.sq.state)
	}
	a.must(a.sq.doorbell())
	a.want(2, rxe.WCFlushErr)
}

// blockedMemory is a program's memory that does not answer.
type blockedMemory struct {
	rxe.Memory
	entered, release chan struct{}
}

func (m *blockedMemory) ReadV(spans []rxe.Span) error {
	m.entered <- struct{}{}
	<-m.release
	return m.Memory.ReadV(spans)
}

// TestBlockedDoorbell: while a doorbell waits for memory that does not answer,
// further ones return, and so does the end of the queue.
func TestBlockedDoorbell(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	blocked := &blockedMemory{a.mem, make(chan struct{}), make(chan struct{})}
	mr := must.Get[*rxe.MR](t)(a.dom.RegMR(blocked, stationBase, 4096, stationBase, 0))
	list := []rxe.SGE{{Addr: stationBase, Length: 8, LKey: mr.LKey()}}
	for id := range uint64(3) {
		b.recv.PostRecv(id, b.sge(0, 8))
	}
	a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: list}})
	var first sync.WaitGroup
	first.Go(func() { _ = a.sq.doorbell() })
	<-blocked.entered
	a.post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRSend, Flags: rxedev.Signaled}})
	a.wantNone()
	close(blocked.release)
	first.Wait() // which answered for both
	a.want(1, rxe.WCSuccess)
	a.want(2, rxe.WCSuccess)

	again := &blockedMemory{a.mem, blocked.entered, make(chan struct{})}
	mr = must.Get[*rxe.MR](t)(a.dom.RegMR(again, stationBase, 4096, stationBase, 0))
	list[0].LKey = mr.LKey()
	a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 3, Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: list}})
	first.Go(func() { _ = a.sq.doorbell() })
	<-again.entered
	a.sq.free()
	a.must(a.sq.doorbell())
	close(again.release)
	first.Wait()
}

// TestHostileProducer: a producer index from nowhere makes the daemon look at
// what is in the queue, whatever that is, once.
func TestHostileProducer(t *testing.T) {
	for i, hostile := range []uint32{1, 1, 15, 15, 16, 16, 1 << 31, 1 << 31, 1<<32 - 1, 1<<32 - 1, 0xdeadbeef, 0xdeadbeef} {
		a, _ := pair(t, rxe.QPUC)
		ring := a.rings()[i%2]
		for i := range a.send.Mem[384:] {
			a.send.Mem[384+i] = byte(i * 31)
		}
		a.send.SetProducer(hostile)
		_ = ring()
		n := 0
		for {
			if _, ok := a.comp.Poll(); !ok {
				break
			}
			n++
		}
		if n > 15 || a.send.Consumer() > 15 {
			t.Errorf("producer %#x: %d completions, consumer %#x", hostile, n, a.send.Consumer())
		}
	}
}

// TestConcurrentDoorbells: threads of a program that share a QP lose nothing.
func TestConcurrentDoorbells(t *testing.T) {
	a, _ := pair(t, rxe.QPUC)
	var lock sync.Mutex // librxe's, which is not held over the doorbell
	const each = 500
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			for posted := 0; posted < each; {
				lock.Lock()
				if a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend}}) {
					posted++
				}
				lock.Unlock()
				if err := a.sq.doorbell(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	threads.Wait()
	if !a.send.Empty() {
		t.Error("work requests are left in the queue")
	}
	if n := a.sq.doorbells.Load(); n != 0 {
		t.Errorf("%d doorbells unanswered", n)
	}
}

// TestDoneClamped: completions never take the consumer past what was fetched.
func TestDoneClamped(t *testing.T) {
	a, _ := pair(t, rxe.QPRC)
	a.sq.done(5)
	if got := a.send.Consumer(); got != 0 {
		t.Errorf("consumer %d", got)
	}
}

// A doorbell allocates nothing. Under the race detector it may: pools drop things
// at random there.
func TestDoorbellAllocs(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	wr := librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: []rxe.SGE{a.sge(0, 100), a.sge(100, 10)}}}
	in := librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRWrite, Flags: rxe.SendInline, Inline: make([]byte, 16),
		RemoteAddr: stationBase, RKey: wire.RKey(b.mr.RKey())}}
	list := []rxe.SGE{b.sge(0, 200)}
	round := func() {
		b.recv.PostRecv(1, list...)
		a.send.PostSend(&in)
		a.send.PostSend(&wr)
		if a.sq.doorbell() != nil {
			t.Fatal("doorbell")
		}
		if _, ok := a.comp.Poll(); !ok {
			t.Fatal("no completion")
		}
		if _, ok := b.comp.Poll(); !ok {
			t.Fatal("nothing received")
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 && !race.Enabled {
		t.Errorf("%v allocations for a doorbell with two work requests", n)
	}
}

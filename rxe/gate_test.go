package rxe

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// trapMemory blocks each thread that writes to it, like the memory of a program
// that handles its own page faults (userfaultfd).
type trapMemory struct {
	byteMemory
	blocked chan struct{} // one for each write
	open    chan struct{} // closed: go on
}

func newTrapMemory(n int) *trapMemory {
	return &trapMemory{byteMemory{make([]byte, n)}, make(chan struct{}, 64), make(chan struct{})}
}

func (m *trapMemory) WriteV(spans []Span) error {
	m.blocked <- struct{}{}
	<-m.open
	return m.byteMemory.WriteV(spans)
}

// take empties the pipe into a batch of its own.
func (l *pipe) take() []wire.Datagram {
	batch := append([]wire.Datagram(nil), l.queue...)
	buf := append([]byte(nil), l.buf...)
	at := 0
	for i := range batch {
		batch[i].Data = buf[at:l.ends[i]]
		at = l.ends[i]
	}
	l.buf, l.queue, l.ends = l.buf[:0], l.queue[:0], l.ends[:0]
	return batch
}

func (e *pairEnd) counter(t testing.TB, q *QP, name string) uint64 {
	t.Helper()
	list := e.dev.Counters()
	if q != nil {
		list = q.Counters()
	}
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}

// A thread is blocked in the memory of one QP's program. Other threads bring
// packets and deadlines for that QP and go on, and another QP works. Once the
// thread is released, it processes all that was queued, and nothing has to be sent
// again.
func TestBlockedThread(t *testing.T) {
	p := newPair(t, 2, 1<<20, 1024)
	mem := newTrapMemory(1 << 20)
	trap, err := p.b.pd.RegMR(mem, 0, 1<<20, 0, allRemote)
	must.OK(t, err)
	write := func(q int, mr *MR, n int) {
		for range n {
			_, err := p.a.qps[q].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: mr.RKey(),
				SGL: []SGE{{Addr: 4096, Length: 5000, LKey: p.a.mr.LKey()}}}})
			must.OK(t, err)
		}
	}
	fill(p.a.mem.b)

	// The thread to be blocked; the QP has a deadline of its own.
	_, err = p.b.qps[0].PostSend([]SendWR{{Op: WRWrite, RKey: p.a.mr.RKey(), Flags: SendSignaled,
		SGL: []SGE{{Length: 8, LKey: p.b.mr.LKey()}}}})
	must.OK(t, err)
	p.b.link.take() // is lost
	write(0, trap, 1)
	first := p.a.link.take()
	done := make(chan struct{})
	go func() { p.b.dev.Receive(first); close(done) }()
	<-mem.blocked
	if s := p.b.qps[0].Snapshot(); !s.Busy || s.State != QPRTS || s.DestQPN != p.a.qps[0].Num() || s.DGID != p.a.gid {
		t.Errorf("snapshot %+v", s)
	}

	// This thread is not blocked.
	write(0, trap, 20)
	write(1, p.b.mr, 3)
	p.b.dev.Receive(p.a.link.take())
	p.clock.now += Time(1e9)
	p.b.dev.Expire()
	p.pump()
	p.a.take(t, 3) // of the other QP

	close(mem.open)
	<-done
	p.pump()
	p.a.take(t, 21)
	p.b.take(t, 1)
	equal(t, "WRITE", mem.b, p.a.mem.b[4096:][:5000])
	if n := p.a.counter(t, p.a.qps[0], "retransmits"); n != 0 {
		t.Errorf("%d packets were sent again", n)
	}
	if n := p.b.counter(t, p.b.qps[0], "timeouts"); n != 1 {
		t.Errorf("%d deadlines were seen, want 1", n)
	}
	if s := p.b.qps[0].Snapshot(); s.Busy || s.RecvPSN != wire.PSN(0xfffff0).Add(21*5) {
		t.Errorf("snapshot %+v", s)
	}
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
}

// The same holds between QPs of one device. A thread blocked on behalf of one QP
// leaves what it had for the next to other threads, and posting waits for none of
// them.
func TestBlockedDelivery(t *testing.T) {
	d := newLocalPair(t, 3, 1<<20, 1024, nil)
	mem := newTrapMemory(4096)
	trap, err := d.pd.RegMR(mem, 0, 4096, 0, allRemote)
	must.OK(t, err)
	post := func(i int, mr *MR) {
		_, err := d.qps[2*i].PostSend([]SendWR{{ID: uint64(i), Op: WRWrite, Flags: SendSignaled, RKey: mr.RKey(),
			SGL: []SGE{{Length: 8, LKey: d.mr.LKey()}}}})
		must.OK(t, err)
	}
	done := make(chan struct{})
	go func() { post(0, trap); close(done) }()
	<-mem.blocked
	post(0, trap)
	post(1, d.mr)
	d.take(t, 1)
	// Another thread delivers what a blocked thread has put on the run queue.
	d.qps[5].lock()
	post(2, d.mr)
	d.take(t, 0)
	d.qps[5].unlock(nil)
	d.take(t, 1)
	close(mem.open)
	<-done
	d.take(t, 2)
}

// With OnDeliver a program's call touches its own QP only.
func TestOnDeliver(t *testing.T) {
	var told int
	d := newLocalPair(t, 1, 1<<20, 1024, func(c *Config) { c.OnDeliver = func() { told++ } })
	fill(d.mem.b[:5000])
	_, err := d.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: 10_000,
		SGL: []SGE{{Length: 5000, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	d.take(t, 0)
	if d.mem.b[10_100] != 0 || told != 1 {
		t.Fatalf("delivered by the call, or not announced: told %d times", told)
	}
	d.dev.Deliver()
	d.take(t, 1)
	equal(t, "WRITE", d.mem.b[10_000:15_000], d.mem.b[:5000])
	if _, _, err := d.qps[0].Query(); err != nil || told != 1 {
		t.Errorf("%v; told %d times", err, told)
	}
	// more than is sent at once: the requester waits for its receiver as well
	fill(d.mem.b[:400_000])
	_, err = d.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: 500_000,
		SGL: []SGE{{Length: 400_000, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	if s := d.qps[0].Snapshot(); s.SendPSN.Diff(s.AckedPSN) > yieldBytes/1024+64 || told != 2 {
		t.Errorf("%d packets sent at once; told %d times", s.SendPSN.Diff(s.AckedPSN), told)
	}
	d.dev.Deliver()
	d.take(t, 1)
	equal(t, "WRITE", d.mem.b[500_000:900_000], d.mem.b[:400_000])
}

// newLocalPair makes one device with n pairs of connected QPs, 2i and 2i+1.
func newLocalPair(t testing.TB, n, memory int, mtu MTU, change func(*Config)) *pairEnd {
	t.Helper()
	return newLocalPairs(t, n, memory, mtu, mtu, change)
}

// newLocalPairs is newLocalPair with different path MTUs at the two ends.
func newLocalPairs(t testing.TB, n, memory int, mtu, peer MTU, change func(*Config)) *pairEnd {
	t.Helper()
	e := newPairEnd(t, &armRecorder{now: 1}, "10.0.0.1", memory)
	if change != nil {
		cfg := e.dev.cfg
		change(&cfg)
		e.dev.cfg = cfg
		if cfg.Tap != nil {
			e.dev.SetTap(&Tap{Packets: cfg.Tap})
		}
	}
	for range 2 * n {
		q, err := e.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq,
			Cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}})
		must.OK(t, err)
		e.qps = append(e.qps, q)
	}
	for i := range n {
		connect(t, e.qps[2*i], e.qps[2*i+1], e.gid, mtu)
		connect(t, e.qps[2*i+1], e.qps[2*i], e.gid, peer)
	}
	return e
}

// Several threads bring packets for one QP at once, and others call it. When the
// last of them returns, each packet has been received or counted as dropped. No
// thread waits for another. UD accepts packets in any order.
func TestInboxLosesNothing(t *testing.T) {
	const threads, batches, each = 8, 400, 3
	b := newBenchCQ(t, QPUD, threads*batches*each, nil)
	q := b.qp
	ring := &endlessRing{sgl: []SGE{{Addr: localVA, Length: 256, LKey: b.local.LKey()}}}
	q.rq, q.rring = ring, nil
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			h := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: q.qpn, QKey: benchQKey, SrcQP: 7}
			batch := make([]wire.Datagram, each)
			for n := range batches {
				for j := range batch {
					data := make([]byte, 4*(1+(i+n+j)%50))
					batch[j] = wire.Datagram{Data: append(h.Append(nil), data...), Src: benchThere, Dst: benchHere, HopLimit: uint8(i)}
				}
				b.dev.Receive(batch)
				for j := range batch { // the bytes were the device's for the call only
					clear(batch[j].Data)
				}
				if n%16 == 0 {
					q.Query() //nolint:errcheck // for the lock
					q.Snapshot()
				}
			}
		})
	}
	wg.Wait()
	got := uint64(0)
	for {
		wcs := b.polled()
		if len(wcs) == 0 {
			break
		}
		got += uint64(len(wcs))
	}
	if dropped := b.dev.counters.InboxFull.Load(); got+dropped != threads*batches*each || got == 0 {
		t.Errorf("%d received and %d dropped of %d", got, dropped, threads*batches*each)
	}
	if n := q.tallies.stats.RcvdPackets.Load(); n != got {
		t.Errorf("%d packets counted, want %d", n, got)
	}
}

// endlessRing is a receive queue that is never empty.
type endlessRing struct{ sgl []SGE }

func (r *endlessRing) Pop(w *RecvWQE) (ok, bad bool) {
	w.SGL = append(w.SGL[:0], r.sgl...)
	return true, false
}

// A locked QP queues no more than its inbox may hold. The rest is counted as
// dropped. The inbox costs no other memory.
func TestInboxBound(t *testing.T) {
	b := newBench(t, QPUC, nil)
	q := b.qp
	pkts := make([]pkt, 64)
	batch := func(at int) {
		for i := range pkts {
			pkts[i] = req(wire.UCWriteOnly, benchPSN+wire.PSN(at*len(pkts)+i), pattern(200), b.at(0, 200))
		}
		b.send(pkts...)
	}
	q.lock()
	n := 0
	for ; b.dev.counters.InboxFull.Load() == 0; n++ {
		batch(n)
		if n > 2*inboxLimitUnreliable/(200*len(pkts)) {
			t.Fatal("the inbox is not bounded")
		}
	}
	if q.gate.inbox.bytes < inboxLimitUnreliable/2 {
		t.Errorf("a UC QP may have no more than %d bytes", q.gate.inbox.bytes)
	}
	full := b.dev.counters.InboxFull.Load()
	q.unlock(nil)
	if got := q.tallies.stats.RcvdPackets.Load(); got+full != uint64(n*len(pkts)) || q.tallies.stats.Dropped.Load() != full {
		t.Errorf("%d packets taken, %d dropped of %d", got, full, n*len(pkts))
	}
	if q.gate.inbox != (inbox{}) || q.gate.state.Load() != 0 || b.dev.pools.inboxes.used.Load() != 0 {
		t.Error("the inbox is not empty")
	}
}

// RC sends again what is lost, and its windows fit into less.
func TestInboxBoundRC(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	q := d.qps[1]
	q.lock()
	defer q.unlock(nil)
	for range 2 * inboxLimit / largeItemBytes {
		q.enqueue(newItem(largeItemBytes))
	}
	if n := q.gate.inbox.bytes; n > inboxLimit || n < inboxLimit/2 {
		t.Errorf("%d bytes were left", n)
	}
}

// Many QPs that stay locked cannot each have the memory that one may have.
func TestInboxesBound(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	q := d.qps[1]
	q.lock()
	d.dev.pools.inboxes.used.Store(inboxesScarceAbove)
	wr := []SendWR{{Op: WRWrite, RKey: d.mr.RKey(), RemoteAddr: 1 << 19, SGL: []SGE{{Length: 500_000, LKey: d.mr.LKey()}}}}
	_, err := d.qps[0].PostSend(wr)
	must.OK(t, err)
	if n := q.gate.inbox.bytes; n == 0 || n > inboxLimitScarce {
		t.Errorf("%d bytes were left", n)
	}
	full := d.counter(t, nil, "drop_inbox_full")
	d.dev.pools.inboxes.used.Add(-inboxesScarceAbove)
	q.unlock(nil)
	for range 20 { // dropped packets are sent again
		d.clock().now += Time(1e9)
		d.dev.Expire()
	}
	if s := d.qps[0].Snapshot(); s.SendQueue != 0 || s.State != QPRTS || full == 0 || d.dev.pools.inboxes.used.Load() != 0 {
		t.Errorf("%d packets dropped, %d bytes still in inboxes, then: %+v", full, d.dev.pools.inboxes.used.Load(), s)
	}
}

// Nothing is queued for a destroyed QP, even by threads that still have a pointer
// to it: no thread would find it there.
func TestInboxOfDestroyed(t *testing.T) {
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	q := d.qps[1]
	must.OK(t, q.Destroy())
	q.enqueue(newItem(100))
	if n := d.dev.pools.inboxes.used.Load(); n != 0 || !d.dev.runQueue.empty() || q.gate.inbox != (inbox{}) {
		t.Errorf("%d bytes are left for a QP that is destroyed", n)
	}
}

func (e *pairEnd) clock() *armRecorder { return e.dev.cfg.Clock.(*armRecorder) }

// Queueing packets allocates nothing. Under the race detector it may, because pools
// drop things at random there.
func TestInboxAllocatesNothing(t *testing.T) {
	b := newBench(t, QPUC, nil)
	h := wire.Headers{Opcode: wire.UCWriteMiddle, PKey: wire.DefaultPKey, DestQP: b.qp.qpn}
	data := append(h.Append(nil), pattern(benchMTU)...)
	batch := make([]wire.Datagram, 32)
	for i := range batch {
		batch[i] = wire.Datagram{Data: data, Src: benchThere, Dst: benchHere}
	}
	once := func() {
		b.qp.lock()
		b.dev.Receive(batch)
		b.qp.unlock(nil)
	}
	once()
	if n := testing.AllocsPerRun(100, once); n >= 1 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
	if got := b.qp.tallies.stats.RcvdPackets.Load(); got != 102*32 {
		t.Errorf("%d packets received", got)
	}
}

// A thread does not process for ever what others queue. The clock's thread goes on
// with it.
func TestHandOver(t *testing.T) {
	b := newBench(t, QPUC, nil)
	q := b.qp
	const rounds = 3 * inboxRounds
	n := 0
	b.clock.now, b.clock.armed = 1000, 0
	mem := &hookMemory{sliceMem: b.mem}
	mr, err := b.pd.RegMR(mem, remoteVA, remoteLen, remoteVA, benchRights)
	b.must(err)
	mem.onWrite = func() {
		if n++; n < rounds {
			b.send(req(wire.UCWriteOnly, benchPSN+wire.PSN(n), pattern(8), b.at(0, 8), func(h *wire.Headers) { h.RKey = mr.RKey() }))
		}
	}
	b.send(req(wire.UCWriteOnly, benchPSN, pattern(8), b.at(0, 8), func(h *wire.Headers) { h.RKey = mr.RKey() }))
	if n != 1+inboxRounds || b.clock.armed != 1000 {
		t.Fatalf("one call went %d rounds; the clock is armed for %d", n, b.clock.armed)
	}
	for range 2 {
		b.dev.Expire()
	}
	if n != rounds || q.gate.state.Load() != 0 {
		t.Errorf("%d rounds, want %d", n, rounds)
	}
}

type hookMemory struct {
	*sliceMem
	onWrite func()
}

func (m *hookMemory) WriteV(spans []Span) error {
	m.onWrite()
	return m.sliceMem.WriteV(spans)
}

// Many threads send and call on one pair of QPs. Every work request completes, though no thread may
// wait for another. A thread that has run an inbox often enough leaves the rest to the clock's
// thread.
func TestLocalThreads(t *testing.T) {
	const threads, each = 4, 300
	d := newLocalPair(t, threads, 1<<20, 1024, nil)
	var done atomic.Uint64
	var wg, clock sync.WaitGroup
	var stop atomic.Bool
	clock.Go(func() {
		for !stop.Load() {
			d.dev.Expire()
			runtime.Gosched()
		}
	})
	for i := range 2 * threads {
		wg.Go(func() {
			q := d.qps[i]
			wr := []SendWR{{Op: WRWrite, RKey: d.mr.RKey(), RemoteAddr: uint64(4096 * i),
				SGL: []SGE{{Addr: uint64(1<<19 + 4096*i), Length: 4000, LKey: d.mr.LKey()}}}}
			for n := range each {
				if n%3 == 0 {
					wr[0].Op = WRRead
				} else {
					wr[0].Op = WRWrite
				}
				for {
					if _, err := q.PostSend(wr); err == nil {
						break
					}
					q.Query() //nolint:errcheck // its lock lets the queue be worked off
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	clock.Wait()
	d.dev.Expire()
	for i, q := range d.qps {
		if s := q.Snapshot(); s.SendQueue != 0 || s.State != QPRTS {
			t.Errorf("QP %d: %+v", i, s)
		}
	}
	if done.Load() != 2*threads*each {
		t.Error("not all were posted")
	}
}

// A deadline that finds the QP locked is handled when the QP is unlocked, even with
// nothing else in the inbox.
func TestDeadlineLeft(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	q := p.a.qps[0]
	_, err := q.PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: p.b.mr.RKey(), SGL: []SGE{{Length: 8, LKey: p.a.mr.LKey()}}}})
	must.OK(t, err)
	p.a.link.take() // is lost
	q.lock()
	p.clock.now += Time(1e9)
	p.a.dev.Expire()
	if n := p.a.counter(t, q, "timeouts"); n != 0 {
		t.Fatal("a locked QP was worked on")
	}
	q.unlock(nil)
	p.pump()
	p.a.take(t, 1)
	if n := p.a.counter(t, q, "timeouts"); n != 1 {
		t.Errorf("%d deadlines were seen, want 1", n)
	}
}

// Snapshot does not run the QP's inbox, which may block. The clock's thread does.
func TestSnapshotRunsNothing(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	mem := newTrapMemory(4096)
	trap, err := p.b.pd.RegMR(mem, 0, 4096, 0, allRemote)
	must.OK(t, err)
	_, err = p.a.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: trap.RKey(), SGL: []SGE{{Length: 8, LKey: p.a.mr.LKey()}}}})
	must.OK(t, err)
	q := p.b.qps[0]
	for _, dg := range p.a.link.take() {
		q.enqueue(itemFromDatagram(&dg))
	}
	if s := q.Snapshot(); s.Busy || s.RecvPSN != 0xfffff0 {
		t.Errorf("snapshot %+v", s)
	}
	close(mem.open)
	p.clock.now++
	p.b.dev.Expire()
	p.pump()
	p.a.take(t, 1)
}

// What a QP sends again leaves before another thread may lock it. New requests share the system
// call of the step.
func TestRetransmissionsLeaveFirst(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7}, RequiredMask(QPRC, QPRTR, QPRTS)))
	q := b.qp
	for again, want := range []int{0, 2} {
		q.lock()
		if again == 1 {
			q.comp.retry(q, CauseTimeout)
		} else {
			write := SendWR{Op: WRWrite, RemoteAddr: remoteVA, SGL: []SGE{{Addr: localVA, Length: 2 * benchMTU, LKey: b.local.LKey()}}}
			_, err := q.postSend([]SendWR{write})
			b.must(err)
		}
		st := b.dev.newStep()
		q.runRequester(st)
		q.unlock(st)
		if n := len(b.take()); n != want {
			t.Errorf("%d packets have left when the QP is unlocked, want %d", n, want)
		}
		st.done()
		if n := len(b.take()); n != 2-want {
			t.Errorf("%d packets leave later, want %d", n, 2-want)
		}
	}
}

// The wait after an RNR NAK begins when the NAK is handled, and not when the thread that handles it
// has begun its step. Another thread may have queued the NAK meanwhile.
func TestRNRWaitOfLateNAK(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7, RNRRetry: 7}, RequiredMask(QPRC, QPRTR, QPRTS)))
	_, err := b.qp.PostSend([]SendWR{{Op: WRSend, SGL: []SGE{{Addr: localVA, Length: 8, LKey: b.local.LKey()}}}})
	b.must(err)
	b.want(func(wire.Packet) string { return "" })
	q := b.qp
	st := b.dev.newStep()
	q.lock()
	b.clock.now += 1_000_000
	b.send(req(wire.RCAck, 0, nil, func(h *wire.Headers) { h.Syndrome = wire.SyndromeRNR(12) }))
	q.unlock(st)
	st.done()
	if want := b.clock.now + Time(wire.RNRTimeout(12)); q.send.rnrUntil != want {
		t.Errorf("the requester waits until %d, want %d", q.send.rnrUntil, want)
	}
}

package rxe

import (
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// newUCPair makes a device with two connected UC queue pairs, and posts a message
// of 8 MiB on the first. The second does not receive it, because a thread keeps it
// locked.
func newUCPair(t *testing.T) (d *pairEnd, a, b *QP) {
	const size = 8 << 20
	d = newLocalPair(t, 0, 2*size, 1024, nil)
	fill(d.mem.b[:size])
	var qps [2]*QP
	for i := range qps {
		qps[i] = newUC(t, d)
	}
	for i, q := range qps {
		connectUC(t, q, qps[1-i], d.gid)
	}
	a, b = qps[0], qps[1]
	b.lock()
	_, err := a.PostSend([]SendWR{{ID: 1, Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: size,
		SGL: []SGE{{Length: size, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	return d, a, b
}

func newUC(t *testing.T, e *pairEnd) *QP {
	t.Helper()
	q, err := e.pd.CreateQP(QPInitAttr{Type: QPUC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.OK(t, err)
	return q
}

func connectUC(t *testing.T, q, peer *QP, gid wire.GID) {
	t.Helper()
	a := QPAttr{PortNum: 1, Access: allRemote, PathMTU: 1024, DestQPN: peer.Num(), AH: AHAttr{DGID: gid, PortNum: 1}}
	for from := range QPRTS {
		a.State = from + 1
		must.OK(t, q.Modify(&a, RequiredMask(QPUC, from, a.State)))
	}
}

// A receiver that has waited for a CPU for a while loses nothing.
func TestUCPauseForReceiver(t *testing.T) {
	d, a, b := newUCPair(t)
	if n := b.gate.inbox.bytes; n < ucPauseBytes || n > inboxLimit/2 || a.sq.empty() {
		t.Fatalf("%d bytes are in the inbox, and the message is sent: %v", n, a.sq.empty())
	}
	d.clock().now += ucPauseLimit / 2
	d.dev.Expire()
	b.unlock(nil)
	for range 100 {
		d.clock().now += ucPauseStep
		d.dev.Expire()
	}
	d.take(t, 1)
	equal(t, "WRITE", d.mem.b[8<<20:], d.mem.b[:8<<20])
	if n := d.counter(t, nil, "drop_inbox_full"); n != 0 {
		t.Errorf("%d packets dropped", n)
	}
}

// A receiver that takes nothing for long delays nobody.
func TestUCPauseEnds(t *testing.T) {
	d, _, b := newUCPair(t)
	d.dev.pools.inboxes.used.Add(inboxLimitUnreliable) // of others
	for range 2 {
		d.clock().now += ucPauseLimit
		d.dev.Expire()
	}
	d.take(t, 1)
	if n := d.counter(t, nil, "drop_inbox_full"); n == 0 {
		t.Error("no packet dropped")
	}
	b.unlock(nil)
}

// repliesLink answers each packet with several.
type repliesLink struct {
	captureLink
	reply func()
}

func (l *repliesLink) Send(bursts []wire.Burst) {
	l.captureLink.Send(bursts)
	l.reply()
}

// A UC QP with much to send also processes what arrives meanwhile.
func TestUCBothWays(t *testing.T) {
	b := newBench(t, QPUC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
	const repliesEach, batch = 160, 16
	came := 0
	b.dev.pools.inboxes.used.Add(inboxLimitUnreliable) // of others
	b.dev.cfg.Link = &repliesLink{reply: func() {
		for range repliesEach {
			pkts := make([]pkt, batch)
			for i := range pkts {
				pkts[i] = req(wire.UCWriteOnly, benchPSN+wire.PSN(came), pattern(200), b.at(0, 200))
				came++
			}
			b.send(pkts...)
		}
	}}
	piece := SGE{Addr: remoteVA, Length: remoteLen, LKey: b.remote.LKey()}
	wrs := make([]SendWR, 16)
	for i := range wrs {
		wrs[i] = SendWR{Op: WRWrite, RKey: 1, SGL: []SGE{piece, piece, piece, piece}}
	}
	_, err := b.qp.PostSend(wrs)
	b.must(err)
	for !b.qp.sq.empty() {
		b.clock.now += ucQuantumPause
		b.dev.Expire()
	}
	if least := inboxLimit / smallItemBytes * batch; came < 2*least {
		t.Fatalf("only %d packets came, which may fit into the inbox", came)
	}
	if dropped, got := b.dev.counters.InboxFull.Load(), b.qp.tallies.stats.RcvdPackets.Load(); dropped != 0 || got != uint64(came) {
		t.Errorf("%d packets came: %d dropped, %d taken", came, dropped, got)
	}
	if n, want := b.qp.tallies.stats.SentBytes.Load(), uint64(len(wrs)*4*remoteLen); n != want {
		t.Errorf("%d bytes sent of %d", n, want)
	}
}

// The packets of a UC QP leave in order, though several threads send them.
func TestUCOrder(t *testing.T) {
	b := newBench(t, QPUC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
	var (
		wg    sync.WaitGroup
		first = true
		psns  []wire.PSN
	)
	write := func() {
		_, err := b.qp.PostSend([]SendWR{{Op: WRWrite, RKey: 1, SGL: []SGE{{Addr: localVA, Length: 8, LKey: b.local.LKey()}}}})
		b.must(err)
	}
	b.dev.cfg.Link = &hookLink{send: func(bursts []wire.Burst) {
		if first { // but it has not arrived yet when another thread has more to send
			first = false
			other := make(chan struct{})
			wg.Go(func() { write(); close(other) })
			must.Eventually(t, "the other thread waits or has ended", func() bool {
				select {
				case <-other:
					return true
				default:
				}
				b.qp.gate.mu.Lock()
				defer b.qp.gate.mu.Unlock()
				return b.qp.gate.waiting > 0
			})
		}
		for i := range bursts {
			pkt, err := wire.Parse(bursts[i].Packet(0)[:bursts[i].Seg-wire.ICRCLen])
			b.must(err)
			psns = append(psns, pkt.PSN())
		}
	}}
	write()
	wg.Wait()
	if len(psns) != 2 || psns[1] != psns[0].Next() {
		t.Errorf("PSNs %v left", psns)
	}
}

// A UC QP whose peer is on another device pauses between quanta.
func TestUCRests(t *testing.T) {
	b := newBench(t, QPUC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
	piece := SGE{Addr: remoteVA, Length: remoteLen, LKey: b.remote.LKey()}
	wrs := make([]SendWR, 16)
	for i := range wrs {
		wrs[i] = SendWR{Op: WRWrite, RKey: 1, SGL: []SGE{piece, piece, piece, piece}}
	}
	const posts = 3 * ucQuantum / (16 * 4 * remoteLen)
	sent := func() int { return int(b.qp.tallies.stats.SentBytes.Load()) }
	quanta := 1
	for posted := 0; ; {
		if n, most := sent(), quanta*(ucQuantum+burstBytes); n > most {
			t.Fatalf("%d bytes sent in %d quanta", n, quanta)
		}
		if b.qp.sq.empty() {
			if posted == posts {
				break
			}
			_, err := b.qp.PostSend(wrs)
			b.must(err)
			posted++
			continue
		}
		before := sent()
		b.clock.now += ucQuantumPause - 1
		b.dev.Expire()
		if n := sent(); n != before {
			t.Fatalf("%d bytes sent before the pause was over", n-before)
		}
		b.clock.now++
		b.dev.Expire()
		quanta++
	}
	if n, want := sent(), posts*len(wrs)*4*remoteLen; n != want || quanta < 3 {
		t.Errorf("%d bytes sent of %d, in %d quanta", n, want, quanta)
	}
}

// hookLink passes on what is sent.
type hookLink struct {
	captureLink
	send func([]wire.Burst)
}

func (l *hookLink) Send(bursts []wire.Burst) { l.send(bursts) }

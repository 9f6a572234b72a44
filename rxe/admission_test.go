package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// newActivePair connects n RC QPs of two devices. On the first device two QPs may
// be active. write posts a WRITE on each of the QPs with these indices.
func newActivePair(t *testing.T, n int) (p *pair, write func(qps ...int)) {
	p = newPair(t, n, 4096, 1024)
	p.a.dev.admission.limit = 2
	return p, func(qps ...int) {
		t.Helper()
		for _, i := range qps {
			_, err := p.a.qps[i].PostSend([]SendWR{{ID: uint64(i), Op: WRWrite, Flags: SendSignaled,
				RKey: p.b.mr.RKey(), SGL: []SGE{{Length: 8, LKey: p.a.mr.LKey()}}}})
			must.OK(t, err)
		}
	}
}

// sent checks which requests are under way, in order.
func (p *pair) sent(t *testing.T, qps ...int) {
	t.Helper()
	at := 0
	var got []wire.QPN
	for _, end := range p.a.link.ends {
		got = append(got, destQP(p.a.link.buf[at:]))
		at = end
	}
	ok := len(got) == len(qps)
	for i := 0; ok && i < len(qps); i++ {
		ok = got[i] == p.b.qps[qps[i]].Num()
	}
	if !ok {
		t.Fatalf("%d requests under way to %v, want those of %v", len(got), got, qps)
	}
}

// answer has every outstanding request answered.
func (p *pair) answer() {
	p.a.link.deliver(&p.spare)
	p.b.link.deliver(&p.spare)
}

// Further QPs wait for the acknowledgements of active ones and follow them in
// order. An active QP may send more.
func TestAdmissionWaits(t *testing.T) {
	p, write := newActivePair(t, 6)
	write(0, 1, 2, 3, 4, 5, 1, 3)
	p.sent(t, 0, 1, 1)
	p.answer()
	p.sent(t, 2, 3, 3)
	p.answer()
	p.sent(t, 4, 5)
	p.answer()
	p.sent(t)
	write(5)
	p.sent(t, 5)
	p.answer()
	p.a.take(t, 9)
}

// Half of the active QPs must be done before others are admitted, together.
func TestAdmissionOfManyAtOnce(t *testing.T) {
	p, write := newActivePair(t, 8)
	p.a.dev.admission.limit = 4
	write(0, 1, 2, 3, 4, 5)
	p.a.link.deliver(&p.spare)
	acks := p.b.link
	all := append([]wire.Datagram(nil), acks.queue...)
	at := 0
	for i := range all {
		all[i].Data, at = acks.buf[at:acks.ends[i]], acks.ends[i]
	}
	p.a.dev.Receive(all[:1])
	p.sent(t)
	write(6) // there is room, but other QPs were first
	p.sent(t)
	p.a.dev.Receive(all[1:2])
	p.sent(t, 4, 5)
	p.a.dev.Receive(all[2:])
	p.sent(t, 4, 5, 6)
}

// Peers that do not answer delay the others for a short time only, and once.
func TestAdmissionWithoutAnswers(t *testing.T) {
	p, write := newActivePair(t, 6)
	write(0, 1)
	p.a.link = &pipe{to: p.b.dev}
	p.a.dev.cfg.Link = p.a.link // what was sent gets lost
	p.clock.now += 1000
	write(2, 3, 4)
	p.sent(t)
	if want := p.clock.now + admissionDelay; p.clock.armed != want {
		t.Fatalf("the clock is armed for %d, want %d", p.clock.armed, want)
	}
	p.clock.now += admissionDelay - 1
	p.a.dev.Expire()
	p.sent(t)
	p.clock.now++
	p.a.dev.Expire()
	p.sent(t, 2, 3, 4)
	p.pump()
	p.a.take(t, 3)
	write(5)
	p.sent(t, 5) // the two that wait no longer count as active
	p.clock.now += Time(ackTimeout(14))
	p.a.dev.Expire()
	p.pump()
	p.a.take(t, 3)
	if in := p.a.dev.admission.active; in != 0 {
		t.Errorf("%d are in, and nothing is under way", in)
	}
}

// A QP that ends is active no longer, and leaves the waiting list.
func TestAdmissionAndDestroyedQPs(t *testing.T) {
	for name, end := range map[string]func(*QP) error{
		"ERR":     func(q *QP) error { return q.Modify(&QPAttr{State: QPErr}, QPAttrState) },
		"RESET":   func(q *QP) error { return q.Modify(&QPAttr{State: QPReset}, QPAttrState) },
		"destroy": (*QP).Destroy,
	} {
		t.Run(name, func(t *testing.T) {
			p, write := newActivePair(t, 6)
			write(0, 1, 2, 3, 4)
			p.a.link.queue, p.a.link.ends, p.a.link.buf = nil, nil, nil // lost
			for _, i := range []int{2, 0, 1} {
				must.OK(t, end(p.a.qps[i]))
			}
			// The next thread sends for the QPs that were admitted.
			write(5)
			p.sent(t, 3, 4)
			p.answer()
			p.sent(t, 5)
			p.answer()
			if a := &p.a.dev.admission; a.active != 0 || !a.waiting.empty() || !p.a.dev.runQueue.empty() {
				t.Errorf("%d are in, the line is empty: %v", a.active, a.waiting.empty())
			}
		})
	}
}

// Messages within a device, and unreliable ones, wait for nothing.
func TestAdmissionIsForOtherDevices(t *testing.T) {
	d := newLocalPair(t, 1, 8192, 1024, nil)
	d.dev.admission.limit = 0
	_, err := d.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(),
		SGL: []SGE{{Length: 8, LKey: d.mr.LKey()}}}})
	must.OK(t, err)
	d.take(t, 1)

	b := newBench(t, QPUC, nil)
	b.dev.admission.limit = 0
	b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
	_, err = b.qp.PostSend([]SendWR{{Op: WRWrite, RKey: 1, SGL: []SGE{{Addr: remoteVA, Length: 8, LKey: b.remote.LKey()}}}})
	b.must(err)
	if len(b.link.bursts) != 1 {
		t.Errorf("%d bursts sent", len(b.link.bursts))
	}
}

// In a steady state the waiting list allocates nothing.
func TestAdmissionAllocatesNothing(t *testing.T) {
	p, write := newActivePair(t, 6)
	wcs := make([]WC, 8)
	wr := []SendWR{{Op: WRWrite, Flags: SendSignaled, RKey: p.b.mr.RKey(), SGL: []SGE{{Length: 8, LKey: p.a.mr.LKey()}}}}
	write(0)
	once := func() {
		for _, q := range p.a.qps {
			if _, err := q.PostSend(wr); err != nil {
				t.Fatal(err)
			}
		}
		p.pump()
		if n, err := p.a.cq.Poll(wcs); n < 6 || err != nil {
			t.Fatal(n, err)
		}
	}
	for range 2 * 64 {
		once()
	}
	if n := testing.AllocsPerRun(200, once); n >= 1 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
}

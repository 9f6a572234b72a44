package mlx5

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func (q *queue) push(wcs ...rxe.WC) int { return q.mem.Ring().(*cqRing).PushAll(wcs) }

func completion(at uint16) rxe.WC { return rxe.WC{ID: newID(0, 5, opSend, at), QPN: wire.QPN(77)} }

// TestRounds: the owner bit changes with each round of the queue, for both sizes of completions. A
// queue that the program does not poll takes as many as it has room for, and no more.
func TestRounds(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for _, size := range []int{64, 128} {
		q := p.newCQ(8, size, false)
		sent, got := uint16(0), uint16(0)
		for round := range 10 {
			for {
				wcs := []rxe.WC{completion(sent), completion(sent + 1), completion(sent + 2)}
				n := q.push(wcs[:round%3+1]...)
				sent += uint16(n)
				if n < round%3+1 {
					break
				}
			}
			if w := q.mem.Waiting(); w != 8 {
				t.Fatalf("%d bytes: %d wait in a full queue of 8", size, w)
			}
			for c, ok := q.poll(); ok; c, ok = q.poll() {
				if c.counter != got || c.op != cqeReq || c.user != 5 || c.qpn != 77 {
					t.Fatalf("%d bytes: completion %d: %+v", size, got, c)
				}
				got++
			}
			if got != sent {
				t.Fatalf("%d bytes: %d of %d polled", size, got, sent)
			}
		}
	}
}

// TestConsumerLies: a consumer's index that has passed the producer is a full queue.
func TestConsumerLies(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	q := p.newCQ(8, 64, false)
	if n := q.push(make([]rxe.WC, 8)...); n != 8 {
		t.Fatal(n)
	}
	for _, cons := range []uint32{9, 0xffffff, 0xffffffff} {
		p.put32(q.rec, cons)
		if n := q.push(completion(1)); n != 0 {
			t.Errorf("consumer %#x: %d written", cons, n)
		}
	}
	p.put32(q.rec, 8)
	if n := q.push(completion(1)); n != 1 {
		t.Error("an honest consumer has no room")
	}
}

// TestErrors: each status has the syndrome that libmlx5 makes it of again.
func TestErrors(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	q := p.newCQ(64, 64, false)
	want := map[rxe.WCStatus]uint8{
		rxe.WCLocLenErr: 1, rxe.WCLocQPOpErr: 2, rxe.WCLocProtErr: 4, rxe.WCFlushErr: 5, rxe.WCMWBindErr: 6, rxe.WCBadRespErr: 0x10,
		rxe.WCLocAccessErr: 0x11, rxe.WCRemInvReqErr: 0x12, rxe.WCRemAccessErr: 0x13, rxe.WCRemOpErr: 0x14, rxe.WCRetryExcErr: 0x15,
		rxe.WCRNRRetryErr: 0x16, rxe.WCRemAbortErr: 0x22,
	}
	for s := rxe.WCLocLenErr; s <= rxe.WCGeneralErr; s++ {
		for _, kind := range []uint64{0, idReceive} {
			if q.push(rxe.WC{ID: newID(kind, 5, 0, 9), Status: s, VendorErr: 0x42}) != 1 {
				t.Fatal("no room")
			}
			c := q.one()
			op := uint8(cqeReqErr)
			if kind != 0 {
				op = cqeRespErr
			}
			if c.syndrome != want[s] || c.op != op || c.counter != 9 || c.vendor != 0x42 {
				t.Errorf("%v: %+v", s, c)
			}
		}
	}
}

// TestArm: an event comes for a completion that the program may not have seen when it asked, once
// for each sequence number.
func TestArm(t *testing.T) {
	type step struct {
		do   string // push, push solicited, poll, arm, arm solicited, event
		want int32  // events so far
	}
	for name, steps := range map[string][]step{
		"not armed":           {{"push", 0}, {"push solicited", 0}},
		"armed before":        {{"arm", 0}, {"push", 1}, {"push", 1}},
		"armed after":         {{"push", 0}, {"arm", 1}},
		"polled before":       {{"push", 0}, {"poll", 0}, {"arm", 0}, {"push", 1}},
		"armed twice":         {{"arm", 0}, {"arm", 0}, {"push", 1}, {"arm", 1}, {"event", 1}, {"arm", 1}, {"push", 2}},
		"asked before polled": {{"arm", 0}, {"push", 1}, {"event", 1}, {"arm", 1}, {"poll", 1}, {"push", 2}},
		"next event":          {{"arm", 0}, {"push", 1}, {"event", 1}, {"poll", 1}, {"arm", 1}, {"push", 2}},
		"solicited":           {{"arm solicited", 0}, {"push", 0}, {"push solicited", 1}},
		"solicited before":    {{"push solicited", 0}, {"push", 0}, {"arm solicited", 1}},
		"solicited, polled":   {{"push solicited", 0}, {"poll", 0}, {"push", 0}, {"arm solicited", 0}, {"push solicited", 1}},
		"wider while waiting": {{"arm solicited", 0}, {"push", 0}, {"arm", 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, rxedev.New(t))
			p.ctx.poller.stop() // the test looks itself
			q := p.newCQ(64, 64, true)
			for i, s := range steps {
				switch s.do {
				case "push":
					q.push(completion(0))
				case "push solicited":
					wc := completion(0)
					wc.Solicited = true
					q.push(wc)
				case "poll":
					q.one()
				case "arm", "arm solicited":
					q.arm(s.do == "arm solicited")
					q.mem.Ring().(*cqRing).lookAtArm()
				case "event":
					q.seq++
				}
				if n := q.events.Load(); n != s.want {
					t.Fatalf("step %d (%s): %d events, want %d", i, s.do, n, s.want)
				}
			}
		})
	}
}

// TestResize: what waits is copied as libmlx5 does it, up to the mark, and what comes later is
// behind it. A queue that is too short is refused.
func TestResize(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for _, size := range []int{64, 128} {
		q := p.newCQ(8, size, false)
		next, polled := uint16(0), uint16(0)
		push := func(n int) {
			for range n {
				if q.push(completion(next)) != 1 {
					t.Fatalf("%d bytes: no room for completion %d", size, next)
				}
				next++
			}
		}
		poll := func(n int) {
			for range n {
				if c := q.one(); c.counter != polled || c.op != cqeReq {
					t.Fatalf("%d bytes: completion %d: %+v", size, polled, c)
				}
				polled++
			}
		}
		for _, entries := range []int{16, 8, 32, 8} {
			push(5)
			poll(2)
			must.OK(t, q.resize(entries))
			poll(1)
			push(1)
			poll(3)
			q.none()
		}
		push(6)
		if err := q.resize(4); err == nil {
			t.Errorf("%d bytes: six completions fit into three", size)
		}
		push(2)
		if err := q.resize(16); err == nil {
			t.Errorf("%d bytes: a full queue has room for the mark", size)
		}
		poll(8)
	}
}

// resize is mlx5_resize_cq.
func (q *queue) resize(entries int) error {
	to := q.newBuf(entries)
	u := ask(q.p, ResizeCQReq{BufAddr: to, CQESize: uint16(q.size)})
	if err := q.mem.CheckResize(u, uint32(entries-1)); err != nil {
		return err
	}
	if err := q.mem.Resize(u, uint32(entries-1)); err != nil {
		return err
	}
	for i := q.cons; ; i++ {
		from := q.p.bytes(q.buf+uint64(i%q.entries)*uint64(q.size), q.size)
		if from[q.size-1]>>4 == cqeResize {
			break
		}
		at := i + 1
		b := q.p.bytes(to+uint64(at%uint32(entries))*uint64(q.size), q.size)
		copy(b, from)
		b[q.size-1] = b[q.size-1]&^1 | uint8(at/uint32(entries)&1)
	}
	q.buf, q.entries, q.cons = to, uint32(entries), q.cons+1
	return nil
}

// TestRefusedCQs: a completion queue that the device does not offer is refused.
func TestRefusedCQs(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for name, req := range map[string]CreateCQReq{
		"size":        {CQESize: 32},
		"compression": {CQESize: 64, CQECompEn: 1},
		"padding":     {CQESize: 64, Flags: cqFlagPad},
	} {
		if _, err := p.ctx.NewCQ(ask(p, req), provider.CQRequest{Entries: 7}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := p.ctx.NewCQ(ask(p, CreateCQReq{CQESize: 64}), provider.CQRequest{Entries: 7, Flags: 1 << 7}); err != unix.EOPNOTSUPP {
		t.Errorf("flags: %v", err)
	}
	if _, err := p.ctx.NewCQ(&udata{p: p, req: make([]byte, 8)}, provider.CQRequest{Entries: 7}); err == nil {
		t.Error("a request without a place is taken")
	}
}

// TestModeration: an event waits for so many completions, and no longer than the program wants.
func TestModeration(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	cq := p.newCQ(64, 64, true)
	q := p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
	q.connect(q)
	mod := cq.mem.(provider.Moderated)
	if err := mod.Moderate(1, maxCQPeriod+1); err != unix.ERANGE {
		t.Errorf("a period that is too long: %v", err)
	}
	complete := func(n int) {
		for range n {
			q.post(opNop, signaled, 0)
			cq.one()
		}
	}
	arm := func() { cq.ask(cq.seq&3<<28 | cq.cons&0xffffff) }
	must.OK(t, mod.Moderate(3, 0))
	arm()
	if complete(2); cq.events.Load() != 0 {
		t.Fatal("an event after two completions of three")
	}
	if complete(1); cq.events.Load() != 1 {
		t.Fatalf("%d events after three completions", cq.events.Load())
	}

	must.OK(t, mod.Moderate(1000, 2000))
	cq.seq++
	arm()
	q.post(opNop, signaled, 0)
	must.Eventually(t, "the event comes after 2 ms", func() bool { return cq.events.Load() == 2 })
	cq.one()

	must.OK(t, mod.Moderate(1000, 0))
	cq.seq++
	arm()
	if complete(1); cq.events.Load() != 2 {
		t.Fatal("an event after one completion of a thousand")
	}
	must.OK(t, mod.Moderate(0, 0)) // what has waited comes now
	if cq.events.Load() != 3 {
		t.Fatal("no event when events need not wait any more")
	}
}

// TestBehind: what the program has polled until the look does not wait any more, and what came
// after Behind does not count.
func TestBehind(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	q := a.send.mem.(*completionQueue)
	send := func() {
		b.receive(b.piece(0, 8))
		a.post(opSend, signaled, 0, a.piece(0, 8))
	}
	if n := q.Behind()(); n != 0 {
		t.Errorf("%d completions of an unused queue", n)
	}
	send()
	send()
	look := q.Behind()
	send()
	if n := look(); n != 2 {
		t.Errorf("%d of 2 completions are not polled", n)
	}
	for want := 1; want >= 0; want-- {
		if _, ok := a.send.poll(); !ok {
			t.Fatal("no completion")
		}
		if n := look(); n != want {
			t.Errorf("%d completions are not polled, want %d", n, want)
		}
	}
	a.send.poll()
	if n := look(); n != 0 {
		t.Errorf("the program has polled more than there was, and %d are not polled", n)
	}
}

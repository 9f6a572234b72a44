package mlx5

import (
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

func state(t *testing.T, q *pair) rxe.QPState {
	t.Helper()
	a, _, err := q.qp.Query()
	must.OK(t, err)
	return a.State
}

// scribbled returns how many queues said what cannot be, as the device counts them.
func scribbled(q *pair) uint64 {
	for _, c := range q.dev.Counters() {
		if c.Name == "queues_scribbled" {
			return c.Value
		}
	}
	return 0
}

// TestHostileSends: a request or a record that cannot be right fails the queue pair, and nobody
// else. A request that is only malformed says so in its completion.
func TestHostileSends(t *testing.T) {
	corrupt := func(off int, b byte) func(q *pair) {
		return func(q *pair) {
			at := q.put(opSend, signaled, 0, q.piece(0, 8))
			q.bytes(q.sq+uint64(at)*blockSize+uint64(off), 1)[0] = b
			q.doorbell()
		}
	}
	onlyMalformed := []string{"operation", "inline data", "atomic of a list", "atomic inline", "READ inline", "no remote segment",
		"more than 2 GiB", "key of a region", "short change", "unknown window"}
	for name, do := range map[string]func(q *pair){
		"index":              corrupt(2, 9),
		"queue pair":         corrupt(6, 0xff),
		"length 0":           corrupt(7, 0),
		"length behind":      corrupt(7, 63), // of a request that was not posted
		"operation":          corrupt(3, 0x2f),
		"inline data":        corrupt(16, 0xff),
		"record far ahead":   func(q *pair) { q.posted += sqBlocks + 1; q.doorbell() },
		"record backwards":   func(q *pair) { q.posted--; q.doorbell() },
		"record of nonsense": func(q *pair) { q.posted = 0x8000; q.doorbell() },
		"no memory":          func(q *pair) { q.mem.(*queuePair).send.buf = 1; q.doorbell() },
		"no record":          func(q *pair) { q.mem.(*queuePair).send.record = 1; q.doorbell() },
		"atomic of a list":   func(q *pair) { q.post(opFetchAdd, 0, 0, q.remote(0), seg(uint64(1), uint64(0)), q.piece(0, 16)) },
		"atomic inline": func(q *pair) {
			q.post(opFetchAdd, 0, 0, q.remote(0), seg(uint64(1), uint64(0)), inlined(make([]byte, 8)))
		},
		"READ inline":       func(q *pair) { q.post(opRead, 0, 0, q.remote(0), inlined([]byte("x"))) },
		"no remote segment": func(q *pair) { q.post(opWrite, 0, 0) },
		"more than 2 GiB":   func(q *pair) { q.post(opSend, 0, 0, q.piece(0, 0), q.piece(0, 8)) },
		"key of a region":   func(q *pair) { q.post(opUMR, 0, 0, make([]byte, umrCtrlSize), make([]byte, mkeySize)) },
		"short change":      func(q *pair) { q.post(opUMR, 0, 0, make([]byte, 16)) },
		"unknown window":    func(q *pair) { q.post(opUMR, 0, 0x12345678, q.window(1, dataAt, 8, true)...) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := two(t, rxe.QPRC)
			do(a)
			if s := state(t, a); s != rxe.QPErr {
				t.Errorf("the queue pair is in %v", s)
			}
			if s := state(t, b); s != rxe.QPRTS {
				t.Errorf("its peer is in %v", s)
			}
			if n := scribbled(a); (n == 0) != slices.Contains(onlyMalformed, name) {
				t.Errorf("%d queues are scribbled", n)
			}
			for c, ok := a.send.poll(); ok; c, ok = a.send.poll() {
				if c.op != cqeReqErr {
					t.Errorf("a completion without an error: %+v", c)
				}
			}
		})
	}
}

// TestHostileReceives: so does a receive queue.
func TestHostileReceives(t *testing.T) {
	for name, do := range map[string]func(q *pair){
		"record far ahead": func(q *pair) { q.put32(q.rec, rqEntries+1) },
		"no memory":        func(q *pair) { q.mem.(*queuePair).recv.buf = 1; q.put32(q.rec, 1) },
		"more than 4 GiB": func(q *pair) {
			q.receive(q.piece(0, 1<<31-1), q.piece(0, 1<<31-1), q.piece(0, 1<<31-1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := two(t, rxe.QPRC)
			do(b)
			a.post(opSend, signaled, 0, inlined([]byte("x")))
			if s := state(t, b); s != rxe.QPErr {
				t.Errorf("the receiver is in %v", s)
			}
			if n := scribbled(b); (n == 0) != (name == "more than 4 GiB") {
				t.Errorf("%d queues are scribbled", n)
			}
			if c := a.send.one(); c.op != cqeReqErr || c.syndrome != 0x14 {
				t.Errorf("the sender sees %+v", c)
			}
		})
	}
}

// TestUnmappedCompletions: a completion queue without memory is in error, and so are its queue
// pairs.
func TestUnmappedCompletions(t *testing.T) {
	a, _ := two(t, rxe.QPRC)
	a.send.mem.Ring().(*cqRing).buf = 1
	a.post(opNop, signaled, 0)
	if s := state(t, a); s != rxe.QPErr {
		t.Errorf("the queue pair is in %v", s)
	}
}

// TestDoorbells: the poller finds each store, in either half of a register and at either mapping,
// of several queue pairs at one register too. Nonsense in a register costs a look. The device
// chooses the registers, or the program names pages of them.
func TestDoorbells(t *testing.T) {
	t.Run("given", func(t *testing.T) {
		p := newProgramOf(t, rxedev.New(t), 0)
		doorbellsFound(t, p, uarPages*registersPerPage+5, func(int) {})
		if r := p.ctx.doorbells.given[0]; len(r.qps) != 0 {
			t.Error("a queue pair has the first register")
		}
		if r := p.ctx.doorbells.given[1]; len(r.qps) != 2 {
			t.Errorf("the second register has %d queue pairs", len(r.qps))
		}
	})
	t.Run("named", func(t *testing.T) {
		p := newProgram(t, rxedev.New(t))
		p.sharesUAR = true
		doorbellsFound(t, p, 5, func(i int) {
			if i%2 == 0 {
				p.uar = must.Get[*uar](t)(p.ctx.newUAR(uarTypeBF))
			}
		})
	})
}

func doorbellsFound(t *testing.T, p *program, n int, before func(i int)) {
	var all []*pair
	for i := range n {
		before(i)
		cq := p.newCQ(64, 64, false)
		q := p.newQPOn(rxe.QPRC, uint32(i), cq, cq, nil)
		q.connect(q)
		all = append(all, q)
	}
	for i, q := range all {
		words := q.mem.(*queuePair).register.words
		q.put(opNop, signaled, 0)
		q.put32(q.rec+4, uint32(q.posted))
		p.ring(words[i%len(words)])
		must.Eventually(t, "the doorbell is taken", func() bool { return q.send.mem.Waiting() == 1 })
	}
	for i := range 4096 / 8 {
		p.ring(word{all[0].mem.(*queuePair).register.words[0].page, i * 8})
	}
}

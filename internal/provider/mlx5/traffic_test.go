package mlx5

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestOperations: each operation does what it says, and its completions name the request as libmlx5
// looks for it. That is by the user index of the queue pair, and the index in the queue.
func TestOperations(t *testing.T) {
	const from, to = 0, 4096 // of the data
	fill := func(q *pair) []byte {
		b := q.bytes(dataAt+from, 256)
		rxedev.Fill(b, 3)
		return b
	}
	tests := []struct {
		name     string
		op       uint8
		segs     func(q *pair) [][]byte
		imm      uint32
		received cqe // at the peer, if op is not 0
		bytes    uint32
		check    func(q *pair) bool
	}{
		{name: "SEND", op: opSend, segs: func(q *pair) [][]byte { return [][]byte{q.piece(from, 100)} },
			received: cqe{op: cqeRespSend, bytes: 100}, bytes: 100,
			check: func(q *pair) bool { return bytes.Equal(q.bytes(dataAt+to, 100), fill(q)[:100]) }},
		{name: "SEND of a list", op: opSendImm, imm: 0x01020304,
			segs:     func(q *pair) [][]byte { return [][]byte{q.piece(from, 10), q.piece(from+20, 30)} },
			received: cqe{op: cqeRespSendImm, bytes: 40, imm: 0x01020304}, bytes: 40,
			check: func(q *pair) bool {
				return bytes.Equal(q.bytes(dataAt+to, 40), append(append([]byte(nil), fill(q)[:10]...), fill(q)[20:50]...))
			}},
		{name: "SEND inline", op: opSend, segs: func(*pair) [][]byte { return [][]byte{inlined([]byte("inline"))} },
			received: cqe{op: cqeRespSend, bytes: 6}, bytes: 6,
			check: func(q *pair) bool { return string(q.bytes(dataAt+to, 6)) == "inline" }},
		{name: "SEND of inline data and a list", op: opSend,
			segs: func(q *pair) [][]byte {
				return [][]byte{inlined([]byte("head")), q.piece(from, 10), inlined([]byte("tail"))}
			},
			received: cqe{op: cqeRespSend, bytes: 18}, bytes: 18,
			check: func(q *pair) bool {
				return string(q.bytes(dataAt+to, 18)) == "head"+string(fill(q)[:10])+"tail"
			}},
		{name: "SEND of nothing", op: opSend, segs: func(*pair) [][]byte { return nil }, received: cqe{op: cqeRespSend},
			check: func(*pair) bool { return true }},
		{name: "WRITE", op: opWrite, segs: func(q *pair) [][]byte { return [][]byte{q.remote(to), q.piece(from, 200)} }, bytes: 200,
			check: func(q *pair) bool { return bytes.Equal(q.bytes(dataAt+to, 200), fill(q)[:200]) }},
		{name: "WRITE with immediate data", op: opWriteImm, imm: 9,
			segs:     func(q *pair) [][]byte { return [][]byte{q.remote(to), q.piece(from, 20)} },
			received: cqe{op: cqeRespWriteIm, bytes: 20, imm: 9}, bytes: 20,
			check: func(q *pair) bool { return bytes.Equal(q.bytes(dataAt+to, 20), fill(q)[:20]) }},
		{name: "READ", op: opRead, segs: func(q *pair) [][]byte { return [][]byte{q.remote(from), q.piece(to, 50)} }, bytes: 50,
			check: func(q *pair) bool { return bytes.Equal(q.bytes(dataAt+to, 50), fill(q)[:50]) }},
		{name: "compare and swap", op: opCompSwap, bytes: 8,
			segs: func(q *pair) [][]byte {
				binary.LittleEndian.PutUint64(q.bytes(dataAt+512, 8), 7)
				return [][]byte{q.remote(512), seg(uint64(70), uint64(7)), q.piece(to, 8)}
			},
			check: func(q *pair) bool {
				return binary.LittleEndian.Uint64(q.bytes(dataAt+512, 8)) == 70 && binary.LittleEndian.Uint64(q.bytes(dataAt+to, 8)) == 7
			}},
		{name: "fetch and add", op: opFetchAdd, bytes: 8,
			segs: func(q *pair) [][]byte {
				binary.LittleEndian.PutUint64(q.bytes(dataAt+512, 8), 7)
				return [][]byte{q.remote(512), seg(uint64(70), uint64(0)), q.piece(to, 8)}
			},
			check: func(q *pair) bool { return binary.LittleEndian.Uint64(q.bytes(dataAt+512, 8)) == 77 }},
		{name: "NOP", op: opNop, segs: func(*pair) [][]byte { return nil }, check: func(*pair) bool { return true }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, b := two(t, rxe.QPRC)
			fill(a)
			// Twice around the queue, so that requests wrap at its end.
			for range 2 * sqBlocks {
				if test.received.op != 0 {
					b.receive(a.piece(to, 64), a.piece(to+64, 64))
				}
				clear(a.bytes(dataAt+to, 256))
				at := a.post(test.op, signaled, test.imm, test.segs(a)...)
				want := cqe{wqeOp: test.op, qpn: uint32(a.qp.Num()), user: 0x101, counter: at, bytes: test.bytes}
				if got := a.send.one(); got != want {
					t.Fatalf("completion %+v, want %+v", got, want)
				}
				if !test.check(a) {
					t.Fatal("the operation did something else")
				}
				if test.received.op == 0 {
					b.recv.none()
					continue
				}
				want = test.received
				want.qpn, want.user, want.counter = uint32(b.qp.Num()), 0xabcdef, b.placed-1
				want.flags = uint32(a.qp.Num())
				if got := b.recv.one(); got != want {
					t.Fatalf("received %+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestUnsignaled: a request without a completion has none, and the next one has.
func TestUnsignaled(t *testing.T) {
	a, b := two(t, rxe.QPUC)
	for range 2 {
		b.receive(a.piece(0, 64))
	}
	a.put(opSend, 0, 0, a.piece(0, 8))
	at := a.put(opSend, signaled|flagsSolicited, 0, a.piece(0, 8))
	a.doorbell()
	if c := a.send.one(); c.counter != at || c.op != cqeReq {
		t.Errorf("%+v", c)
	}
	a.send.none()
	if c := b.recv.one(); c.solicited {
		t.Errorf("first: %+v", c)
	}
	if c := b.recv.one(); !c.solicited {
		t.Errorf("second: %+v", c)
	}
}

// address is an extended address vector to the device itself (mlx5_create_ah, set_datagram_seg).
func address(qpn, qkey uint32) []byte {
	b := make([]byte, avSize)
	copy(b, seg(qkey, uint32(0), qpn|1<<31))
	b[avHops] = 64
	copy(b[avRGID:], []byte{10: 0xff, 11: 0xff, 12: 10, 13: 0, 14: 0, 15: 1})
	return b
}

// TestDatagrams: an address in the request finds the peer, and the receiver learns the sender.
func TestDatagrams(t *testing.T) {
	a, b := two(t, rxe.QPUD)
	for range 4 * sqBlocks {
		b.receive(a.piece(4096, 100))
		copy(a.bytes(dataAt, 4), "gram")
		a.post(opSendImm, signaled, 5, address(uint32(b.qp.Num()), rxedev.QKey), inlined([]byte("data")), a.piece(0, 4))
		if c := a.send.one(); c.op != cqeReq || c.wqeOp != opSendImm {
			t.Fatalf("%+v", c)
		}
		c := b.recv.one()
		grh, sl, from := c.flags>>28&3, c.flags>>24&0xf, c.flags&0xffffff
		if c.op != cqeRespSendImm || c.bytes != 48 || c.imm != 5 || grh != 1 || sl != rxe.SLRoCEv2IPv4 || from != uint32(a.qp.Num()) {
			t.Fatalf("%+v", c)
		}
		if got := string(b.bytes(dataAt+4096+40, 8)); got != "datagram" {
			t.Fatalf("received %q", got)
		}
	}
	// The short form has no room for a GID.
	a.post(opSend, signaled, 0, address(uint32(b.qp.Num()), rxedev.QKey)[:16], a.piece(0, 8))
	if c := a.send.one(); c.op != cqeReqErr || c.syndrome != 0x02 {
		t.Errorf("%+v", c)
	}
}

// window is a change of a window's key (set_bind_wr).
func (q *pair) window(newKey uint32, addr, length uint64, typ2 bool) [][]byte {
	mask := uint64(1<<29 | 1<<13)
	if typ2 {
		mask |= 1 << 14
	}
	ctrl, mkey := make([]byte, umrCtrlSize), make([]byte, mkeySize)
	ctrl[0] = 1<<7 | 1<<4
	if length == 0 {
		mkey[0] = 1 << 6
	} else {
		mask |= 1<<0 | 1<<6 | 0xf<<18
		mkey[2] = 1<<5 | 1<<4
		copy(mkey[16:], seg(addr, length))
	}
	copy(ctrl[8:], seg(mask))
	copy(mkey[4:], seg(uint32(q.qp.Num())<<8|newKey&0xff))
	if length == 0 {
		return [][]byte{ctrl, mkey}
	}
	klm := make([]byte, klmSize)
	copy(klm, seg(uint32(length), uint32(q.mr.LKey()), addr))
	return [][]byte{ctrl, mkey, klm}
}

// TestWindow: a bind gives the peer access, and a local invalidation takes it away. Both are
// changes of a key to libmlx5.
func TestWindow(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	for range 3 * sqBlocks {
		old := uint32(a.mw.RKey())
		key := old&^0xff | (old+1)&0xff
		a.post(opUMR, signaled, old, a.window(key, dataAt, 64, true)...)
		if c := a.send.one(); c.op != cqeReq || c.wqeOp != opUMR {
			t.Fatalf("bind: %+v", c)
		}
		if uint32(a.mw.RKey()) != key {
			t.Fatalf("key %#x, want %#x", a.mw.RKey(), key)
		}
		b.post(opWrite, signaled, 0, seg(uint64(dataAt), key, uint32(0)), inlined([]byte("window")))
		if c := b.send.one(); c.op != cqeReq || string(a.bytes(dataAt, 6)) != "window" {
			t.Fatalf("write: %+v", c)
		}
		a.post(opUMR, signaled, key, a.window(0, 0, 0, true)...)
		if c := a.send.one(); c.op != cqeReq {
			t.Fatalf("invalidation: %+v", c)
		}
	}
	b.post(opWrite, signaled, 0, seg(uint64(dataAt), uint32(a.mw.RKey()), uint32(0)), inlined([]byte("window")))
	if c := b.send.one(); c.op != cqeReqErr || c.syndrome != 0x13 || c.vendor != 0x88 {
		t.Errorf("after the invalidation: %+v", c)
	}
}

// TestSendInvalidates: SEND with invalidate tells the receiver which key it took.
func TestSendInvalidates(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	old := uint32(a.mw.RKey())
	key := old&^0xff | (old+1)&0xff
	a.post(opUMR, signaled, old, a.window(key, dataAt, 64, true)...)
	a.send.one()
	a.receive(a.piece(4096, 64))
	b.post(opSendInv, signaled, key, inlined([]byte("x")))
	if c := a.recv.one(); c.op != cqeRespSendInv || c.imm != key {
		t.Errorf("%+v", c)
	}
}

// TestReset: after RESET both queues begin at 0 again, whatever the record says until libmlx5
// clears it.
func TestReset(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	for round := range 3 {
		for range 5 {
			b.receive(a.piece(4096, 64))
			a.post(opSend, signaled, 0, inlined([]byte("x")))
			a.send.one()
			b.recv.one()
		}
		if a.posted != 5 || b.placed != 5 {
			t.Fatalf("round %d: %d sent, %d received", round, a.posted, b.placed)
		}
		for _, q := range []*pair{a, b} {
			q.to(rxe.QPReset)
			q.ring(q.mem.(*queuePair).register.words[0])
			must.OK(t, q.mem.Doorbell())
			// the look that takes it is over when the next but one begins: none works beside the
			// test
			looks := &q.ctx.poller.looks
			rung := looks.Load()
			must.Eventually(t, "the store is taken", func() bool { return looks.Load() >= rung+2 })
		}
		a.connect(b)
		b.connect(a)
	}
}

// TestEnding: what was posted before the queue pair ends goes out, although the thread that looks
// for doorbells has not seen it.
func TestEnding(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	b.receive(b.piece(0, 64))
	a.put(opSend, signaled, 0, inlined([]byte("last words")))
	a.put32(a.rec+4, uint32(a.posted)) // and no store that the thread would find
	a.send.none()
	// Another thread is at work, which takes none of it.
	work := &a.mem.(*queuePair).send.doorbells
	work.Store(1)
	ended := make(chan struct{})
	go func() { a.mem.Ending(); close(ended) }()
	must.Eventually(t, "the end waits for the other thread", func() bool { return work.Load() > 2 })
	work.Store(0)
	<-ended
	if c := b.recv.one(); c.op != cqeRespSend {
		t.Errorf("received %+v", c)
	}
	a.send.one()
}

// TestFlush: in ERR everything that is posted completes as flushed, and what is posted later too.
func TestFlush(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	b.receive(a.piece(0, 8))
	b.to(rxe.QPErr)
	if c := b.recv.one(); c.op != cqeRespErr || c.syndrome != 0x05 || c.counter != 0 || c.vendor != 0xf9 {
		t.Errorf("receive: %+v", c)
	}
	for range 2 {
		at := b.post(opWrite, 0, 0, b.remote(0), inlined([]byte("x")))
		if c := b.send.one(); c.op != cqeReqErr || c.syndrome != 0x05 || c.counter != at || c.wqeOp != opWrite {
			t.Errorf("send: %+v", c)
		}
	}
}

package mlx5

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// known is an address space that can be recognized.
type known struct{ *simnet.Memory }

const identity = 0x5511

func (known) Identity() uint64 { return identity }

// orphaned is what the keeper sees of it.
type orphaned struct {
	mem *simnet.Memory
	id  uint64
}

func (o orphaned) Identity() uint64 { return o.id }
func (o orphaned) ReadAt(b []byte, addr int64) (int, error) {
	return len(b), o.mem.ReadV([]rxe.Span{{VA: uint64(addr), Buf: b}})
}
func (o orphaned) WriteAt(b []byte, addr int64) (int, error) {
	return len(b), o.mem.WriteV([]rxe.Span{{VA: uint64(addr), Buf: b}})
}

// newOrphan returns a program whose daemon has ended, as far as the keeper knows.
func newOrphan(t testing.TB) (p *program, flush func() (int, bool)) {
	t.Helper()
	p = newProgram(t, rxedev.New(t))
	p.space = known{p.mem}
	return p, func() (int, bool) { return FlushOrphan(memfd.File(p.ctx.FD()), orphaned{p.mem, identity}) }
}

// TestFlushOrphan: what waits in send and receive queues is completed with an error, in order, to
// the right completion queue, once. What has completed is not. More that the program posts then is
// completed the next time.
func TestFlushOrphan(t *testing.T) {
	p, flush := newOrphan(t)
	a, b := p.newQP(rxe.QPRC, 0x101), p.newQP(rxe.QPRC, 0x202)
	a.connect(b)
	b.connect(a)
	for range 3 * sqBlocks { // around all queues
		b.receive(p.piece(4096, 128))
		a.post(opSend, signaled, 0, inlined(make([]byte, 100))) // two blocks
		a.send.one()
		b.recv.one()
	}
	var sends, receives []uint16
	for range 2 {
		for i := range 3 {
			sends = append(sends, a.put(opSend, 0, 0, inlined(make([]byte, 30*(i+1)))))
			receives = append(receives, b.placed)
			b.receive(p.piece(4096, 64))
		}
		a.put32(a.rec+qpRecordSend, uint32(a.posted)) // nobody hears the doorbell
		if n, has := flush(); n != 6 || !has {
			t.Fatalf("%d completed, %t", n, has)
		}
		for _, want := range sends {
			c := a.send.one()
			if c.op != cqeReqErr || c.syndrome != 0x05 || c.counter != want || c.user != 0x101 || c.qpn != uint32(a.qp.Num()) || c.wqeOp != opSend {
				t.Errorf("%+v, want request %d", c, want)
			}
		}
		for _, want := range receives {
			if c := b.recv.one(); c.op != cqeRespErr || c.syndrome != 0x05 || c.counter != want || c.user != 0x202 || c.qpn != uint32(b.qp.Num()) {
				t.Errorf("%+v, want request %d", c, want)
			}
		}
		sends, receives = nil, nil
		if n, has := flush(); n != 0 || !has {
			t.Errorf("%d more, %t", n, has)
		}
		for _, q := range []*queue{a.send, a.recv, b.send, b.recv} {
			q.none()
		}
	}
	if n, has := FlushOrphan(memfd.File(p.ctx.FD()), orphaned{p.mem, identity + 1}); n != 0 || has {
		t.Errorf("of another address space: %d, %t", n, has)
	}
	a.mem.Free()
	b.put32(b.rec+qpRecordReceive, uint32(b.placed+1))
	if n, _ := flush(); n != 1 {
		t.Errorf("%d completed of the queue pair that is left", n)
	}
}

// TestFlushOrphanUnnoted: the daemon is killed when it has written completions and has not noted
// them. The program polls them, and fills its queues again. All that it posted then is completed,
// once.
func TestFlushOrphanUnnoted(t *testing.T) {
	for _, kept := range []int{0, 3} { // places of the send queue that the program does not fill
		p, flush := newOrphan(t)
		a, b := p.newQP(rxe.QPRC, 0x101), p.newQP(rxe.QPRC, 0x202)
		a.connect(b)
		b.connect(a)
		var notes [16 * labelSize]byte
		must.Get[int](t)(unix.Pread(p.ctx.FD(), notes[:], labelsAt))
		for range 4 {
			b.receive(p.piece(4096, 128))
			a.post(opSend, signaled, 0, inlined(make([]byte, 100))) // two blocks
			a.send.one()
			b.recv.one()
		}
		must.Get[int](t)(unix.Pwrite(p.ctx.FD(), notes[:], labelsAt))
		for range rqEntries {
			b.receive(p.piece(4096, 64))
		}
		for range sqBlocks - kept {
			a.put(opNop, 0, 0)
		}
		a.put32(a.rec+qpRecordSend, uint32(a.posted))
		if n, has := flush(); n != sqBlocks-kept+rqEntries || !has {
			t.Errorf("%d completed, %t", n, has)
		}
		for i := range sqBlocks - kept {
			if c := a.send.one(); c.syndrome != 0x05 || c.counter != uint16(8+i) {
				t.Errorf("%+v, want request %d", c, 8+i)
			}
		}
		if n := count(b.recv); n != rqEntries {
			t.Errorf("%d receives, want %d", n, rqEntries)
		}
		if n, _ := flush(); n != 0 {
			t.Errorf("%d more", n)
		}
	}
}

// TestFlushOrphanFull: a completion queue takes what it has room for, and the rest later. A queue
// pair that was reset has nothing. Queues of an open that ends stay known.
func TestFlushOrphanFull(t *testing.T) {
	for _, size := range []int{8, 4} {
		p, flush := newOrphan(t)
		cq := p.newCQ(8, 64, false)
		a := p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
		if size != 8 {
			buf := cq.newBuf(size)
			must.OK(t, cq.mem.Resize(ask(p, ResizeCQReq{BufAddr: buf, CQESize: 64}), uint32(size-1)))
			cq.buf, cq.entries = buf, uint32(size)
			cq.cons++ // libmlx5 takes the mark away
			p.put32(cq.rec, cq.cons)
		}
		a.connect(a)
		for range rqEntries {
			a.receive(p.piece(0, 8))
		}
		a.put(opNop, 0, 0)
		a.put32(a.rec+qpRecordSend, uint32(a.posted))
		got := 0
		for range rqEntries {
			n, _ := flush()
			if n > size {
				t.Fatalf("%d completions in a queue of %d", n, size)
			}
			got += count(cq)
		}
		if got != rqEntries+1 {
			t.Errorf("%d completions, want %d", got, rqEntries+1)
		}
		a.to(rxe.QPReset)
		if n, _ := flush(); n != 0 {
			t.Errorf("%d completions after a reset", n)
		}
		p.ctx.End()
		a.connect(a)
		a.receive(p.piece(0, 8))
		a.mem.Free()
		cq.mem.Free()
		if n, _ := flush(); n != 1 {
			t.Errorf("%d completions of an open that ends", n)
		}
	}
}

// FuzzFlushOrphan: whatever is in the labels, the queues and their records, the keeper ends, and
// does no more than the queues have room for.
func FuzzFlushOrphan(f *testing.F) {
	f.Add(uint16(0), []byte{0}, uint16(0), []byte{0})
	f.Add(uint16(unsafe.Offsetof(label{}.mask)), []byte{0xff, 0xff, 0xff, 0xff}, uint16(64), []byte{0, 0, 0, 9})
	f.Add(uint16(labelSize+int(sentAt)), []byte{1, 0}, uint16(0), []byte{0xff})
	f.Fuzz(func(t *testing.T, at uint16, labels []byte, off uint16, queues []byte) {
		p, flush := newOrphan(t)
		q := p.newQP(rxe.QPRC, 1)
		q.connect(q)
		q.receive(p.piece(0, 8))
		if _, err := unix.Pwrite(p.ctx.FD(), labels[:min(len(labels), 4*labelSize)], labelsAt+int64(at)%int64(4*labelSize)); err != nil {
			t.Fatal(err)
		}
		copy(p.mem.Data[off:], queues)
		before := len(p.mem.Data)
		if n, _ := flush(); n > 2*maxWQEBB {
			t.Errorf("%d completions", n)
		}
		if len(p.mem.Data) != before {
			t.Error("the memory has grown")
		}
	})
}

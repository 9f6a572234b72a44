package librxe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/uffd"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func testArena(t testing.TB) *arena {
	t.Helper()
	a, err := newArena(quota.New(quota.Cost{}), provider.NewOffsets())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.close(false) })
	return a
}

// client maps a ring as the program does.
func client(t testing.TB, a *arena, r interface{ info() (uint64, uint32) }) *librxeclient.Queue {
	t.Helper()
	off, size := r.info()
	return librxeclient.Map(t, a.fd(), off, size)
}

// TestArenaSealed: nothing that the program can do to its file takes pages from
// under the daemon.
func TestArenaSealed(t *testing.T) {
	a := testArena(t)
	r := must.Get[*cqRing](t)(newCQRing(a, 100))
	c := client(t, a, r)
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", a.fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, size := range []int64{0, pageSize, provider.OffsetsEnd + 1} {
		if err := own.Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("ftruncate to %d: %v, not EPERM", size, err)
		}
	}
	off, size := r.info()
	// A hole may be punched: zeroes, then; and the daemon's indices are its own.
	if !r.Push(&rxe.WC{ID: 1}) {
		t.Fatal("empty queue full")
	}
	if err := unix.Fallocate(int(own.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		int64(off), int64(size)); err != nil {
		t.Fatal(err)
	}
	if !r.Push(&rxe.WC{ID: 2}) {
		t.Fatal("queue of two full")
	}
	if got := c.Producer(); got != 2 {
		t.Errorf("producer %d after two completions", got)
	}
}

// TestArenaOffsets: no place is given out twice, and one freed is zero.
func TestArenaOffsets(t *testing.T) {
	a := testArena(t)
	seen := make(map[uint64]bool)
	for range 100 {
		r := must.Get[*cqRing](t)(newCQRing(a, 10))
		off, size := r.info()
		if seen[off] || off == 0 || off%pageSize != 0 || size%pageSize != 0 {
			t.Fatalf("place %#x of %#x bytes", off, size)
		}
		seen[off] = true
		c := client(t, a, r)
		r.Push(&rxe.WC{ID: 7})
		r.free()
		if c.Producer() != 0 || c.Mask() != 0 {
			t.Fatal("a freed queue still shows what was in it")
		}
		if r.Push(&rxe.WC{ID: 8}) {
			t.Fatal("a freed queue takes completions")
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(a.fd(), &st); err != nil {
		t.Fatal(err)
	}
	// One page each for the clients that looked at what was freed.
	if st.Blocks > 100*pageSize/512 {
		t.Errorf("%d blocks still allocated", st.Blocks)
	}
}

// TestArenaEnd: the end of an open does not depend on the file's lock, which the
// program holds by writing to its file from memory that does not answer.
func TestArenaEnd(t *testing.T) {
	page, answer := uffd.UnansweredPage(t)
	a := testArena(t)
	r := must.Get[*cqRing](t)(newCQRing(a, 10))
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", a.fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	var writer sync.WaitGroup
	writer.Go(func() { _, _ = unix.Write(int(own.Fd()), page[:8]) })
	a.end()
	r.free()
	a.close(false)
	answer()
	writer.Wait()
}

func TestArenaClose(t *testing.T) {
	a := testArena(t)
	cq := must.Get[*cqRing](t)(newCQRing(a, 10))
	rq := must.Get[*recvRing](t)(newRecvRing(a, 10, 1))
	sq := must.Get[*sendRing](t)(newSendRing(a, rxe.QPCap{MaxSendWR: 10}))
	a.close(false)
	a.close(false)
	if _, err := newCQRing(a, 10); !errors.Is(err, os.ErrClosed) {
		t.Errorf("queue in a closed arena: %v", err)
	}
	// Late calls find nothing.
	cq.Push(&rxe.WC{})
	rq.Pop(&rxe.RecvWQE{})
	rq.reset()
	sq.done(1)
	sq.reset()
	cq.free()
	rq.free()
	sq.free()
	if cq.Waiting()+rq.Len() != 0 {
		t.Error("something waits in a closed arena")
	}
}

// TestRingGeometry: slots and their size are rounded as rxe_queue_init does.
func TestRingGeometry(t *testing.T) {
	a := testArena(t)
	for _, tc := range []struct {
		entries     uint64
		size        int
		wantEntries int
		wantElem    uint32 // log2
	}{
		{0, 40, 0, 6},
		{1, 48, 1, 6},
		{2, 64, 3, 6},
		{3, 65, 3, 7},
		{4, 128, 7, 7},
		{127, 208, 127, 8},
		{128, 257, 255, 9},
	} {
		r := must.Get[ring](t)(newRing(a, tc.entries, tc.size))
		c := client(t, a, &r)
		if r.entries() != tc.wantEntries || c.Mask() != uint32(tc.wantEntries) || *c.Word(0) != tc.wantElem {
			t.Errorf("%d entries of %d bytes: %d entries, mask %#x, element 2^%d",
				tc.entries, tc.size, r.entries(), c.Mask(), *c.Word(0))
		}
		r.free()
	}
	for _, entries := range []uint64{1 << 31, 1 << 62} {
		if _, err := newRing(a, entries, 64); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%d entries: %v", entries, err)
		}
	}
	if _, err := newRing(a, 1<<30, 64); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("64 GiB queue: %v", err)
	}
	if _, err := newCQRing(a, 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("no entries: %v", err)
	}
}

// TestCQE: what the program sees of each kind of completion.
func TestCQE(t *testing.T) {
	a := testArena(t)
	r := must.Get[*cqRing](t)(newCQRing(a, 16))
	c := client(t, a, r)
	for _, tc := range []struct {
		name string
		wc   rxe.WC
		want librxeclient.WC
	}{
		{"send", rxe.WC{ID: 1 << 63, Opcode: rxe.WCSend, ByteLen: 9, QPN: 0x123456},
			librxeclient.WC{ID: 1 << 63, ByteLen: 9, QPN: 0x123456}},
		{"write imm", rxe.WC{ID: 2, Opcode: rxe.WCWrite, Flags: rxe.WCWithImm},
			librxeclient.WC{ID: 2, Opcode: 1, Flags: 2}},
		{"recv", rxe.WC{ID: 3, Opcode: rxe.WCRecv, ByteLen: 5, QPN: 1, SrcQP: 2, PKeyIndex: 3},
			librxeclient.WC{ID: 3, Opcode: 128, ByteLen: 5, QPN: 1, SrcQP: 2, PKeyIndex: 3, Port: 1}},
		{"datagram", rxe.WC{ID: 7, Opcode: rxe.WCRecv, Flags: rxe.WCGRH, SL: rxe.SLRoCEv2IPv4},
			librxeclient.WC{ID: 7, Opcode: 128, Flags: 1, SL: 10, Port: 1}},
		{"recv imm", rxe.WC{ID: 4, Opcode: rxe.WCRecvImm, Flags: rxe.WCWithImm, Imm: 0x01020304},
			librxeclient.WC{ID: 4, Opcode: 129, Flags: 2, Ex: [4]byte{1, 2, 3, 4}, Port: 1}},
		{"recv inv", rxe.WC{ID: 5, Opcode: rxe.WCRecv, Flags: rxe.WCWithInv, InvRKey: 0x01020304},
			librxeclient.WC{ID: 5, Opcode: 128, Flags: 8, Ex: [4]byte{4, 3, 2, 1}, Port: 1}},
		{"flushed", rxe.WC{ID: 6, Status: rxe.WCFlushErr, Opcode: rxe.WCRecv, ByteLen: 9, QPN: 1,
			VendorErr: 7, Flags: rxe.WCGRH}, librxeclient.WC{ID: 6, Status: 5, QPN: 1, VendorErr: 7}},
	} {
		if !r.Push(&tc.wc) {
			t.Fatal("full")
		}
		if got, ok := c.Poll(); !ok || got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestCQRingFull: one slot stays empty; a consumer index from nowhere makes the
// queue full or empty and no worse.
func TestCQRingFull(t *testing.T) {
	a := testArena(t)
	r := must.Get[*cqRing](t)(newCQRing(a, 3))
	c := client(t, a, r)
	for id := range uint64(20) {
		if id >= 3 {
			if r.Push(&rxe.WC{}) {
				t.Fatal("four completions in a queue of three")
			}
			if wc, ok := c.Poll(); !ok || wc.ID != id-3 {
				t.Fatalf("polled %d, %v", wc.ID, ok)
			}
		}
		if !r.Push(&rxe.WC{ID: id}) {
			t.Fatal("full too early")
		}
	}
	for _, hostile := range []uint32{4, 1 << 31, 1<<32 - 1, 0xdeadbeef} {
		c.SetConsumer(hostile)
		for range 10 {
			r.Push(&rxe.WC{})
		}
		if c.Producer() > 3 {
			t.Fatalf("producer %#x", c.Producer())
		}
		if n := r.Waiting(); n < 0 || n > 3 {
			t.Fatalf("%d wait in a queue of three", n)
		}
	}
}

// resizedCQ and resizedRecv make a ring of another size with what waits in r.
func resizedCQ(a *arena, r *cqRing, entries int) (*cqRing, error) {
	n, err := newCQRing(a, entries)
	if err != nil {
		return nil, err
	}
	return n, n.move(r)
}

func resizedRecv(a *arena, r *recvRing, maxWR uint32) (*recvRing, error) {
	n, err := newRecvRing(a, maxWR, r.maxSGE)
	if err != nil {
		return nil, err
	}
	return n, n.move(r)
}

func TestCQRingResized(t *testing.T) {
	a := testArena(t)
	r := must.Get[*cqRing](t)(newCQRing(a, 7))
	c := client(t, a, r)
	for id := range uint64(10) { // wraps
		r.Push(&rxe.WC{ID: id})
		if id < 5 {
			c.Poll()
		}
	}
	if _, err := resizedCQ(a, r, 3); !errors.Is(err, rxe.ErrInvalid) {
		t.Fatalf("5 completions moved to a queue of 3: %v", err)
	}
	for _, n := range []int{5, 100} {
		to := must.Get[*cqRing](t)(resizedCQ(a, r, n))
		nc := client(t, a, to)
		to.Push(&rxe.WC{ID: 10})
		for want := uint64(5); want <= 10; want++ {
			if wc, ok := nc.Poll(); !ok || wc.ID != want {
				t.Fatalf("polled %d, %v instead of %d", wc.ID, ok, want)
			}
		}
		to.free()
	}
	if r.Waiting() != 5 {
		t.Error("the old queue was touched")
	}
}

func sge(addr uint64, length uint32, lkey uint32) rxe.SGE {
	return rxe.SGE{Addr: addr, Length: length, LKey: wire.LKey(lkey)}
}

func TestRecvRing(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 4, 2))
	c := client(t, a, r)
	var w rxe.RecvWQE
	if ok, _ := r.Pop(&w); ok {
		t.Fatal("popped from an empty queue")
	}
	lists := [][]rxe.SGE{{}, {sge(1<<40, 7, 8)}, {sge(1, 2, 3), sge(4, 5, 6)}}
	for id := range uint64(30) {
		want := lists[id%3]
		if !c.PostRecv(id, want...) {
			t.Fatal("full")
		}
		if r.Len() != 1 {
			t.Fatalf("%d wait", r.Len())
		}
		if ok, bad := r.Pop(&w); !ok || bad || w.ID != id || fmt.Sprint(w.SGL) != fmt.Sprint(want) {
			t.Fatalf("popped %v %v %+v, want %d %v", ok, bad, w, id, want)
		}
	}
	for c.PostRecv(0) {
	}
	if r.Len() != 7 {
		t.Errorf("%d in a queue of 7", r.Len())
	}
	r.reset()
	if ok, _ := r.Pop(&w); ok || !c.Empty() {
		t.Error("something is left after a reset")
	}
}

func TestRecvRingMalformed(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 4, 2))
	c := client(t, a, r)
	for _, tc := range []struct {
		name string
		bad  bool
		edit func(w *librxeclient.RecvWQE, payload []byte)
	}{
		{"num_sge 3 of 2", true, func(w *librxeclient.RecvWQE, _ []byte) { w.Dma.NumSGE = 3 }},
		{"num_sge huge", true, func(w *librxeclient.RecvWQE, _ []byte) { w.Dma.NumSGE = 1<<32 - 1 }},
		{"num_sge that overflows", true, func(w *librxeclient.RecvWQE, _ []byte) { w.Dma.NumSGE = 1<<28 + 1 }},
		{"length that overflows", true, func(_ *librxeclient.RecvWQE, p []byte) {
			librxeclient.PutSGL(p, []rxe.SGE{sge(0, 1<<32-1, 0), sge(0, 1, 0)})
		}},
		{"length of 4 GiB less one", false, func(_ *librxeclient.RecvWQE, p []byte) {
			librxeclient.PutSGL(p, []rxe.SGE{sge(0, 1<<32-2, 0), sge(0, 1, 0)})
		}},
		{"other dma fields do not matter", false, func(w *librxeclient.RecvWQE, _ []byte) {
			w.Dma.Length, w.Dma.Resid, w.Dma.CurSGE, w.Dma.SgeOffset = 1, 1<<31, 77, 1<<30
		}},
	} {
		b := c.Next()
		c.PostRecv(5, sge(1, 2, 3), sge(4, 5, 6))
		tc.edit(librxeclient.At[librxeclient.RecvWQE](b), b[40:])
		var w rxe.RecvWQE
		if ok, bad := r.Pop(&w); !ok || bad != tc.bad || w.ID != 5 {
			t.Errorf("%s: ok %v, bad %v, id %d", tc.name, ok, bad, w.ID)
		}
	}
}

// TestRecvRingHostileProducer: an index from nowhere yields no more than the
// queue has slots, and nothing from outside of it.
func TestRecvRingHostileProducer(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 4, 2))
	c := client(t, a, r)
	for _, hostile := range []uint32{8, 1 << 31, 1<<32 - 1, 0xdeadbeef} {
		c.SetProducer(hostile)
		var w rxe.RecvWQE
		n := 0
		for ok := true; ok; n++ {
			ok, _ = r.Pop(&w)
		}
		if n > 8 {
			t.Errorf("producer %#x: %d pops of a queue of 7", hostile, n)
		}
		if c.Consumer() > 7 {
			t.Errorf("consumer %#x", c.Consumer())
		}
	}
}

func TestRecvRingResized(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 7, 1))
	c := client(t, a, r)
	var w rxe.RecvWQE
	for id := range uint64(10) {
		c.PostRecv(id, sge(id, 1, 1))
		if id < 5 {
			r.Pop(&w)
		}
	}
	if _, err := resizedRecv(a, r, 3); !errors.Is(err, rxe.ErrInvalid) {
		t.Fatalf("5 requests moved to a queue of 3: %v", err)
	}
	to := must.Get[*recvRing](t)(resizedRecv(a, r, 20))
	nc := client(t, a, to)
	nc.PostRecv(10, sge(10, 1, 1))
	for want := uint64(5); want <= 10; want++ {
		if ok, bad := to.Pop(&w); !ok || bad || w.ID != want || w.SGL[0].Addr != want {
			t.Fatalf("popped %v %v %+v instead of %d", ok, bad, w, want)
		}
	}
}

// TestTornWQE: a program that rewrites a WQE while it is read gets, at worst, a
// mixture of what it wrote, which was checked as such.
func TestTornWQE(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 1, 4))
	c := client(t, a, r)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		// One page, whose indices and WQEs are all rewritten.
		patterns := [2][]byte{bytes.Repeat([]byte{0xff}, 128), make([]byte, 128)}
		for i := 0; !stop.Load(); i++ {
			for slot := range uint32(2) {
				copy(c.Elem(slot)[:128], patterns[i%2])
			}
			c.SetProducer(uint32(i))
		}
	}()
	var w rxe.RecvWQE
	for range 100000 {
		ok, bad := r.Pop(&w)
		if ok && !bad && len(w.SGL) > 4 {
			t.Fatalf("a list of %d in a queue of 4", len(w.SGL))
		}
	}
	stop.Store(true)
	<-done
}

func TestRingAllocs(t *testing.T) {
	a := testArena(t)
	cq := must.Get[*cqRing](t)(newCQRing(a, 16))
	cc := client(t, a, cq)
	rq := must.Get[*recvRing](t)(newRecvRing(a, 16, 4))
	rc := client(t, a, rq)
	wc, w := &rxe.WC{ID: 1, Opcode: rxe.WCRecv}, &rxe.RecvWQE{SGL: make([]rxe.SGE, 0, 4)}
	sgl := []rxe.SGE{sge(1, 2, 3), sge(4, 5, 6)}
	if n := testing.AllocsPerRun(1000, func() {
		cq.Push(wc)
		cc.SetConsumer(cc.Producer())
		rc.PostRecv(1, sgl...)
		rq.Pop(w)
	}); n != 0 {
		t.Errorf("%v allocations for a completion and a receive", n)
	}
}

// TestReceivesShownAtOnce: an observer sees many receives by and by: a thread of the engine looks.
func TestReceivesShownAtOnce(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 2*shownRequests, 1))
	c := client(t, a, r)
	for i := range 2*shownRequests - 1 {
		c.PostRecv(uint64(i), rxe.SGE{Addr: 8, Length: 8})
	}
	for _, want := range []uint64{shownRequests, 2*shownRequests - 1, 2*shownRequests - 1} {
		from, shown := want-min(want, shownRequests), uint64(0)
		if next := r.Waits(from, func(uint64, *rxe.RecvWQE) { shown++ }); next != want || shown != want-from {
			t.Errorf("%d requests from %d on are shown, up to %d", shown, from, next)
		}
	}
}

// TestReceivesShown: an observer sees the receives that wait, with indices that go on after a
// message, a reset and a move.
func TestReceivesShown(t *testing.T) {
	a := testArena(t)
	r := must.Get[*recvRing](t)(newRecvRing(a, 3, 2))
	c := client(t, a, r)
	check := func(r *recvRing, from, next uint64, want string) {
		t.Helper()
		got := ""
		n := r.Waits(from, func(i uint64, w *rxe.RecvWQE) { got += fmt.Sprintf("%d:%d(%d) ", i, w.ID, w.SGL[0].Addr) })
		if got != want || n != next {
			t.Errorf("shown %q up to %d, want %q up to %d", got, n, want, next)
		}
	}
	post := func(id uint64) { c.PostRecv(id, rxe.SGE{Addr: id * 8, Length: 8}) }
	check(r, 0, 0, "")
	post(1)
	post(2)
	check(r, 0, 2, "0:1(8) 1:2(16) ")
	check(r, 1, 2, "1:2(16) ")
	r.Pop(&rxe.RecvWQE{})
	post(3)
	post(4)
	check(r, 0, 4, "1:2(16) 2:3(24) 3:4(32) ")
	to := must.Get[*recvRing](t)(newRecvRing(a, 7, 2))
	must.OK(t, to.move(r))
	check(to, 3, 4, "3:4(32) ")
	r.reset()
	post(5)
	check(r, 0, 5, "4:5(40) ")
	if n := r.Popped(); n != 4 {
		t.Errorf("%d requests have left the queue, not 4", n)
	}
	r.free()
	check(r, 0, 4, "")
}

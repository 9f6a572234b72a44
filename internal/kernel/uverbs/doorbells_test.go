package uverbs

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// loops are endpoints of one program, each connected with itself.
func loops(t testing.TB, n int) []*endpoint {
	t.Helper()
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	list := make([]*endpoint, n)
	for i := range list {
		list[i] = newEndpoint(t, u, rxe.QPRC)
		list[i].connect(list[i].qp, rxe.QPRC, list[i].qpn)
	}
	u.reset()
	return list
}

// Write puts a WRITE into the queue, and rings for nothing.
func (e *endpoint) write(id uint64, size uint32) {
	e.t.Helper()
	e.writeAt(0, id, size)
}

// writeAt is write at an offset of the program's memory, to which it also goes.
func (e *endpoint) writeAt(off, id uint64, size uint32) {
	e.t.Helper()
	if !e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRWrite, Flags: rxe.SendSignaled,
		SGL: []rxe.SGE{e.sge(off, size)}, RemoteAddr: programData + off, RKey: wire.RKey(e.mr.RKey)}}) {
		e.t.Fatal("send queue full")
	}
}

// completed takes the completions of an endpoint.
func (e *endpoint) completed() (n int) {
	e.t.Helper()
	for {
		wc, ok := e.comp.Poll()
		if !ok {
			return n
		}
		if wc.Status != 0 {
			e.t.Errorf("%+v", wc)
		}
		n++
	}
}

// TestTakeDoorbells: work requests in any queue are done, and no call says in which. A
// queue pair that does not send yet keeps what it has, and causes no further call.
func TestTakeDoorbells(t *testing.T) {
	list := loops(t, 5)
	idle := newEndpoint(t, list[0].user, rxe.QPRC)
	f := list[0].f
	if f.TakeDoorbells(true).More {
		t.Error("there is more of nothing")
	}
	for i, e := range list {
		for id := range i {
			e.write(uint64(id), 8)
		}
	}
	idle.write(99, 8)
	for rounds := 0; f.TakeDoorbells(true).More; rounds++ {
		if rounds > 100 {
			t.Fatal("it never ends")
		}
	}
	for i, e := range list {
		if n := e.completed(); n != i {
			t.Errorf("queue pair %d: %d completions, want %d", i, n, i)
		}
	}
	if idle.send.Consumer() != 0 {
		t.Error("a queue pair in RESET took something")
	}
	// Ready to send, it does so with the next doorbell, whichever that is.
	idle.connect(idle.qp, rxe.QPRC, idle.qpn)
	list[1].write(1, 8)
	for f.TakeDoorbells(true).More {
	}
	if idle.completed() != 1 || list[1].completed() != 1 {
		t.Error("something was left")
	}
}

// TestRefusedDoorbell: a direct doorbell for a queue pair that cannot send is reported, although
// the program gets no error. One for a queue pair that can is not.
func TestRefusedDoorbell(t *testing.T) {
	list := loops(t, 1)
	f := list[0].f
	count := new(refusalCount)
	f.SetReports(count)
	want := func(n refusalCount) {
		t.Helper()
		list[0].write(0, 8)
		for f.TakeDoorbells(true).More {
		}
		if *count != n {
			t.Errorf("%d were reported, want %d", *count, n)
		}
	}
	want(0)
	idle := newEndpoint(t, list[0].user, rxe.QPRC)
	idle.write(1, 8)
	want(1)
	want(1) // nothing new was posted there
	idle.write(2, 8)
	want(2)
	idle.connect(idle.qp, rxe.QPRC, idle.qpn)
	want(2)
	if n := idle.completed(); n != 2 {
		t.Errorf("%d completions, want 2", n)
	}
}

// refusalCount counts calls that were refused.
type refusalCount int

func (*refusalCount) Failed(*rxe.QP, *rxe.Failure) {}

func (c *refusalCount) Moved(wire.QPN, string) {}

func (c *refusalCount) Refused(string, unix.Errno, error) { *c++ }

// TestTakeDoorbellsShare: one call does a share of the work, and the queues take turns.
func TestTakeDoorbellsShare(t *testing.T) {
	list := loops(t, 4)
	const each, size = 10, 60 << 10 // in three shares: 4, 4 and 2 of them
	for _, e := range list {
		for id := range uint64(each) {
			e.write(id, size)
		}
	}
	var served [4]int
	calls, last := 0, -1
	for more := true; more; calls++ {
		if calls > 3*len(list) {
			t.Fatal("it never ends")
		}
		more = list[0].f.TakeDoorbells(true).More
		for i, e := range list {
			n := e.completed()
			if n > 5 {
				t.Errorf("call %d did %d of a queue", calls, n)
			}
			if n >= 4 && i == last {
				t.Errorf("call %d served queue %d again", calls, i)
			}
			if n >= 4 {
				last = i
			}
			served[i] += n
		}
	}
	for i, n := range served {
		if n != each {
			t.Errorf("queue pair %d: %d completions, want %d", i, n, each)
		}
	}
}

// TestTakeDoorbellsConcurrent: several threads ring and are rung for, and lose nothing.
func TestTakeDoorbellsConcurrent(t *testing.T) {
	list := loops(t, 3)
	f := list[0].f
	const each = 300
	stop := make(chan struct{})
	var ringers, posters sync.WaitGroup
	for range 3 {
		ringers.Go(func() {
			for {
				more := f.TakeDoorbells(true).More
				select {
				case <-stop:
					if !more {
						return
					}
				default:
				}
			}
		})
	}
	for i, e := range list {
		posters.Go(func() {
			done := 0
			for id := range uint64(each) {
				e.writeAt(uint64(i)*64, id, 8) // each has memory of its own
				for deadline := time.Now().Add(10 * time.Second); ; {
					if n := e.completed(); n > 0 {
						done += n
						break
					}
					if time.Now().After(deadline) {
						t.Error("a doorbell was not heard")
						return
					}
				}
			}
			if done != each {
				t.Errorf("%d completions, want %d", done, each)
			}
		})
	}
	posters.Wait()
	close(stop)
	ringers.Wait()
}

// TestDoorbellsAllocs: nothing is allocated. Under the race detector pools drop things.
func TestDoorbellsAllocs(t *testing.T) {
	list := loops(t, 2)
	f := list[0].f
	round := func() {
		list[1].write(1, 8)
		for f.TakeDoorbells(true).More {
		}
		if list[1].completed() != 1 {
			t.Fatal("no completion")
		}
	}
	for range 100 {
		round()
	}
	base := testing.AllocsPerRun(100, func() { list[1].completed() })
	// those of write itself
	if n := testing.AllocsPerRun(1000, round); n > base+2 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
}

// TestSweep: the memory that doorbells fill is given back, before and after the file
// is closed, and a closed file is not rung.
func TestSweep(t *testing.T) {
	e := loops(t, 1)[0]
	f := e.f
	fd, err := unix.FcntlInt(uintptr(f.FD()), unix.F_DUPFD_CLOEXEC, 0) // the program's
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	blocks := func() int64 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks
	}
	fill := func() {
		if _, err := unix.Pwrite(fd, make([]byte, 1<<20), f.DoorbellOffset()); err != nil {
			t.Fatal(err)
		}
	}
	shrinks := func(to int64) {
		t.Helper()
		must.Eventually(t, fmt.Sprintf("at most %d blocks", to), func() bool { return blocks() <= to })
	}
	before := blocks()
	for range 3 {
		fill()
		if blocks() < before+1<<11 {
			t.Fatal("nothing was filled")
		}
		f.Sweep()
		shrinks(before)
	}
	fill()
	var both sync.WaitGroup
	both.Go(f.Sweep)
	both.Go(f.Close)
	both.Wait()
	shrinks(8)
	e.send.SetProducer(5)
	if f.TakeDoorbells(true).More {
		t.Error("a closed file rings")
	}
	f.Sweep()
}

// TestTakeWithoutCredit: a call with credited set leaves messages that have no receive work request
// at their peer. It serves other queue pairs.
func TestTakeWithoutCredit(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	a, b, other := newEndpoint(t, u, rxe.QPRC), newEndpoint(t, u, rxe.QPRC), newEndpoint(t, u, rxe.QPRC)
	a.connect(a.qp, rxe.QPRC, b.qpn)
	b.connect(b.qp, rxe.QPRC, a.qpn)
	other.connect(other.qp, rxe.QPRC, other.qpn)
	for range 2 {
		if !a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend, Flags: rxedev.Signaled}}) {
			t.Fatal("send queue full")
		}
	}
	other.write(2, 8)
	want := func(credited bool, want kernel.Doorbells) {
		t.Helper()
		if got := u.f.TakeDoorbells(credited); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	want(true, kernel.Doorbells{Requests: 1, NoCredit: true})
	want(true, kernel.Doorbells{NoCredit: true})
	if n := other.completed(); n != 1 {
		t.Errorf("%d completions of another queue pair, want 1", n)
	}
	b.recv.PostRecv(3)
	want(true, kernel.Doorbells{Requests: 1, NoCredit: true})
	b.recv.PostRecv(4)
	want(true, kernel.Doorbells{Requests: 1})
	if n := a.completed(); n != 2 {
		t.Errorf("%d completions, want 2", n)
	}
	want(false, kernel.Doorbells{})
}

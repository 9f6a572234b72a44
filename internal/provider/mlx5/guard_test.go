package mlx5

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/userfault"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// guarded returns a connected pair of a program that lends its faults.
func guarded(t *testing.T) (a, b *pair) {
	t.Helper()
	p := newProgramOf(t, rxedev.New(t), libDynamicUAR)
	p.uar, p.sharesUAR = must.Get[*uar](t)(p.ctx.newUAR(uarTypeBF)), true
	p.process = newProcess(t, p.ctx.FD(), p.uar.offset)
	a, b = p.newQP(rxe.QPRC, 1), p.newQP(rxe.QPRC, 2)
	a.connect(b)
	b.connect(a)
	return a, b
}

// awaitArmed waits until the poller sleeps behind the guard: then the last store has landed.
func (g *guard) awaitArmed(t testing.TB) {
	t.Helper()
	must.Eventually(t, "the guard is armed", func() bool { return g.awaits.Load() && g.armed.Load() })
}

func (q *pair) awaitArmed() {
	q.t.Helper()
	q.ctx.guard.awaitArmed(q.t)
}

// sends posts a SEND up to its doorbell, and returns how much the device has taken of the queue.
func (q *pair) sends(peer *pair) (taken func() uint16) {
	peer.receive(peer.piece(0, 8))
	q.put(opSend, signaled, 0, q.piece(64, 8))
	q.put32(q.rec+4, uint32(q.posted))
	q.ctx.pages.access(func() {}) // what was written happens before the look of the poller
	return q.mem.(*queuePair).send.index
}

// completes waits for the completion of what was sent.
func (q *pair) completes() {
	q.t.Helper()
	writing := &q.send.mem.(*completionQueue).ring.writing
	must.Eventually(q.t, "the SEND has completed", func() bool {
		writing.Lock()
		defer writing.Unlock()
		_, ok := q.send.poll()
		return ok
	})
}

// TestGuard: a store to a register waits until its doorbell was served, each time.
func TestGuard(t *testing.T) {
	a, b := guarded(t)
	for range 4 {
		a.awaitArmed()
		taken := a.sends(b)
		a.process.store()
		a.process.await()
		if n := taken(); n != a.posted {
			t.Fatalf("the store has landed, and %d of %d blocks were served", n, a.posted)
		}
		a.completes()
	}
}

// TestGuardEnds: a store waits for nobody when there is no guard any more, and its doorbell is
// still found.
func TestGuardEnds(t *testing.T) {
	for what, end := range map[string]func(*userContext){
		"closed":   func(c *userContext) { c.guard.close() },
		"released": func(c *userContext) { c.guard.release() },
		"gone":     func(c *userContext) { c.guard.handler.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			a, b := guarded(t)
			a.awaitArmed()
			a.sends(b)
			end(a.ctx)
			a.process.store()
			a.process.await()
			a.completes()
		})
	}
}

// TestGuardOfTheClock: a program that has slept reads the time of now, also where it has made no
// queue, and again and again. A store beside that is served.
func TestGuardOfTheClock(t *testing.T) {
	a, b := guarded(t)
	alone := newProgramOf(t, rxedev.New(t), libDynamicUAR)
	alone.process = newProcess(t, alone.ctx.FD(), 0)
	must.OK(t, alone.ctx.CreatedPD(&udata{p: alone, room: 64}, alone.dom, 1))
	for what, p := range map[string]*program{"a queue pair": a.program, "a domain": alone} {
		for range 4 {
			p.ctx.guard.awaitArmed(t)
			if c := p.ctx.guard.covered.Load(); !c.clock || !c.has(p.ctx.doorbells.current.Load()) {
				t.Fatalf("%s: the guard covers %+v", what, c)
			}
			before := uint64(clock.Now())
			if now := p.process.clock(); now < before {
				t.Errorf("%s: the clock is %v old", what, time.Duration(before-now))
			}
		}
	}
	a.awaitArmed()
	a.sends(b)
	a.process.store()
	a.process.await()
	a.completes()
}

// TestIdle: the poller of a program that does nothing does not look. It does again when it has
// something new to look at, and ends at once.
func TestIdle(t *testing.T) {
	a, _ := guarded(t)
	a.awaitArmed()
	looks := a.ctx.poller.looks.Load()
	time.Sleep(500 * time.Millisecond)
	if n := a.ctx.poller.looks.Load() - looks; n > 4 {
		t.Errorf("%d looks in half a second", n)
	}
	a.newQP(rxe.QPRC, 3)
	must.Eventually(t, "the guard covers what is new", func() bool {
		return a.ctx.poller.looks.Load() > looks && a.ctx.guard.armed.Load()
	})
	start := time.Now()
	a.ctx.Close(false)
	if d := time.Since(start); d >= stopTimeout {
		t.Errorf("the end of the poller took %v", d)
	}
}

// TestGuardOfTheDead: a program that was killed while its store waits ends, and so does its open.
func TestGuardOfTheDead(t *testing.T) {
	g, at := bareGuard(t)
	g.arm()
	at.store()
	must.Eventually(t, "a store waits", func() bool { return g.await(10 * longPause) })
	must.OK(t, unix.Kill(at.pid, unix.SIGKILL))
	if line, err := at.out.ReadString('\n'); err == nil {
		t.Errorf("the store has landed: %q", line)
	}
	g.release()
	g.arm()
	if g.usable() {
		t.Error("a program that has ended is guarded")
	}
}

// TestGuardOfLostPages: when the pages are gone, and nobody looks, no store waits any more.
func TestGuardOfLostPages(t *testing.T) {
	a, _ := guarded(t)
	a.awaitArmed()
	a.ctx.pages.mu.Lock()
	a.ctx.pages.lose()
	a.ctx.pages.mu.Unlock()
	a.ctx.guard.rouse()
	must.Eventually(t, "the poller has ended", func() bool { return a.ctx.poller.role.Alive() == 0 })
	a.process.store()
	a.process.await()
}

// TestManyPlaces: a program that maps a page more often than a guard can bear is not guarded.
func TestManyPlaces(t *testing.T) {
	at := new(page)
	g := &guard{asked: true, budget: quota.New(quota.Cost{})}
	for i := range mostPlaces + 1 {
		one := &place{Range: userfault.Range{Start: uint64(i) * provider.PageSize, Len: provider.PageSize}, page: at}
		for range 2 { // the second one is known
			g.found([]*place{one})
		}
		if lost := g.why != nil; lost != (i == mostPlaces) {
			t.Fatalf("after %d places: %v", i+1, g.why)
		}
	}
	if n := len(g.next); n != 0 {
		t.Errorf("%d places are kept", n)
	}
}

// TestWokenDoesNotWait: a program that holds up the guard holds up no status.
func TestWokenDoesNotWait(t *testing.T) {
	c := new(userContext)
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	told := make(chan error, 1)
	go func() { told <- c.Woken() }()
	select {
	case err := <-told:
		if err == nil {
			t.Error("without a guard, stores wake the poller")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

// bareGuard is a guard without a poller.
func bareGuard(t *testing.T) (*guard, *process) {
	t.Helper()
	p := must.Get[*pages](t)(newPages())
	g := &guard{pages: p, budget: quota.New(quota.Cost{})}
	t.Cleanup(func() { g.close(); p.close() })
	list := must.Get[[]*page](t)(p.add(0, 1))
	at := newProcess(t, p.file, 0)
	g.cover(&udata{p: &program{process: at}}, at.space(), list)
	if !g.usable() {
		t.Fatal("no guard: ", g.why)
	}
	return g, at
}

// TestGuardRings: a store that waits names its page.
func TestGuardRings(t *testing.T) {
	g, at := bareGuard(t)
	g.arm()
	at.store()
	hits := 0
	must.Eventually(t, "a store waits", func() bool {
		g.await(10 * longPause)
		// for none, if a signal has interrupted the store, which then waits again
		g.rung(func(p *page, word, _ int) {
			if p == g.places[0].page && word == registersAt {
				hits++
			}
		})
		return hits > 0
	})
	g.release()
	at.await()
	if hits != 1 {
		t.Errorf("%d pages have rung", hits)
	}
}

// TestGuardRefused: a program that cannot lend its faults is asked once, and gives nothing back.
func TestGuardRefused(t *testing.T) {
	p := must.Get[*pages](t)(newPages())
	defer p.close()
	list := must.Get[[]*page](t)(p.add(0, 1))
	g := &guard{pages: p, budget: quota.New(quota.Cost{})}
	u := &udata{p: new(program)}
	g.cover(u, nil, list)
	g.cover(u, nil, list)
	if g.why == nil || g.usable() {
		t.Errorf("guarded: %t, because of %v", g.usable(), g.why)
	}
	g.arm()
	g.release()
	g.close()
}

// TestGuardWithoutRoom: while others make room for a guard, it is not locked: they may have to end
// it.
func TestGuardWithoutRoom(t *testing.T) {
	p := must.Get[*pages](t)(newPages())
	defer p.close()
	list := must.Get[[]*page](t)(p.add(0, 1))
	at := newProcess(t, p.file, 0)
	g := &guard{pages: p, budget: quota.New(quota.Cost{Files: guardCost.Files - 1})}
	asked, free := 0, false
	defer g.budget.BeforeRefusal(func() {
		asked++
		if free = g.mu.TryLock(); free {
			g.mu.Unlock()
		}
	})()
	g.cover(&udata{p: &program{process: at}}, at.space(), list)
	if asked != 1 || !free || g.usable() {
		t.Errorf("asked %d times, unlocked %t, guarded %t", asked, free, g.usable())
	}
}

// TestGuardOfTwo: a program whose child makes queue pairs of the same open is not guarded.
func TestGuardOfTwo(t *testing.T) {
	g, at := bareGuard(t)
	u := &udata{p: &program{process: at}}
	g.cover(u, at.space(), g.pagesOf())
	if !g.usable() {
		t.Error("a second queue pair ends the guard: ", g.why)
	}
	g.arm()
	g.cover(u, new(simnet.Memory), g.pagesOf())
	if g.usable() || g.armed.Load() {
		t.Error("two processes are guarded")
	}
	at.store()
	at.await()
}

func (g *guard) pagesOf() (list []*page) {
	for _, at := range g.places {
		list = append(list, at.page)
	}
	return list
}

// TestPlaces: only mappings of the file are guarded that the program can write and others see.
func TestPlaces(t *testing.T) {
	p := must.Get[*pages](t)(newPages())
	defer p.close()
	list := must.Get[[]*page](t)(p.add(2*provider.PageSize, 2))
	var st unix.Stat_t
	must.OK(t, unix.Fstat(p.file, &st))
	file := fmt.Sprintf("%02x:%02x %d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	maps := strings.ReplaceAll(`7000-9000 rw-s 00002000 FILE /memfd:gorxe-uverbs (deleted)
b000-c000 r--s 00002000 FILE /memfd:gorxe-uverbs (deleted)
c000-d000 rw-p 00002000 FILE /memfd:gorxe-uverbs (deleted)
d000-e000 rw-s 00009000 FILE /memfd:gorxe-uverbs (deleted)
e000-f000 rw-s 00002000 00:00 1 /memfd:gorxe-uverbs (deleted)
10000-13000 rw-s 00001000 FILE
x-y rw-s z FILE
2000-1000 rw-s 00002000 FILE
1000-2000 rw-s
`, "FILE", file)
	var got []string
	for _, at := range placesOf(maps, p.file, list, nil) {
		got = append(got, fmt.Sprintf("%x %x", at.Start, at.page.offset))
	}
	if want := "[7000 2000 8000 3000 11000 2000 12000 3000]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	var clocks []string
	for _, at := range placesOf(maps, p.file, nil, list[0]) {
		clocks = append(clocks, fmt.Sprintf("%x %t", at.Start, at.clock))
	}
	if want := "[7000 true b000 true 11000 true]"; fmt.Sprint(clocks) != want {
		t.Errorf("the clock: %v, want %v", clocks, want)
	}
	if self := must.Get[[]byte](t)(os.ReadFile("/proc/self/maps")); len(placesOf(string(self), p.file, list, nil)) != 2 {
		t.Errorf("not the pages of this process: %s", self)
	}
}

// TestNextWorker: a worker that takes the place of a blocked one serves what that one may have seen
// and not come to: the register does not say it any more.
func TestNextWorker(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	taken := a.sends(b)
	if taken() == a.posted {
		t.Fatal("the doorbell was served before it rang")
	}
	looks := make(chan bool, 2)
	watch := standby.NewWatch(standby.CallLimit)
	defer watch.Close()
	role := watch.Start(1, func(in *standby.Worker) {
		next := worker{poller: &a.ctx.poller, Worker: in, all: true}
		for range cap(looks) {
			found, _ := next.look()
			looks <- found
		}
	})
	defer role.Stop(stopTimeout)
	if !<-looks || taken() != a.posted {
		t.Errorf("%d of %d blocks were served", taken(), a.posted)
	}
	if <-looks {
		t.Error("the second look is at all queues, too")
	}
	a.completes()
}

// TestAnonymous: only memory of the process alone may have its stores wait.
func TestAnonymous(t *testing.T) {
	const maps = `1000-2000 rw-p 00000000 00:00 0 [heap]
2000-3000 rw-s 00000000 00:01 7 /memfd:x
3000-4000 rw-p 00000000 00:01 7 /a/file
4000-5000 r--p 00000000 00:00 0
`
	for addr, want := range map[uint64]bool{0xfff: false, 0x1000: true, 0x1fff: true, 0x2000: false, 0x3000: false, 0x4000: false, 0x5000: false} {
		if got := anonymous(maps, addr); got != want {
			t.Errorf("%#x: %t", addr, got)
		}
	}
}

package mlx5

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/userfault"
	"github.com/gorxe/gorxe/rxe"
)

// guard has the program wait at its next store to a register, or at its next look at the clock, and
// tells the poller. It is a help: the poller looks at the registers at times, whether it is told of
// a store or not. While the guard is armed, the program's pages are protected.
type guard struct {
	pages  *pages
	clock  *deviceClock // nil: there is none to guard
	budget *quota.Budget

	mu      sync.Mutex // a leaf lock, held for calls of the handler: those who take it may block
	asked   bool
	space   rxe.Memory         // whose faults they are; nil: not known yet
	handler *userfault.Handler // nil: there is none
	places  []*place
	next    []*place // those to come
	why     error    // why there is none
	closed  bool
	records records
	turned  bool // the records are protected, and not the registers; the guard is armed

	live    atomic.Pointer[userfault.Handler] // handler, for those who do not block
	covered atomic.Pointer[covered]           // nil: nothing is
	armed   atomic.Bool
	awaits  atomic.Bool // the poller does
}

// place is where the program has mapped a page with registers, or the clock.
type place struct {
	userfault.Range
	page  *page
	clock bool
}

// covered is what a guard covers. It does not change.
type covered struct {
	registers map[*page]bool
	clock     bool
}

// The handler has two.
var guardCost = quota.Cost{Files: 2}

// cover has the guard cover the clock and pages with registers, of an address space. It is called
// while the program waits in a call that makes a domain or a queue, for which it has mapped its
// register. After a fork both processes may have the pages. Nobody is told of the stores of the
// second one, so there is no guard if that one makes such things.
func (g *guard) cover(u provider.UData, space rxe.Memory, registers []*page) {
	l, ok := u.(provider.Lender)
	if !ok || !g.wants(space, registers) {
		return
	}
	if g.found(placesOf(l.Mappings(), g.pages.file, registers, g.clockPage())) {
		l.LendFaults(g.adopt)
	}
}

// clockPage is the page that programs read; nil: there is none.
func (g *guard) clockPage() *page {
	if g.clock == nil || !g.clock.set.Load() {
		return nil
	}
	return g.clock.time.page
}

// Why there is no guard.
var (
	errNotAsked = errors.New("the program has made neither a domain nor a queue")
	errBusy     = errors.New("the guard is being changed")
	errSpaces   = errors.New("two processes use one open")
	errPlaces   = errors.New("the program has mapped the pages of its doorbells too often")
	errLost     = errors.New("the pages of the doorbells are gone")
)

// wants reports whether one of these pages has no place, and may get one. The first call wants the
// clock.
func (g *guard) wants(space rxe.Memory, registers []*page) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.space == nil {
		g.space = space
	}
	if g.space != space && g.why == nil {
		g.lose(errSpaces)
	}
	return !g.closed && g.why == nil && (!g.asked || g.lacksAny(registers))
}

// found adds places. It reports whether the program has to be asked for a userfaultfd.
func (g *guard) found(places []*place) (ask bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why != nil {
		return false
	}
	for _, at := range places {
		if g.knows(at) {
			continue
		}
		if len(g.places)+len(g.next) == mostPlaces {
			g.lose(errPlaces)
			return false
		}
		g.next = append(g.next, at)
	}
	if g.asked {
		g.extend()
		return false
	}
	g.asked = true
	return true
}

// knows reports whether a place is guarded, or will be. mu is held.
func (g *guard) knows(at *place) bool {
	same := func(old *place) bool { return old.Range == at.Range }
	return slices.ContainsFunc(g.places, same) || slices.ContainsFunc(g.next, same)
}

// lacksAny reports whether one of these pages has no place. mu is held.
func (g *guard) lacksAny(registers []*page) bool {
	for _, p := range registers {
		if !slices.ContainsFunc(g.places, func(at *place) bool { return at.page == p }) {
			return true
		}
	}
	return false
}

// adopt begins to guard with the userfaultfd that the program has lent. The program's thread goes
// on when it returns: so a queue that it makes next finds the guard.
func (g *guard) adopt(fd int, err error) {
	var h *userfault.Handler
	if err == nil {
		h, err = userfault.New(fd)
	}
	if err == nil {
		err = g.budget.Take(guardCost) // it may wait for the end of opens
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil && !g.closed && g.why == nil:
		g.handler = h
		g.live.Store(h)
		g.extend()
		return
	case err == nil:
		g.budget.Give(guardCost)
	default:
		g.why = err
	}
	if h != nil {
		h.Close()
	}
}

// extend guards the next places. mu is held.
func (g *guard) extend() {
	if g.handler == nil {
		return
	}
	for _, at := range g.next {
		if err := at.register(g.handler); err != nil {
			g.lose(err)
			return
		}
		g.places = append(g.places, at)
	}
	g.next = nil
	g.records.register(g.handler)
	if len(g.places) > 0 {
		c := &covered{registers: make(map[*page]bool)}
		for _, at := range g.places {
			if at.clock {
				c.clock = true
			} else {
				c.registers[at.page] = true
			}
		}
		g.covered.Store(c)
	}
	g.armed.Store(false) // the new ones are not protected
	if g.faceAway() {    // nobody awaits a store to a record
		g.rouse()
	}
}

func (p *place) register(h *userfault.Handler) error {
	if p.clock {
		return h.RegisterReads(p.Range)
	}
	return h.RegisterStores(p.Range)
}

// lose ends guarding: no access waits any more. mu is held.
func (g *guard) lose(why error) {
	g.covered.Store(nil)
	g.armed.Store(false)
	g.why, g.places, g.next, g.turned = why, nil, nil, false
	if g.handler != nil {
		g.live.Store(nil)
		g.handler.Close()
		g.handler = nil
		g.budget.Give(guardCost)
	}
}

// Woken implements provider.Ringer. It waits for nobody.
func (c *userContext) Woken() error {
	g := &c.guard
	if g.usable() {
		return nil
	}
	if !g.mu.TryLock() {
		return errBusy
	}
	defer g.mu.Unlock()
	if g.why != nil {
		return g.why
	}
	return errNotAsked
}

// usable reports whether a store can wake the poller.
func (g *guard) usable() bool { return g.covered.Load() != nil }

func (g *guard) close() { g.end(unix.EBADF) }

func (g *guard) end(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.lose(why)
}

// arm has the next store wait, and the next look at the clock.
func (g *guard) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.face()
}

// face is arm with mu held.
func (g *guard) face() {
	g.armed.Store(false)
	if g.each(g.hide) && g.faceAway() {
		g.armed.Store(g.handler != nil)
	}
}

// release lets what waits go on, and all that follows.
func (g *guard) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed.Store(false)
	_ = g.each(g.show) && g.faceAway() // or there is no guard any more
}

func (g *guard) hide(at *place) error {
	if at.clock {
		return g.clock.hide()
	}
	return g.handler.Protect(at.Range)
}

func (g *guard) show(at *place) error {
	if at.clock {
		return g.handler.Show(at.Range)
	}
	return g.handler.Release(at.Range)
}

// each does something to all places. It reports false if that has ended the guard. mu is held.
func (g *guard) each(do func(*place) error) bool {
	for _, at := range g.places {
		if err := do(at); err != nil {
			g.lose(err) // the program has unmapped it
			return false
		}
	}
	return true
}

// await waits until a store or a look at the clock waits, rouse was called, or some time has
// passed.
func (g *guard) await(d time.Duration) (rung bool) {
	h := g.live.Load()
	if h == nil {
		return false
	}
	g.awaits.Store(true)
	defer g.awaits.Store(false)
	return h.Await(d)
}

// rouse ends await. It does not block.
func (g *guard) rouse() {
	if h := g.live.Load(); h != nil {
		h.Rouse()
	}
}

// rung calls hit for each page whose access waits, with where in the page, and the thread. All
// threads that it tells of wait at the same time.
func (g *guard) rung(hit func(p *page, at, tid int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.handler != nil {
		addr, tid, ok := g.handler.Next()
		if !ok {
			return
		}
		for _, at := range g.places { // or it is a record
			if at.Contains(addr) {
				hit(at.page, int(addr-at.Start), tid)
			}
		}
	}
}

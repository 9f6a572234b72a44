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

// guard has the program wait at its next store to a register, and tells the poller. It is a help:
// the poller looks at the registers at times, whether it is told of a store or not. While the guard
// is armed, the program's pages are protected.
type guard struct {
	pages  *pages
	budget *quota.Budget

	mu      sync.Mutex // a leaf lock, held for calls of the handler: those who take it may block
	asked   bool
	space   rxe.Memory         // whose faults they are; nil: not known yet
	handler *userfault.Handler // nil: there is none
	places  []*place
	next    []*place // those to come
	why     error    // why there is none
	closed  bool

	usable atomic.Bool // there is a handler
	armed  atomic.Bool
}

// place is where the program has mapped a page with registers.
type place struct {
	userfault.Range
	page *page
}

var guardCost = quota.Cost{Files: 1}

// cover has the guard cover pages with registers, of an address space. It is called while the
// program waits in a call that makes a queue pair, for which it has mapped its register. After a
// fork both processes may have the pages. Nobody is told of the stores of the second one, so there
// is no guard if that one makes queue pairs.
func (g *guard) cover(u provider.UData, space rxe.Memory, registers []*page) {
	l, ok := u.(provider.Lender)
	if ok && g.wants(space, registers) && g.found(placesOf(l.Mappings(), g.pages.file, registers)) {
		l.LendFaults(g.adopt)
	}
}

var errSpaces = errors.New("two processes have queue pairs of one open")

// wants reports whether one of these pages has no place, and may get one.
func (g *guard) wants(space rxe.Memory, registers []*page) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.space == nil {
		g.space = space
	}
	if g.space != space && g.why == nil {
		g.lose(errSpaces)
	}
	return !g.closed && g.why == nil && g.lacksAny(registers)
}

// found adds places. It reports whether the program has to be asked for a userfaultfd.
func (g *guard) found(places []*place) (ask bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = append(g.next, places...)
	if g.asked {
		g.extend()
		return false
	}
	g.asked = true
	return true
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

// adopt begins to guard with the userfaultfd that the program has lent.
func (g *guard) adopt(fd int, err error) {
	var h *userfault.Handler
	if err == nil {
		h, err = userfault.New(fd)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		err = g.budget.Take(guardCost)
	}
	switch {
	case err == nil && !g.closed && g.why == nil:
		g.handler = h
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
		if slices.ContainsFunc(g.places, func(old *place) bool { return old.Range == at.Range }) {
			continue
		}
		if err := g.handler.Register(at.Range); err != nil {
			g.lose(err)
			return
		}
		g.places = append(g.places, at)
	}
	g.next = nil
	g.usable.Store(len(g.places) > 0)
	g.armed.Store(false) // the new ones are not protected
}

// lose ends guarding: no store waits any more. mu is held.
func (g *guard) lose(why error) {
	g.usable.Store(false)
	g.armed.Store(false)
	g.why, g.places, g.next = why, nil, nil
	if g.handler != nil {
		g.handler.Close()
		g.handler = nil
		g.budget.Give(guardCost)
	}
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.lose(unix.EBADF)
}

// arm has the next store wait.
func (g *guard) arm() { g.each((*userfault.Handler).Protect, true) }

// release lets the stores that wait go on, and all that follow.
func (g *guard) release() { g.each((*userfault.Handler).Release, false) }

func (g *guard) each(do func(*userfault.Handler, userfault.Range) error, armed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed.Store(false)
	for _, at := range g.places {
		if err := do(g.handler, at.Range); err != nil {
			g.lose(err) // the program has unmapped it
			return
		}
	}
	g.armed.Store(armed && g.handler != nil)
}

// await waits until a store waits, or some time has passed.
func (g *guard) await(d time.Duration) (rung bool) {
	g.mu.Lock()
	h := g.handler
	g.mu.Unlock()
	return h != nil && h.Await(d)
}

// rung calls hit for each page that has a store that waits, with the thread.
func (g *guard) rung(hit func(p *page, tid int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.handler != nil {
		addr, tid, ok := g.handler.Next()
		if !ok {
			return
		}
		for _, at := range g.places {
			if at.Contains(addr) {
				hit(at.page, tid)
			}
		}
	}
}

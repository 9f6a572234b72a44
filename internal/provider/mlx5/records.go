package mlx5

import (
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/internal/sys/userfault"
)

// A store to a register that has waited lands when the page is not protected any more, and the next
// one may follow in less than a microsecond. To have each one wait, the guard takes turns: before
// it lets a store go on, it protects the doorbell records, where each post stores first (mlx5.c:
// post_send_db). While a store to a record waits, it protects the registers.

// records are the pages with doorbell records of an open: those of queue pairs, and of completion
// queues that may be armed. The guard's mu guards them.
type records struct {
	pages   []*recordPage
	writers int // calls of write
	// blind is set for good if a page cannot be protected: then the guard takes no turns.
	blind bool
}

// recordPage is one of them.
type recordPage struct {
	userfault.Range
	users      int
	own        bool // anonymous memory
	registered bool
}

// add adds a user of the page at an address.
func (r *records) add(addr uint64) {
	for _, p := range r.pages {
		if p.Contains(addr) {
			p.users++
			return
		}
	}
	start := addr &^ (provider.PageSize - 1)
	r.pages = append(r.pages, &recordPage{Range: userfault.Range{Start: start, Len: provider.PageSize}, users: 1})
}

// register has the pages registered that are not yet, and may be.
func (r *records) register(h *userfault.Handler) {
	for _, p := range r.pages {
		if p.own && !p.registered && !r.blind {
			p.registered = h.RegisterStores(p.Range) == nil
			r.blind = !p.registered
		}
	}
}

// ready reports whether all pages can be protected now.
func (r *records) ready() bool {
	return len(r.pages) > 0 && !r.blind && r.writers == 0 && !slices.ContainsFunc(r.pages, func(p *recordPage) bool { return !p.registered })
}

// addRecord notes a record of a queue that the program makes, while it waits in that call. With
// watched, somebody asks who rings.
func (g *guard) addRecord(u provider.UData, addr uint64, watched bool) {
	l, ok := u.(provider.Lender)
	maps := ""
	if ok && watched && !g.owns(addr) {
		maps = l.Mappings()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records.add(addr)
	if !watched || g.why != nil {
		return
	}
	for _, p := range g.records.pages {
		// of a file it is shared, and may have something else beside the records
		p.own = p.own || !g.records.blind && anonymous(maps, p.Start)
		g.records.blind = g.records.blind || !p.own
	}
	if g.handler != nil {
		g.records.register(g.handler)
	}
	if g.turned {
		g.face()
	}
}

// owns reports whether all pages are known to be the program's own, and one has this address.
func (g *guard) owns(addr uint64) (has bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.records.pages {
		if !p.own {
			return false
		}
		has = has || p.Contains(addr)
	}
	return has
}

// removeRecord notes that a queue ends. The program may use a page without records for what it
// likes, also in system calls, whose stores cannot wait.
func (g *guard) removeRecord(addr uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, p := range g.records.pages {
		if !p.Contains(addr) {
			continue
		}
		if p.users--; p.users == 0 {
			if g.turned {
				g.face()
			}
			g.records.pages = append(g.records.pages[:i:i], g.records.pages[i+1:]...)
		}
		return
	}
}

// turn lets what waits go on, and has the store wait that the program makes next: to a record
// behind one to a register, and the other way round. It reports false if it cannot, or if the guard
// is not armed: there are new places, or another worker.
func (g *guard) turn() (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.handler == nil || !g.armed.Load():
		return false
	case g.turned:
		g.face()
		return true
	case !g.records.ready():
		return false
	}
	for _, p := range g.records.pages {
		if g.handler.Protect(p.Range) != nil {
			g.records.blind, g.turned = true, true // some may be protected
			g.faceAway()
			return false
		}
	}
	g.turned = true
	g.each(g.show)
	return true
}

// faceAway ends the protection of the records. It reports false if that has ended the guard. mu is
// held.
func (g *guard) faceAway() bool {
	if !g.turned {
		return true
	}
	g.turned = false
	for _, p := range g.records.pages {
		if !p.registered {
			continue
		}
		if err := g.handler.Release(p.Range); err != nil {
			g.lose(err) // the program has unmapped it
			return false
		}
	}
	return true
}

// write calls a function that writes to a record: the daemon's stores cannot wait. The function may
// block, so mu is not held.
func (g *guard) write(f func() error) error {
	g.hold(1)
	defer g.hold(-1)
	return f()
}

// hold adds to the calls of write, during which the records are not protected.
func (g *guard) hold(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.records.writers += n; g.turned {
		g.face()
	}
}

// anonymous reports whether a page is memory of the process alone and of no file, by its
// /proc/PID/maps.
func anonymous(maps string, addr uint64) bool {
	for m, err := range procmaps.Read(strings.NewReader(maps)) {
		if err == nil && addr-m.Start < m.End-m.Start {
			return !m.Shared() && m.Writable() && m.Inode == 0
		}
	}
	return false
}

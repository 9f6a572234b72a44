package rdmacm

import (
	"io"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
)

// openResolver is a Resolver that several goroutines use until it is closed. Close waits
// for the questions that are under way; later ones get ESHUTDOWN.
type openResolver struct {
	Resolver
	end    func() // ends the Resolver; nil if somebody else does
	asking sync.WaitGroup

	mu     sync.Mutex // a leaf lock
	closed bool
}

// ask begins a question, which asking.Done ends. It reports false if there is nobody to ask.
func (r *openResolver) ask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.asking.Add(1)
	}
	return !r.closed
}

// close must be called once.
func (r *openResolver) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.asking.Wait()
	if r.end != nil {
		r.end()
	}
}

// Route implements Resolver.
func (r *openResolver) Route(q route.Query) (route.Route, error) {
	if !r.ask() {
		return route.Route{}, unix.ESHUTDOWN
	}
	defer r.asking.Done()
	return r.Resolver.Route(q)
}

// Neighbor implements Resolver. A closed one knows nothing, and done is not called.
func (r *openResolver) Neighbor(way route.Route, done func()) (known bool, cancel func()) {
	if !r.ask() {
		return false, func() {}
	}
	defer r.asking.Done()
	return r.Resolver.Neighbor(way, done)
}

// Follow implements Resolver. A closed one does not call moved.
func (r *openResolver) Follow(way route.Route, dst netip.Addr, moved func()) (cancel func()) {
	if !r.ask() {
		return func() {}
	}
	defer r.asking.Done()
	return r.Resolver.Follow(way, dst, moved)
}

// Local implements Resolver.
func (r *openResolver) Local(ip netip.Addr) bool {
	if !r.ask() {
		return false
	}
	defer r.asking.Done()
	return r.Resolver.Local(ip)
}

// Join implements Resolver.
func (r *openResolver) Join(index int, group netip.Addr) (io.Closer, error) {
	if !r.ask() {
		return nil, unix.ESHUTDOWN
	}
	defer r.asking.Done()
	return r.Resolver.Join(index, group)
}

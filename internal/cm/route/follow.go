package route

import "net/netip"

// follower is a call of Follow that has not been canceled.
type follower struct {
	address string // the link-layer address; "" while it is not known
	moved   func()
}

// Follow calls moved, from another goroutine, each time that a destination on a link has got
// another link-layer address (cma.c: cma_netevent_callback). As in the kernel, the destination
// must be the next hop. After cancel, a call of moved may still be under way, but no new one
// begins.
func (r *Resolver) Follow(way Route, dst netip.Addr, moved func()) (cancel func()) {
	h := hop{way.Interface, way.NextHop.WithZone("")}
	if way.Direct || h.ip != dst.WithZone("") {
		return func() {}
	}
	f := &follower{moved: moved}
	// The follower is added before the address is read, so no change is missed.
	r.mu.Lock()
	if r.followers[h] == nil {
		r.followers[h] = make(map[*follower]struct{})
	}
	r.followers[h][f] = struct{}{}
	r.mu.Unlock()
	if address, ok := r.linkAddress(h); ok {
		r.mu.Lock()
		if f.address == "" {
			f.address = address
		}
		r.mu.Unlock()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.followers[h], f)
		if len(r.followers[h]) == 0 {
			delete(r.followers, h)
		}
	}
}

// moved handles news of a neighbor: the kernel says that it has, or had a moment ago, a
// link-layer address. If a follower knows another one, the kernel is asked for the present one,
// because Follow may have read that already.
func (r *Resolver) moved(h hop, address string) {
	if !r.news(h, address) {
		return
	}
	address, ok := r.linkAddress(h)
	if !ok {
		return // another notice will say when it has one
	}
	var tell []func()
	r.mu.Lock()
	for f := range r.followers[h] {
		if f.address != "" && f.address != address {
			tell = append(tell, f.moved)
		}
		f.address = address
	}
	r.mu.Unlock()
	for _, moved := range tell {
		moved()
	}
}

// news reports whether a follower of a neighbor does not know this address.
func (r *Resolver) news(h hop, address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.followers[h] {
		if f.address == "" || f.address != address {
			return true
		}
	}
	return false
}

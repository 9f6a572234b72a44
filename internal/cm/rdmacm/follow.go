package rdmacm

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
)

// follow makes the resolver call destinationMoved when the destination gets another link-layer
// address (cma.c: cma_netevent_callback). Then another host has the IP address, or the peer has
// another network card. The function that follow returns ends this. Manager.mu is not held.
func (id *ID) follow(way route.Route) (cancel func()) {
	id.m.mu.Lock()
	id.stopFollowing() // an earlier resolution
	dst := id.dst.Addr()
	id.m.mu.Unlock()
	return id.m.resolver.Follow(way, dst, func() {
		id.m.mu.Lock()
		defer id.m.unlock()
		id.m.later(id, id.destinationMoved)
	})
}

// destinationMoved tells the program. As in Linux 6.0 and newer the connection goes on, until
// the program ends it (cma_netevent_work_handler). Manager.mu is held, by a goroutine that may
// call handlers.
func (id *ID) destinationMoved() {
	switch id.state {
	case StateRouteResolved, StateConnect, StateDisconnect:
		id.event(&Event{Kind: Unreachable, Status: -int32(unix.ETIMEDOUT)})
	default: // the kernel follows from rdma_resolve_route on
	}
}

// stopFollowing ends what follow began, if anything. Manager.mu is held.
func (id *ID) stopFollowing() {
	if id.unfollow != nil {
		id.unfollow()
		id.unfollow = nil
	}
}

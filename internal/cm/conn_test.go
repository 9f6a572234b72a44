package cm

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestLife: a connection from its REQ to the end of timewait, on both sides.
func TestLife(t *testing.T) {
	client, server, active, passive := connected(t)
	client.noError(active.Disconnect(client.now))
	server.receive(client, client.take(wire.AttrDREQ))
	server.event(EventDisconnect)
	server.quiet() // the DREP waits for the user
	server.noError(passive.Disconnect(server.now))
	server.state(passive, StateTimewait)
	client.receive(server, server.take(wire.AttrDREP))
	client.event(EventDisconnected)
	client.state(active, StateTimewait)
	for _, n := range []*node{client, server} {
		n.advance(512*time.Millisecond - 1)
		n.noEvent()
		n.advance(1)
		n.event(EventTimewaitExit)
	}
	active.Destroy(client.now)
	passive.Destroy(server.now)
	for _, n := range []*node{client, server} {
		n.quiet()
		n.noEvent()
		n.gone()
	}
}

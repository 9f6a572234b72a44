package ucma

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/wire"
)

// Watcher sees the ids that a program has.
type Watcher interface {
	// Made sees a new id, while the program's thread waits for its answer. It may not succeed, and
	// then Ended follows.
	Made(id any, c kernel.Caller)
	// Ended sees that an id is destroyed.
	Ended(id any)
	// Left sees an id that the program had when it closed the event channel.
	Left(id any)
	// Told sees that the program is about to tell its peer something, and Heard that it is about to
	// read what its peer has told. qp is the queue pair of the end that tells, 0 if it is not
	// known.
	Told(from netip.Addr, qp wire.QPN)
	Heard(from netip.Addr, qp wire.QPN)
	// Unacknowledged sees that a program destroys an id, and has not acknowledged n events of it.
	Unacknowledged(id any, n uint32, c kernel.Caller)
}

// SetWatcher sets the Watcher of the file. It must be called before the first call.
func (f *File) SetWatcher(w Watcher) { f.watcher = w }

// watched tells the Watcher of an id that a call gives to the program.
func (k *call) watched(c *cmID) {
	if k.f.watcher == nil {
		return
	}
	k.f.watcher.Made(c, k.Caller)
	k.dev.mu.Lock()
	c.watcher = k.f.watcher
	k.dev.mu.Unlock()
}

// unwatched tells the Watcher that the program does not have an id any more.
func (d *Device) unwatched(c *cmID, left bool) {
	d.mu.Lock()
	w := c.watcher
	c.watcher = nil
	left = left && !c.removed
	d.mu.Unlock()
	switch {
	case w == nil:
	case left:
		w.Left(c)
	default:
		w.Ended(c)
	}
}

// tells tells the Watcher that the program is about to tell its peer something. own is its queue
// pair, 0 if the call does not say.
func (k *call) tells(c *cmID, own wire.QPN) {
	if k.f.watcher == nil {
		return
	}
	k.dev.mu.Lock()
	if own != 0 {
		c.own = own
	}
	own = c.own
	k.dev.mu.Unlock()
	k.f.watcher.Told(c.id.LocalAddr().Addr(), own)
}

// hears tells the Watcher that the program is about to read an event in which its peer tells
// something.
func (k *call) hears(e *event) {
	if k.f.watcher == nil || !telling[rdmacm.EventKind(e.resp.Event)] {
		return
	}
	c := e.of
	if e.child != nil {
		c = e.child
	}
	k.dev.mu.Lock()
	if e.from != 0 {
		c.peer = e.from
	}
	peer := c.peer
	k.dev.mu.Unlock()
	k.f.watcher.Heard(c.id.RemoteAddr().Addr(), peer)
}

// telling are the events with which a message of the peer is read.
var telling = map[rdmacm.EventKind]bool{
	rdmacm.ConnectRequest: true, rdmacm.ConnectResponse: true, rdmacm.Established: true, rdmacm.Rejected: true, rdmacm.Disconnected: true,
}

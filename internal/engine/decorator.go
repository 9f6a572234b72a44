package engine

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Decorator stands between a device and its port. It sees every packet that the device
// sends, also from one of its queue pairs to another, and every packet that arrives from the
// network. It may drop, delay, change and duplicate packets.
type Decorator interface {
	// Send gets the packets that the device sends, in order and not sealed yet: the ICRC at
	// the end of each packet is empty. The bursts belong to the device again when Send
	// returns. The device has a queue pair locked, so Send must not call the device, nor
	// wait for another call of it.
	Send(bursts []wire.Burst, next Carrier)
	// Receive gets a batch that has arrived, and calls next with the packets that the device
	// must get. Several threads may call Receive at once.
	Receive(batch []wire.Datagram, next func(batch []wire.Datagram))
}

// Carrier carries a decorator's packets on.
type Carrier interface {
	// Send is for use during Decorator.Send.
	Send(bursts []wire.Burst)
	// SendLater is for use at any other time, from a goroutine of the decorator's
	// own. The bursts and their routes must be copies of what Send was given.
	SendLater(bursts []wire.Burst)
}

// decoratedLink is the port as the link of a device that has a decorator.
type decoratedLink struct {
	*portLink
	decorator Decorator
	dev       *rxe.Device // set before the first packet
}

// Send implements rxe.Link.
func (l *decoratedLink) Send(bursts []wire.Burst) {
	l.decorator.Send(bursts, carrier{l})
}

type carrier struct{ link *decoratedLink }

func (c carrier) Send(bursts []wire.Burst) {
	if rest := c.link.dev.Loopback(bursts); len(rest) > 0 {
		c.link.portLink.Send(rest)
	}
}

func (c carrier) SendLater(bursts []wire.Burst) {
	c.Send(bursts)
	c.link.dev.Deliver()
}

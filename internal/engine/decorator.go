package engine

import (
	"github.com/gorxe/gorxe/wire"
)

// Decorator stands between a device and its port. Of the packets that the device sends, also from
// one of its queue pairs to another, it sees those that it asks for. It sees every packet that
// arrives from the network. It may drop, delay, change and duplicate packets.
type Decorator interface {
	// Send gets packets that the device sends, in order and not sealed yet: the ICRC at
	// the end of each packet is empty. The bursts belong to the device again when Send
	// returns. The device has a queue pair locked, so Send must not call the device, nor
	// wait for another call of it.
	Send(bursts []wire.Burst, next Carrier)
	// Receive gets a batch that has arrived, and calls next with the packets that the device
	// must get. Several threads may call Receive at once.
	Receive(batch []wire.Datagram, next func(batch []wire.Datagram))
	// Concerns and Wants say which packets of the device Send gets, as those of rxe.Interceptor do.
	Concerns(src, dest wire.QPN) bool
	Wants(bursts []wire.Burst) bool
}

// interceptor is a decorator as the device sees it.
type interceptor struct {
	Decorator
	next Carrier
}

// Send implements rxe.Interceptor.
func (i interceptor) Send(bursts []wire.Burst) { i.Decorator.Send(bursts, i.next) }

// Carrier carries a decorator's packets on.
type Carrier interface {
	// Send is for use during Decorator.Send.
	Send(bursts []wire.Burst)
	// SendLater is for use at any other time, from a goroutine of the decorator's
	// own. The bursts and their routes must be copies of what Send was given.
	SendLater(bursts []wire.Burst)
	// Lose shows the tap packets that no receiver gets, as a capture at the sender shows
	// packets that the network loses.
	Lose(bursts []wire.Burst)
}

// Decorate puts d between the device and its port, in place of the decorator before. Nil means
// none: packets between the device's own queue pairs need not be formed, and pass faster. It may
// be called at any time. Packets that are on their way may still pass the decorator before.
func (e *Engine) Decorate(d Decorator) {
	if d == nil {
		e.decorator.Store(nil)
		e.dev.Intercept(nil)
		return
	}
	e.decorator.Store(&d)
	e.dev.Intercept(interceptor{d, e.Carrier()})
}

// Carrier returns what carries the packets of a decorator on.
func (e *Engine) Carrier() Carrier { return carrier{e} }

// receive takes packets from the port.
func (e *Engine) receive(batch []wire.Datagram) {
	if d := e.decorator.Load(); d != nil {
		(*d).Receive(batch, e.dev.Receive)
		return
	}
	e.dev.Receive(batch)
}

type carrier struct{ e *Engine }

func (c carrier) Send(bursts []wire.Burst) {
	if rest := c.e.dev.Loopback(bursts); len(rest) > 0 {
		c.e.link.Send(rest)
	}
}

func (c carrier) SendLater(bursts []wire.Burst) {
	c.Send(bursts)
	c.e.dev.Deliver()
}

func (c carrier) Lose(bursts []wire.Burst) {
	tap := c.e.tap.Load()
	if tap == nil {
		return
	}
	show, port := tapBurst(tap), c.e.link.open()
	for i := range bursts {
		b := bursts[i]
		if port != nil && !c.e.dev.HasAddr(b.Route.Dst) {
			route := *b.Route
			route.SrcPort = port.SourcePort(b.Route)
			b.Route = &route
		}
		show(&b)
	}
}

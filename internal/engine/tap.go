package engine

import (
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// SetTap sets what captures the packets, in place of the Tap before; nil: nothing does. work sees
// the work requests meanwhile; nil: nothing does. A device that began without a Tap captures no
// packets that no queue pair takes.
func (e *Engine) SetTap(tap *rocev2.Tap, work rxe.WorkTap) {
	e.tap.Store(tap)
	if p, ok := e.link.open().(interface{ SetTap(*rocev2.Tap) }); ok {
		p.SetTap(tap)
	}
	if tap == nil {
		e.dev.SetTap(nil)
		return
	}
	e.dev.SetTap(&rxe.Tap{Packets: tapBurst(tap), Work: work})
}

// tapBurst captures packets between queue pairs of the device. They get the IPv4
// identifications that one send of the burst would give.
func tapBurst(tap *rocev2.Tap) func(*wire.Burst) {
	return func(b *wire.Burst) {
		for i := range b.N() {
			tap.WriteNoted(b.Route, b.Packet(i), uint16(i), b.Damage, b.Note)
		}
	}
}

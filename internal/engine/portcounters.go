package engine

import (
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// octetsPerWord is the unit of the two counters of data (IBA 16.1.3.5, PortXmitData).
const octetsPerWord = 4

// PortCounters returns the counters of performance management for a device and its port.
// As in any port, they do not count traffic within the device. Counters that need a
// physical link are 0.
func PortCounters(dev *rxe.Device, p *rocev2.Counters) wire.PortCounters {
	c := wire.PortCounters{
		RcvErrors: p.ICRCErrors.Load() + p.Malformed.Load() + p.Truncated.Load() + p.ReceiveQueueDrop.Load(),
		XmitDiscards: p.SendDropNoBuffer.Load() + p.SendDropTooBig.Load() +
			p.SendDropUnreachable.Load() + p.SendDropDenied.Load() + p.SendDropOther.Load(),
		XmitData:    p.SentBytes.Load() / octetsPerWord,
		RcvData:     p.ReceivedBytes.Load() / octetsPerWord,
		XmitPackets: p.SentPackets.Load(),
		RcvPackets:  p.ReceivedPackets.Load(),
	}
	for _, n := range dev.HWCounters() {
		if n.Name == "link_downed" {
			c.LinkDowned = n.Value
		}
	}
	return c
}

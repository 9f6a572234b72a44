package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
)

// octetsPerWord is the unit of the two counters of data (InfiniBand Architecture
// Specification, 16.1.3.5, PortXmitData).
const octetsPerWord = 4

// portCounters returns the counters of a port's performance management agent, with the
// kernel's names for a RoCE port (drivers/infiniband/core/sysfs.c: pma_attrs_noietf). As in
// any port, they do not count traffic within the device. Counters that need a physical link
// are 0.
func portCounters(p *rocev2.Counters, device []rxe.Counter) []tree.Counter {
	var linkDowned uint64
	for _, c := range device {
		if c.Name == "link_downed" {
			linkDowned = c.Value
		}
	}
	return []tree.Counter{
		{Name: "symbol_error"},
		{Name: "link_error_recovery"},
		{Name: "link_downed", Value: linkDowned},
		{Name: "port_rcv_errors", Value: p.ICRCErrors.Load() + p.Malformed.Load() + p.Truncated.Load() + p.ReceiveQueueDrop.Load()},
		{Name: "port_rcv_remote_physical_errors"},
		{Name: "port_rcv_switch_relay_errors"},
		{Name: "port_xmit_discards", Value: p.SendDropNoBuffer.Load() + p.SendDropTooBig.Load() +
			p.SendDropUnreachable.Load() + p.SendDropDenied.Load() + p.SendDropOther.Load()},
		{Name: "port_xmit_constraint_errors"},
		{Name: "port_rcv_constraint_errors"},
		{Name: "local_link_integrity_errors"},
		{Name: "excessive_buffer_overrun_errors"},
		{Name: "VL15_dropped"},
		{Name: "port_xmit_data", Value: p.SentBytes.Load() / octetsPerWord},
		{Name: "port_rcv_data", Value: p.ReceivedBytes.Load() / octetsPerWord},
		{Name: "port_xmit_packets", Value: p.SentPackets.Load()},
		{Name: "port_rcv_packets", Value: p.ReceivedPackets.Load()},
		{Name: "port_xmit_wait"},
	}
}

package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/wire"
)

// portCounters returns the counters of a port's performance management agent, with the
// kernel's names for a RoCE port (drivers/infiniband/core/sysfs.c: pma_attrs_noietf).
func portCounters(c *wire.PortCounters) []tree.Counter {
	return []tree.Counter{
		{Name: "symbol_error", Value: c.SymbolErrors},
		{Name: "link_error_recovery", Value: c.LinkErrorRecovery},
		{Name: "link_downed", Value: c.LinkDowned},
		{Name: "port_rcv_errors", Value: c.RcvErrors},
		{Name: "port_rcv_remote_physical_errors", Value: c.RcvRemotePhysical},
		{Name: "port_rcv_switch_relay_errors", Value: c.RcvSwitchRelay},
		{Name: "port_xmit_discards", Value: c.XmitDiscards},
		{Name: "port_xmit_constraint_errors", Value: c.XmitConstraint},
		{Name: "port_rcv_constraint_errors", Value: c.RcvConstraint},
		{Name: "local_link_integrity_errors", Value: c.LinkIntegrity},
		{Name: "excessive_buffer_overrun_errors", Value: c.BufferOverrun},
		{Name: "VL15_dropped", Value: c.VL15Dropped},
		{Name: "port_xmit_data", Value: c.XmitData},
		{Name: "port_rcv_data", Value: c.RcvData},
		{Name: "port_xmit_packets", Value: c.XmitPackets},
		{Name: "port_rcv_packets", Value: c.RcvPackets},
		{Name: "port_xmit_wait", Value: c.XmitWait},
	}
}

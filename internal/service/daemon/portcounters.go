package daemon

import (
	"maps"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
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

// What the kernel dropped at the port's sockets (rocev2.Counters). Every user needs the first, to
// see why connections end in a flood. The second tells a user who guesses numbers of queue pairs
// which of them exist.
const (
	queueDrop  = "receive_queue_drop"
	filterDrop = "receive_filter_drop"
)

// hwCounters returns what all users may read of a device (/sys/class/infiniband/*/hw_counters): an
// adapter's counters, or those of rdma_rxe.
func hwCounters(spec proto.Spec, dev *rxe.Device, p *rocev2.Counters) []rxe.Counter {
	if _, ok := spec.ConnectX(); ok {
		return mlx5Counters(dev, p)
	}
	return append(dev.HWCounters(), rxe.Counter{Name: queueDrop, Value: p.ReceiveQueueDrop.Load()})
}

// socketCounters returns the counters of the port's sockets: all, or those that all users may read.
func socketCounters(p *rocev2.Counters, all bool) map[string]uint64 {
	if all {
		return maps.Collect(p.All())
	}
	return map[string]uint64{queueDrop: p.ReceiveQueueDrop.Load()}
}

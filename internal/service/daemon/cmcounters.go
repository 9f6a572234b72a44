package daemon

import (
	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/wire"
)

// cmMessages are the kernel's names of the messages (drivers/infiniband/core/cm.c,
// counter_group_names and the attributes below it).
var cmMessages = map[wire.CMAttribute]string{
	wire.AttrREQ: "req", wire.AttrMRA: "mra", wire.AttrREJ: "rej", wire.AttrREP: "rep", wire.AttrRTU: "rtu",
	wire.AttrDREQ: "dreq", wire.AttrDREP: "drep", wire.AttrSIDRREQ: "sidr_req", wire.AttrSIDRREP: "sidr_rep",
	wire.AttrLAP: "lap", wire.AttrAPR: "apr",
}

// cmCounters returns the directories of a port with the counts of the connection manager's
// messages.
func cmCounters(read func() cm.Counters) []tree.CounterDir {
	dir := func(name string, of func(*cm.Counters) *cm.MessageCounts) tree.CounterDir {
		return tree.CounterDir{Name: name, Read: func() []tree.Counter {
			c := read()
			list := make([]tree.Counter, 0, len(cmMessages))
			for a, name := range cmMessages {
				list = append(list, tree.Counter{Name: name, Value: of(&c).Of(a)})
			}
			return list
		}}
	}
	return []tree.CounterDir{
		dir("cm_tx_msgs", func(c *cm.Counters) *cm.MessageCounts { return &c.TxMsgs }),
		dir("cm_tx_retries", func(c *cm.Counters) *cm.MessageCounts { return &c.TxRetries }),
		dir("cm_rx_msgs", func(c *cm.Counters) *cm.MessageCounts { return &c.RxMsgs }),
		dir("cm_rx_duplicates", func(c *cm.Counters) *cm.MessageCounts { return &c.RxDuplicates }),
	}
}

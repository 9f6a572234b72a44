package daemon

import (
	"testing"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/wire"
)

// Each count of the connection manager is a file of the port.
func TestCMCounters(t *testing.T) {
	var c cm.Counters
	for i, counts := range []*cm.MessageCounts{&c.TxMsgs, &c.TxRetries, &c.RxMsgs, &c.RxDuplicates} {
		for a := range counts {
			counts[a] = uint64(100*i + a)
		}
	}
	dirs := cmCounters(func() cm.Counters { return c })
	for i, name := range []string{"cm_tx_msgs", "cm_tx_retries", "cm_rx_msgs", "cm_rx_duplicates"} {
		if dirs[i].Name != name {
			t.Errorf("directory %d is %s", i, dirs[i].Name)
		}
		values := make(map[string]uint64)
		for _, n := range dirs[i].Read() {
			values[n.Name] = n.Value
		}
		base := uint64(100 * i)
		if len(values) != 11 || values["req"] != base || values["mra"] != base+1 || values["sidr_rep"] != base+8 || values["apr"] != base+10 {
			t.Errorf("%s: %v", name, values)
		}
	}
	if len(cmMessages) != int(wire.AttrAPR-wire.AttrREQ)+1 {
		t.Errorf("%d names", len(cmMessages))
	}
}

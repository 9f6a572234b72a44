package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Counters counts messages. The first four are the kernel's cm_tx_msgs, cm_tx_retries,
// cm_rx_msgs and cm_rx_duplicates of a port. TxMsgs includes the retries.
type Counters struct {
	TxMsgs, TxRetries, RxMsgs, RxDuplicates MessageCounts

	Ignored    uint64 // datagrams with another class version, method or attribute
	Unexpected uint64 // messages for no connection, or not in its state
	Forged     uint64 // messages from another address or queue pair than the peer's
	Stale      uint64 // REQs and REPs that named the queue pair of a connection

	// REQs and SIDR_REQs dropped at a bound of Limits.
	OverConns, OverHalfOpen, OverListener, OverPeer uint64
	// OverBacklog counts those that the listener's handler dropped: verdict Ignore.
	OverBacklog uint64
}

// Drops returns the counters of requests that were dropped, and of messages that did not
// fit, by name.
func (c *Counters) Drops() []rxe.Counter {
	return []rxe.Counter{
		{Name: "drop_cm_conns", Value: c.OverConns},
		{Name: "drop_cm_half_open", Value: c.OverHalfOpen},
		{Name: "drop_cm_listener", Value: c.OverListener},
		{Name: "drop_cm_peer", Value: c.OverPeer},
		{Name: "drop_cm_backlog", Value: c.OverBacklog},
		{Name: "drop_cm_unexpected", Value: c.Unexpected},
		{Name: "drop_cm_forged", Value: c.Forged},
		{Name: "drop_cm_malformed", Value: c.Ignored},
		{Name: "cm_stale", Value: c.Stale},
	}
}

// MessageCounts has a count for each message.
type MessageCounts [wire.AttrAPR - wire.AttrREQ + 1]uint64

// Of returns the count of a message.
func (c *MessageCounts) Of(a wire.CMAttribute) uint64 { return c[a-wire.AttrREQ] }

func (c *MessageCounts) add(a wire.CMAttribute) { c[a-wire.AttrREQ]++ }

package cm

import "github.com/gorxe/gorxe/wire"

// Counters counts messages. The first four are the kernel's cm_tx_msgs, cm_tx_retries,
// cm_rx_msgs and cm_rx_duplicates of a port. TxMsgs includes the retries.
type Counters struct {
	TxMsgs, TxRetries, RxMsgs, RxDuplicates MessageCounts

	Ignored    uint64 // datagrams with another class version, method or attribute
	Unexpected uint64 // messages for no connection, or not in its state
	Stale      uint64 // REQs and REPs that named the queue pair of a connection

	// REQs and SIDR_REQs dropped at a bound of Limits.
	OverConns, OverHalfOpen, OverListener, OverPeer uint64
}

// MessageCounts has a count for each message.
type MessageCounts [wire.AttrAPR - wire.AttrREQ + 1]uint64

// Of returns the count of a message.
func (c *MessageCounts) Of(a wire.CMAttribute) uint64 { return c[a-wire.AttrREQ] }

func (c *MessageCounts) add(a wire.CMAttribute) { c[a-wire.AttrREQ]++ }

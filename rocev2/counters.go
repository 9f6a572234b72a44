package rocev2

import (
	"iter"
	"sync/atomic"
)

// Counters are a port's statistics. Each field only grows and may be read at
// any time. Bytes count from the BTH to the ICRC, both included.
type Counters struct {
	SentPackets atomic.Uint64
	SentBytes   atomic.Uint64
	SendCalls   atomic.Uint64 // sendmmsg calls

	// Packets that Send could not hand to the network.
	SendDropNoBuffer    atomic.Uint64 // EAGAIN, ENOBUFS, ENOMEM: queue full
	SendDropTooBig      atomic.Uint64 // EMSGSIZE: above the path's MTU
	SendDropUnreachable atomic.Uint64 // no route, interface down, address gone
	SendDropDenied      atomic.Uint64 // EPERM, EACCES: packet filter
	SendDropOther       atomic.Uint64

	_ [cacheLine]byte // so that the sending and receiving sides share no cache line

	ReceivedPackets atomic.Uint64 // with a good ICRC
	ReceivedBytes   atomic.Uint64
	ReceiveCalls    atomic.Uint64 // recvmmsg calls that returned packets

	ICRCErrors    atomic.Uint64 // packets dropped for their ICRC
	Malformed     atomic.Uint64 // packets shorter than BTH and ICRC
	Truncated     atomic.Uint64 // datagrams larger than a receive buffer
	ReceiveErrors atomic.Uint64 // recvmmsg calls that failed

	// Packets that the kernel dropped at the receiving sockets, as of the last call of
	// Port.Counters. ReceiveQueueDrop has too many of them if other sockets of the
	// network namespace lost packets at the same time.
	ReceiveQueueDrop  atomic.Uint64 // the socket's queue was full
	ReceiveFilterDrop atomic.Uint64 // to no queue pair of the device, or not from its peer

	ReceiverTakeovers atomic.Uint64 // times that a goroutine replaced a blocked one
}

// All yields every counter under the name that metrics and `gorxe` show.
func (c *Counters) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, e := range [...]struct {
			name  string
			value *atomic.Uint64
		}{
			{"sent_pkts", &c.SentPackets},
			{"sent_bytes", &c.SentBytes},
			{"send_calls", &c.SendCalls},
			{"send_drop_no_buffer", &c.SendDropNoBuffer},
			{"send_drop_too_big", &c.SendDropTooBig},
			{"send_drop_unreachable", &c.SendDropUnreachable},
			{"send_drop_denied", &c.SendDropDenied},
			{"send_drop_other", &c.SendDropOther},
			{"rcvd_pkts", &c.ReceivedPackets},
			{"rcvd_bytes", &c.ReceivedBytes},
			{"receive_calls", &c.ReceiveCalls},
			{"icrc_errors", &c.ICRCErrors},
			{"malformed", &c.Malformed},
			{"truncated", &c.Truncated},
			{"receive_queue_drop", &c.ReceiveQueueDrop},
			{"receive_filter_drop", &c.ReceiveFilterDrop},
			{"receive_errors", &c.ReceiveErrors},
			{"receiver_takeovers", &c.ReceiverTakeovers},
		} {
			if !yield(e.name, e.value.Load()) {
				return
			}
		}
	}
}

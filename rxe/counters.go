package rxe

import "sync/atomic"

// Counters counts what the device did since it was made. The first group has the
// names of rdma_rxe's hw_counters. The second has names of mlx5, because rdma_rxe has no
// congestion control. The third says why requests were sent again. The fourth says why
// packets were dropped or, on RC, refused with a NAK.
//
// Fields: one for each counter that programs can read.
type Counters struct {
	RcvdPkts         atomic.Uint64
	DuplicateRequest atomic.Uint64
	OutOfSeqRequest  atomic.Uint64
	RcvdRNRErr       atomic.Uint64
	SendRNRErr       atomic.Uint64
	RcvdSeqErr       atomic.Uint64
	AckDeferred      atomic.Uint64
	RetryExceeded    atomic.Uint64
	RetryRNRExceeded atomic.Uint64
	CompleterRetry   atomic.Uint64
	SendErr          atomic.Uint64
	LinkDowned       atomic.Uint64
	RDMASends        atomic.Uint64
	RDMARecvs        atomic.Uint64

	ECNMarked  atomic.Uint64 // packets received that a switch has marked
	SentCNP    atomic.Uint64
	HandledCNP atomic.Uint64 // a sender slowed down
	IgnoredCNP atomic.Uint64 // ECN is off, or it was for a UD QP

	AckTimeouts atomic.Uint64 // also the last one, after which nothing is sent again

	// Retries by cause. The first three add up to CompleterRetry.
	RetryTimeout, RetrySeqNAK, RetryImpliedNAK, RetryRNRNAK atomic.Uint64

	BadICRC       atomic.Uint64 // damaged within the device, by a fault rule
	Malformed     atomic.Uint64 // wire.Parse refused it
	BadQPN        atomic.Uint64 // no such QP
	BadState      atomic.Uint64 // the QP does not accept packets in its state
	BadType       atomic.Uint64 // of a transport service that is not the QP's
	BadPKey       atomic.Uint64
	BadQKey       atomic.Uint64
	BadAddr       atomic.Uint64 // not from the QP's peer, or to another address
	BadSrcQP      atomic.Uint64 // from a QP of this device that is not the QP's peer
	OwnAddr       atomic.Uint64 // over the network, from an address of this port
	BadOpcode     atomic.Uint64 // out of the message's sequence, or not permitted by the QP
	BadLength     atomic.Uint64 // violates the rules, or fits no receive buffer
	BadAccess     atomic.Uint64 // rkey, range or right; misaligned atomic; too many READs
	BadRecvWQE    atomic.Uint64 // the receive work request or its CQ could not take it
	NoRecvWQE     atomic.Uint64 // on UC and UD
	OutOfSeqDrop  atomic.Uint64 // request ahead of the expected PSN, already NAKed; UC gap
	StaleRequest  atomic.Uint64 // a duplicate of which no record is left
	GhostAck      atomic.Uint64 // response to a PSN that was never sent
	StaleResponse atomic.Uint64 // response to a request that has completed or was sent again
	BadResponse   atomic.Uint64 // response that does not fit its request
	InboxFull     atomic.Uint64 // too much queued for a QP that another thread has locked
	MemoryEnded   atomic.Uint64 // for the memory of a program that has ended

	ScribbledQueues atomic.Uint64 // of programs: Subdevice.QueueScribbled
}

// Counter is one counter's reading.
type Counter struct {
	Name  string
	Value uint64
}

const sentPkts = "sent_pkts"

// hwCounters is the number of counters of the first two groups.
const hwCounters = 15 + 4 // of struct rxe_counter_descs, and of mlx5

func (c *Counters) table() []struct {
	name string
	v    *atomic.Uint64
} {
	return []struct {
		name string
		v    *atomic.Uint64
	}{
		{sentPkts, nil},
		{"rcvd_pkts", &c.RcvdPkts},
		{"duplicate_request", &c.DuplicateRequest},
		{"out_of_seq_request", &c.OutOfSeqRequest},
		{"rcvd_rnr_err", &c.RcvdRNRErr},
		{"send_rnr_err", &c.SendRNRErr},
		{"rcvd_seq_err", &c.RcvdSeqErr},
		{"ack_deferred", &c.AckDeferred},
		{"retry_exceeded_err", &c.RetryExceeded},
		{"retry_rnr_exceeded_err", &c.RetryRNRExceeded},
		{"completer_retry_err", &c.CompleterRetry},
		{"send_err", &c.SendErr},
		{"link_downed", &c.LinkDowned},
		{"rdma_sends", &c.RDMASends},
		{"rdma_recvs", &c.RDMARecvs},

		{"np_ecn_marked_roce_packets", &c.ECNMarked},
		{"np_cnp_sent", &c.SentCNP},
		{"rp_cnp_handled", &c.HandledCNP},
		{"rp_cnp_ignored", &c.IgnoredCNP},

		{"ack_timeout", &c.AckTimeouts},
		{"retry_timeout", &c.RetryTimeout},
		{"retry_sequence_nak", &c.RetrySeqNAK},
		{"retry_implied_nak", &c.RetryImpliedNAK},
		{"retry_rnr_nak", &c.RetryRNRNAK},

		{"drop_bad_icrc", &c.BadICRC},
		{"drop_malformed", &c.Malformed},
		{"drop_bad_qpn", &c.BadQPN},
		{"drop_bad_state", &c.BadState},
		{"drop_bad_type", &c.BadType},
		{"drop_bad_pkey", &c.BadPKey},
		{"drop_bad_qkey", &c.BadQKey},
		{"drop_bad_addr", &c.BadAddr},
		{"drop_bad_src_qp", &c.BadSrcQP},
		{"drop_own_addr", &c.OwnAddr},
		{"drop_bad_opcode", &c.BadOpcode},
		{"drop_bad_length", &c.BadLength},
		{"drop_bad_access", &c.BadAccess},
		{"drop_bad_recv_wqe", &c.BadRecvWQE},
		{"drop_no_recv_wqe", &c.NoRecvWQE},
		{"drop_out_of_seq", &c.OutOfSeqDrop},
		{"drop_stale_request", &c.StaleRequest},
		{"drop_ghost_ack", &c.GhostAck},
		{"drop_stale_response", &c.StaleResponse},
		{"drop_bad_response", &c.BadResponse},
		{"drop_inbox_full", &c.InboxFull},
		{"drop_memory_gone", &c.MemoryEnded},

		{"queues_scribbled", &c.ScribbledQueues},
	}
}

// Counters returns every counter of the device, rdma_rxe's first.
func (d *Device) Counters() []Counter { return d.readCounters(len(d.counters.table())) }

// HWCounters returns the counters that rdma_rxe has, in its order, and those of congestion
// (/sys/class/infiniband/*/hw_counters).
func (d *Device) HWCounters() []Counter { return d.readCounters(hwCounters) }

// readCounters returns the first n counters. The packets sent are counted by opcode only.
func (d *Device) readCounters(n int) []Counter {
	t := d.counters.table()
	out := make([]Counter, n)
	for i := range out {
		out[i].Name = t[i].name
		if t[i].name == sentPkts {
			out[i].Value = d.sentPackets()
		} else {
			out[i].Value = t[i].v.Load()
		}
	}
	return out
}

// QueueScribbled counts a queue in the memory of a program that says what cannot be, or cannot be
// read.
func (s *Subdevice) QueueScribbled() { s.dev.counters.ScribbledQueues.Add(1) }

// BytesReceived returns how many bytes of payload the queue pair has received. It takes no lock.
func (q *QP) BytesReceived() uint64 { return q.tallies.stats.RcvdBytes.Load() }

// Counters returns every counter of the queue pair.
func (q *QP) Counters() []Counter {
	s := &q.tallies.stats
	list := []Counter{
		{"sent_packets", s.SentPackets.Load()},
		{"rcvd_packets", s.RcvdPackets.Load()},
		{"sent_bytes", s.SentBytes.Load()},
		{"rcvd_bytes", s.RcvdBytes.Load()},
		{"retransmits", s.Retransmits.Load()},
		{"timeouts", s.Timeouts.Load()},
		{"seq_naks_sent", s.SeqNAKsSent.Load()},
		{"seq_naks_rcvd", s.SeqNAKsRcvd.Load()},
		{"rnr_naks_sent", s.RNRNAKsSent.Load()},
		{"rnr_naks_rcvd", s.RNRNAKsRcvd.Load()},
		{"duplicates", s.Duplicates.Load()},
		{"out_of_sequence", s.OutOfSequence.Load()},
		{"dropped", s.Dropped.Load()},
	}
	for why := holdRNR; why < numHolds; why++ {
		list = append(list, Counter{holdNames[why], s.Waits.of(why).Load()})
	}
	return list
}

// retry returns the counter of retries for a cause.
func (c *Counters) retry(why Cause) *atomic.Uint64 {
	switch why {
	case CauseTimeout:
		return &c.RetryTimeout
	case CauseSequenceNAKs:
		return &c.RetrySeqNAK
	default:
		return &c.RetryImpliedNAK
	}
}

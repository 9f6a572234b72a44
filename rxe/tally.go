package rxe

import (
	"math/bits"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// Packets and work requests are counted by opcode. Threads share the counters of the
// device, so a packet must not cost an atomic addition. An outbox counts the packets of
// one step, and a QP what it sends and completes while it is locked. Both add their sums
// at the end. Consecutive packets mostly have the same opcode, so an outbox keeps the
// sum of one opcode only.

const (
	packetOpcodes = 1 << 8          // IBA 9.2: the BTH has 8 bits for it
	workOpcodes   = workRecvImm + 1 // WROpcode, and behind it workRecv and workRecvImm
)

// Receives have no WROpcode.
const (
	workRecv WROpcode = iota + WRAtomicWrite + 1
	workRecvImm
)

// opcodeCounters are the counters of the device.
type opcodeCounters struct {
	sent, rcvd packetCounters
	work       [workOpcodes]atomic.Uint64 // completed with success
	// completions with an error, of the send and of the receive queues, by status
	failed [2][wcStatuses]atomic.Uint64
}

// packetCounters counts packets by opcode.
type packetCounters [packetOpcodes]atomic.Uint64

// packetTally counts packets of one opcode until they are added to a device's counters.
type packetTally struct {
	op wire.Opcode
	n  uint64
}

// add counts n packets, and adds those of another opcode to c.
func (t *packetTally) add(op wire.Opcode, n uint32, c *packetCounters) {
	if op != t.op {
		t.moveTo(c)
		t.op = op
	}
	t.n += uint64(n)
}

// addMessage counts n consecutive packets of one message.
func (t *packetTally) addMessage(ops *messageOps, begins, ends bool, n uint32, c *packetCounters) {
	if n == 1 {
		t.add(ops.at(begins, ends), 1, c)
		return
	}
	if begins {
		t.add(ops[opFirst], 1, c)
		n--
	}
	last := uint32(0)
	if ends {
		last = 1
	}
	if n > last {
		t.add(ops[opMiddle], n-last, c)
	}
	if ends {
		t.add(ops[opLast], 1, c)
	}
}

// moveTo adds the tally to c and clears it.
func (t *packetTally) moveTo(c *packetCounters) {
	if t.n != 0 {
		c[t.op].Add(t.n)
		t.n = 0
	}
}

// trafficTally is what a QP received or sent since it was last counted.
type trafficTally struct{ packets, bytes uint64 }

// tallies are what a QP counts. Those but stats are added to counters before it is unlocked.
type tallies struct {
	rx, tx trafficTally
	done   workTally
	stats  QPCounters
}

// countTraffic adds what the QP received and sent to its counters.
func (q *QP) countTraffic() {
	if q.tallies.rx.packets > 0 {
		q.tallies.stats.RcvdPackets.Add(q.tallies.rx.packets)
		q.tallies.stats.RcvdBytes.Add(q.tallies.rx.bytes)
		q.tallies.rx = trafficTally{}
	}
	if q.tallies.tx.packets > 0 {
		q.tallies.stats.SentPackets.Add(q.tallies.tx.packets)
		q.tallies.stats.SentBytes.Add(q.tallies.tx.bytes)
		q.tallies.tx = trafficTally{}
	}
}

// workTally counts work requests that complete while the QP is locked.
type workTally struct {
	used uint32
	n    [workOpcodes]uint32
}

func (t *workTally) add(op WROpcode) {
	t.n[op]++
	t.used |= 1 << op
}

func (t *workTally) moveTo(to *[workOpcodes]atomic.Uint64) {
	for ; t.used != 0; t.used &= t.used - 1 {
		i := bits.TrailingZeros32(t.used)
		to[i].Add(uint64(t.n[i]))
		t.n[i] = 0
	}
}

func (st *step) countSent(op wire.Opcode, n uint32) {
	st.sent.add(op, n, &st.dev.opcodes.sent)
}

func (st *step) countRcvd(op wire.Opcode, n uint32) {
	st.rcvd.add(op, n, &st.dev.opcodes.rcvd)
}

// countPackets adds what this step has sent and received to the device's counters.
func (st *step) countPackets() {
	c := &st.dev.opcodes
	st.sent.moveTo(&c.sent)
	st.rcvd.moveTo(&c.rcvd)
}

// countFailed counts a completion, if it is one with an error.
func (c *opcodeCounters) countFailed(wc *WC) {
	if wc.Status != WCSuccess && int(wc.Status) < wcStatuses {
		c.failed[wc.Opcode/WCRecv][wc.Status].Add(1)
	}
}

// FailedWork returns how many work requests completed with this error: receives, or others.
func (d *Device) FailedWork(receives bool, s WCStatus) uint64 {
	queue := 0
	if receives {
		queue = 1
	}
	if s == WCSuccess || int(s) >= wcStatuses {
		return 0
	}
	return d.opcodes.failed[queue][s].Load()
}

// PacketCount is the number of packets with one opcode.
type PacketCount struct {
	Opcode         wire.Opcode
	Sent, Received uint64
}

// sentPackets returns how many packets the device has sent.
func (d *Device) sentPackets() (n uint64) {
	for i := range d.opcodes.sent {
		n += d.opcodes.sent[i].Load()
	}
	return n
}

// PacketCounts returns how many packets queue pairs have sent, and how many they have
// accepted, by opcode. Packets that were sent again count again. Opcodes without packets
// are left out.
func (d *Device) PacketCounts() (list []PacketCount) {
	for i := range packetOpcodes {
		n := PacketCount{wire.Opcode(i), d.opcodes.sent[i].Load(), d.opcodes.rcvd[i].Load()}
		if n.Sent|n.Received != 0 {
			list = append(list, n)
		}
	}
	return list
}

// WorkCounts returns how many work requests completed with success, by opcode. Receives
// are RECV, and RECV_RDMA_WITH_IMM for a WRITE with immediate data. Opcodes without
// completions are left out.
func (d *Device) WorkCounts() (list []Counter) {
	for i := range d.opcodes.work {
		n := d.opcodes.work[i].Load()
		if n == 0 {
			continue
		}
		name := WROpcode(i).String()
		switch WROpcode(i) {
		case workRecv:
			name = WCRecv.String()
		case workRecvImm:
			name = WCRecvImm.String()
		default:
		}
		list = append(list, Counter{name, n})
	}
	return list
}

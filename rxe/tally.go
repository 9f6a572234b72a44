package rxe

import (
	"math/bits"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// Packets and work requests are counted by opcode. Threads share the counters of the
// device, so a packet must not cost an atomic addition. An outbox counts the packets of
// one step, and a QP what completes while it is locked. Both add their sums at the end.

const (
	packetOpcodes = 256
	workOpcodes   = 18 // WROpcode, and behind it workRecv and workRecvImm
)

// Receives have no WROpcode.
const (
	workRecv WROpcode = iota + 16
	workRecvImm
)

// opcodeCounters are the counters of the device.
type opcodeCounters struct {
	sent, rcvd [packetOpcodes]atomic.Uint64
	work       [workOpcodes]atomic.Uint64 // completed with success
}

// packetTally counts packets until they are added to a device's counters.
type packetTally struct {
	n    [packetOpcodes]uint32
	used [packetOpcodes / 64]uint64 // bit i of it: n[i] is not 0
}

func (t *packetTally) add(op wire.Opcode, n uint32) {
	t.n[op] += n
	t.used[op/64] |= 1 << (op % 64)
}

// addMessage counts n consecutive packets of one message.
func (t *packetTally) addMessage(ops *messageOps, begins, ends bool, n uint32) {
	if n == 1 {
		t.add(ops.at(begins, ends), 1)
		return
	}
	if begins {
		t.add(ops[opFirst], 1)
		n--
	}
	if ends {
		t.add(ops[opLast], 1)
		n--
	}
	if n > 0 {
		t.add(ops[opMiddle], n)
	}
}

// moveTo adds the tally to counters and clears it.
func (t *packetTally) moveTo(to *[packetOpcodes]atomic.Uint64) {
	for w, used := range t.used {
		for ; used != 0; used &= used - 1 {
			i := w*64 + bits.TrailingZeros64(used)
			to[i].Add(uint64(t.n[i]))
			t.n[i] = 0
		}
		t.used[w] = 0
	}
}

// workTally counts work requests that complete while the QP is locked.
type workTally struct {
	n    [workOpcodes]uint32
	used uint32
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

// countPackets adds what this step has sent and received to the device's counters.
func (o *outbox) countPackets() {
	c := &o.dev.opcodes
	o.sent.moveTo(&c.sent)
	o.rcvd.moveTo(&c.rcvd)
}

// PacketCount is the number of packets with one opcode.
type PacketCount struct {
	Opcode         wire.Opcode
	Sent, Received uint64
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

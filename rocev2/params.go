package rocev2

import "time"

// All numbers of this package, except those of the kernel's ABI and of the specifications. They
// were chosen on a virtual machine with two processors, x86-64, Linux 6.18, between two daemons
// joined by a veth (docs/performance.md). What is said of twice and half of a number is reasoned
// and not measured.

// Defaults of Config.
const (
	// DefaultSourcePorts is how many sockets send (but see Config.SourcePorts). Flows are spread
	// over them, as over a network's paths. Twice: eight descriptors for each address. Half: two
	// paths.
	DefaultSourcePorts = 4
	// maxSourcePorts bounds it: each is a descriptor for each address.
	maxSourcePorts = 64
	// DefaultSocketBuffer is in bytes: 2 ms of a link of 32 Gb/s. Twice: 16 MiB for each sending
	// socket may be in the kernel. Half: Send waits for room more often.
	DefaultSocketBuffer = 8 << 20
)

// Receiving.
const (
	// recvBatchLen is how many datagrams one recvmmsg call takes. With GRO, one datagram may hold
	// dozens of packets. GRO does not join packets without a UDP checksum, such as those of Linux's
	// rdma_rxe, and for these the batch matters. Twice: 2 MiB of buffers for each reader. Half:
	// twice the system calls with rdma_rxe.
	recvBatchLen = 16
	// recvBatchBytes is how much one call should take, so that the packets are still in the
	// processor's cache when they are checked and copied. It matters when GRO joins packets. Four
	// messages of 64 KiB, which the engine sends with one call, fit with their headers. Twice: they
	// leave a cache of 512 KiB. Half: two calls for what one sent.
	recvBatchBytes = 288 << 10
	// recvBufferLen holds the largest datagram that GRO makes: 64 KiB. Less would truncate it.
	recvBufferLen = 65536
	// recvCmsgs is how many control messages a datagram brings: TOS, TTL, the segment size, and
	// two to spare. Fewer: MSG_CTRUNC.
	recvCmsgs = 5
	// flowCacheLen bounds the flows whose ICRC state is kept: 8 KiB. Half: with more flows
	// than that, packets compute the state of 60 bytes again.
	flowCacheLen = 64
	// maxPeers bounds the addresses with a wire.DFHint: 256 KiB for each reader. Beyond that they
	// are forgotten together.
	maxPeers = 4096
	// receiveRoom is the size of a receiving socket's buffer, in units of Config.SocketBuffer. A
	// packet that does not fit is lost, and UC does not send it again. Half: UC loses packets while
	// programs poll on both processors.
	receiveRoom = 4
	// cacheLine keeps the counters of senders and receivers apart: the bytes of a line on x86-64
	// and arm64.
	cacheLine = 64
	// dropsFileBytes holds /proc/net/snmp or snmp6 of a kernel with twice today's counters.
	dropsFileBytes = 16 << 10
)

// Sending.
const (
	// A full socket buffer means that the interface is the bottleneck. Send waits this long for
	// room, which paces the sender. After that the packets are lost, as on any congested path, and
	// the transport retransmits them. Twice: a queue pair is locked for 20 ms. Half: a slow link
	// loses packets that would have gone.
	sendWaitMillis = 10
	// sendBatchLen is how many messages one sendmmsg call takes, and sendPieces the most pieces of
	// memory that their packets lie in. A piece is a run of packets. Half: a thousand queue pairs
	// that send an acknowledgement each need twice the calls. Twice: 15 KiB more for each socket.
	sendBatchLen = 32
	sendPieces   = 256
	// sendCmsgs is how many control messages a message has: TOS, TTL, the segment size.
	sendCmsgs = 3
)

// Threads that wait for packets.
const (
	// idleTime without a packet ends that (Threads.idle, except in tests). Twice: a program that
	// ended keeps a thread for two seconds. Half: one that sends twice a second changes all the
	// time.
	idleTime = time.Second
	// defaultCloseTimeout is how long Close and the removal of an address wait for a call of
	// Receiver to return. Twice: a daemon ends later if a program's memory does not answer.
	defaultCloseTimeout = time.Second
)

// The filter of sockets, and the thinning of packets to QP 1.
const (
	// maxFilterPeers is how many addresses a program compares with. With more peers, packets of any
	// address pass. A user has at most a quarter (rxe: filterShare). The kernel allows 4,096
	// instructions (BPF_MAXINSNS), and an address takes two and a part. Twice: it does not fit.
	maxFilterPeers = 1024
	// leafPeers is how many addresses are compared one after the other. Twice: 8 more comparisons
	// for each packet. Half: twice the branches in the program.
	leafPeers = 8
	// managementRate is about how many packets to QP 1 pass in a second, one in each managementGap.
	// The port looks at the rate after each managementBatch. Twice: a flood takes twice the
	// processor time. Half: 5,000 connections a second.
	managementRate  = 10_000
	managementGap   = time.Second / managementRate
	managementBatch = 1_000
	// thinningStep is the change when too many come: an eighth of them passes.
	thinningStep = 3
	// maxThinning bounds how few pass: one in 2^maxThinning.
	maxThinning = 15
	// thinningPeriod is how long a thinning lasts. It begins again at once if the packets still
	// come too fast. Twice: a host that stopped a flood connects two seconds later.
	thinningPeriod = time.Second
)

// Addresses, links and captures.
const (
	// maxGIDs bounds the GID table; each entry costs the port its sockets.
	maxGIDs = 64
	// memorySpeed stands for a link that is the machine's memory, in Mb/s: what the device moves
	// over loopback on two processors, to the next rate that a port can have. The kernel has no
	// speed for lo, and 10 Gb/s for a veth, whatever the machine.
	memorySpeed = 40000
	// freeAttempts is how many addresses OnFreeLoopback tries. Of four million, few are taken.
	freeAttempts = 64
	// tapBuffer is the buffer of a capture, in bytes: a full super-packet. Half: two writes for it.
	tapBuffer = 1 << 16
	// maxNote bounds a comment in a capture, in bytes.
	maxNote = 1 << 10
	// followerBytes is what waits for a program that follows a capture. Twice: its user pays more.
	// Half: a program that stands still for a moment misses packets earlier.
	followerBytes = 4 << 20
	// tapPeers and tapRequests bound the work requests that a capture knows: queue pairs, and
	// requests of each. More requests are under way only with very deep queues.
	tapPeers, tapRequests = 1 << 10, 1 << 8
	// tapRequestBytes is the memory of one of them (TestTapWorkBounds).
	tapRequestBytes = 16
	// statisticsBlock is an Interface Statistics Block of pcapng with one option, isb_ifdrop, of
	// eight bytes.
	statisticsBlock, statisticsLength, optionIfDrop = 5, 40, 5 | 8<<16
)

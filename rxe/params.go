package rxe

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

// All limits and tunings of this package. A number that stands elsewhere is the specification's, or
// the ABI's, and a comment there cites its source.
//
// What a comment says was measured was measured on virtual machines with two processors, x86-64,
// Linux 6.18, on which a trapped call took 6 to 12 µs (docs/performance.md). A larger machine was
// not available. The other numbers were reasoned, and "twice" and "half" say what to expect.

// Units.
const (
	microsecond  = Time(time.Microsecond)
	second       = int64(time.Second)
	bytesPerMbps = 1_000_000 / 8
)

// What is read from a program's memory with one call (docs/design/0065).
const (
	// aheadMessage is the longest short message, in bytes. Short ones to another device leave with
	// fewer others, because their receiver would have less to do meanwhile. Measured (0065): WRITEs
	// of 4 KiB in an outbox of wideBytes lose a fifth. Twice: the same for 32 KiB. Half: messages
	// of 16 KiB fill wide outboxes.
	aheadMessage = 16 << 10
	// aheadMessages is how many messages one call reads. Twice: no faster, and the last one waits
	// longer. Half: twice the calls for messages of 8 bytes.
	aheadMessages = 64
	// itemsAtOnce is how many super-packets one call reads. Of 64 KiB these are four, because a
	// requester then yields (yieldBytes). Twice: the first of them leave the processor's second
	// cache. Half: twice the calls for messages of 8 KiB.
	itemsAtOnce = 8
	// framesAtOnce is how many raw frames one call reads, as far as they fit an item. Twice: frames
	// of 1 KiB do not fit. Half: twice the calls.
	framesAtOnce = 64
	// maxSpans is how many pieces wait for one call of a Memory. Twice: IOV_MAX of Linux, which a
	// message with a gap before each piece would exceed. Half: SENDs of 64 pieces take twice the
	// calls.
	//
	maxSpans = 512
)

// What is sent at once.
const (
	// burstBytes is what one UDP_SEGMENT message takes: with IP and UDP headers it fits 64 KiB, the
	// limit of an IP packet. Twice: the kernel refuses it. Half: twice the system calls.
	burstBytes = 64<<10 - 128
	// burstPackets is UDP_MAX_SEGMENTS of Linux. Links split where it is less. Twice: links split.
	// Half: twice the messages with small MTUs.
	burstPackets = 128
	// maxBursts is how many bursts an outbox holds. Twice: 16 KiB more for each outbox, and no
	// use for it was seen. Half: too few for several long messages behind some small ones.
	maxBursts = 256
	// groupBytes and groupPackets bound what is gathered at once for a QP of this device. Twice:
	// the receiver waits longer for the first byte, and large items take twice the memory. Half:
	// twice the calls for messages of 64 KiB.
	groupBytes   = 64 << 10
	groupPackets = 256
	// messageBursts bounds the bursts that the packets of a message need: its first, middle and
	// last packets differ in size. Others begin where one is full, for which groupBursts has room
	// in a group.
	messageBursts = 5
	groupBursts   = messageBursts + groupPackets/burstPackets + groupBytes/burstBytes
	// outboxBytes is the memory of an outbox: a group of packets of any size.
	outboxBytes = groupBytes + groupPackets*(maxHeader+wire.ICRCLen) + groupBursts*lineBytes
	// wideBytes is the memory of a wide outbox, for long messages to another device: four of 64
	// KiB, which leave with one system call. Measured (0065): with half of it, half of the gain.
	// With twice of it, no more gain.
	wideBytes = 4 * outboxBytes
	// lineBytes is the size of a processor's cache line. Payload begins at a multiple of it
	// (align.go).
	lineBytes = 64
)

// How long one queue pair keeps others waiting.
const (
	// yieldBytes is what a requester sends before the receivers on the same device run: inboxes are
	// bounded, and so are caches. Measured: a half and a quarter of it change nothing. Twice: large
	// messages leave the second cache before they are received.
	yieldBytes = 256 << 10
	// visitBytes is what a QP receives before it answers, however long the batch is. A sender whose
	// whole window came in one batch must not stand idle until the last byte of it is copied.
	// Twice: it does. Half: more ACKs, each a system call.
	visitBytes = 256 << 10
	// deliverRounds is after how many QPs the thread that delivers reads the clock again. Twice:
	// deadlines are later. Half: a clock read costs 40 ns.
	deliverRounds = 16
	// inboxRounds is how often a thread runs what others queue for a QP meanwhile. Then the clock's
	// thread takes over, so that no thread is delayed for ever. Twice: a thread is delayed for
	// longer. Half: the clock's thread takes over from threads that would have finished.
	inboxRounds = 16
	// qpListCut is after how many QPs a list of them is moved to the front of its memory. Twice:
	// more memory. Half: more copies.
	qpListCut = 64
)

// The window of a sender.
const (
	// windowBytes and windowPackets are unacknowledged at most, in either direction. Twice: the
	// socket buffer of a slow receiver overflows. Half: two daemons wait for ACKs.
	windowBytes   = 1 << 20
	windowPackets = 1024
	// minWindow, in packets, is left whatever was lost. Twice: a receiver of few buffers loses
	// more. Half: recovery takes longer.
	minWindow = 16
	// windowGrowth is the part by which the window grows with an acknowledgement. Twice: slower.
	// Half: a receiver that lost packets loses more at once.
	windowGrowth = 16
	// readChunks is how many READ requests fit into the window: the responder always has one to
	// answer. Twice: bursts are not full. Half: the responder waits for requests.
	readChunks = 4
	// ackEveryPackets is after how many packets a long message asks for an ACK, and ackShare the
	// part of the window after which it does. Twice: the window may close. Half: twice the ACKs,
	// each a system call.
	ackEveryPackets = 128
	ackShare        = 4
	// readRingMin is the first size of the ring of outstanding READs, a power of two. Twice: more
	// memory for each QP that reads. Half: one more growth.
	readRingMin = 4
)

// Admission of queue pairs (admission.go, docs/design/0007).
const (
	// defaultActiveQPs is how many RC QPs have work under way. Measured (0007): a message over a
	// thousand QPs then costs 1.2 times a message over one. Twice: 1.4 times. Half: 1.4 times.
	defaultActiveQPs = 32
	// admissionDelay is how long peers that do not answer delay others. Twice: the delay shows in
	// latencies. Half: a busy peer counts as one that does not answer.
	admissionDelay = 250 * microsecond
)

// Held acknowledgements (ackhold.go, docs/design/0036).
const (
	// ackHoldTime is how long an acknowledgement is held at most. It is far below the local ACK
	// timeout of any peer (minAckTimeout; a jiffy or more with rdma_rxe). Twice: a peer that waits
	// for it waits twice as long, once. Half: programs that need 200 µs for an answer gain nothing.
	ackHoldTime = 250 * microsecond
	// ackHoldAnswers is how many messages in a row the program must have answered within
	// ackHoldTime before an acknowledgement is held. Twice: the gain begins later. Half: a program
	// that answers now and then has its acknowledgements delayed.
	ackHoldAnswers = 3
	// ackHoldPackets is how many packets one held acknowledgement may cover. A peer that sends a
	// stream must not find its window closed. Twice: half of the smallest window (minWindow) is too
	// little. Half: answers to bursts of messages cost an ACK.
	ackHoldPackets = 16
)

// Deadlines.
const (
	// minAckTimeout is the shortest local ACK timeout. The kernel's rdma_rxe rounds up to a jiffy
	// (1 to 10 ms) for the same reason: a shorter timeout expires while the peer's process waits
	// for a CPU. Twice: a lost packet costs more. Half: duplicates on a busy machine.
	minAckTimeout = time.Millisecond
	// maxBackOff is how often the local ACK timeout doubles at most (docs/design/0036). Twice:
	// longer than IBA 9.7.6.1.3 allows. Measured (0036): with 0, retries run out while the peer
	// waits for a CPU.
	maxBackOff = 2
)

// READ responses (pacing_read.go).
const (
	// readQuantumBytes and readQuantumPackets are sent at once. Twice: a peer with small buffers
	// loses data. Half: more calls.
	readQuantumBytes   = 256 << 10
	readQuantumPackets = 1024
	// readQuantumMin is the smallest quantum, in packets, after losses. Twice: peers with small
	// buffers lose more. Half: they get less.
	readQuantumMin = 16
	// readPauseMin is the shortest pause between two quanta; a shorter one is none, because a
	// thread cannot keep it. readPauseFirstMax bounds the pause after a first loss, and
	// readPauseMax each. Twice: a peer that lost one packet is slow for longer. Half: a slow peer
	// loses data again.
	readPauseMin      = 20 * microsecond
	readPauseFirstMax = 1000 * microsecond
	readPauseMax      = 5000 * microsecond
	// A loss makes the pause pauseGrowth times as long at least, and pauseGrowthMax times at most.
	// The quantum becomes 1/takenShare of what the peer took before the loss. Pauses follow the
	// peer's rate within two losses.
	pauseGrowth    = 4
	pauseGrowthMax = 8
	takenShare     = 4
	// The responder speeds up after speedUpQuanta quanta without a loss, and after the time that
	// the peer took to report the last one, speedUpDelayMax at most. Twice: slower recovery. Half:
	// the loss before may not be reported yet.
	speedUpQuanta   = 8
	speedUpDelayMax = 50_000 * microsecond
	// A step of a thread is a batch of received packets, or the inbox of one QP. It sends
	// readStepBytes of READ responses, which is what gorxe's requester asks for at once, and at
	// most a burst more (wholeReads). The clock's thread sends the rest, a quantum of each QP in
	// turn, and returns after expireReadBytes. Twice: others wait longer. Half: the clock's thread
	// has more to do.
	readStepBytes   = windowBytes
	expireReadBytes = readQuantumBytes
)

// UC, which has no window (flow.go).
const (
	// ucPauseBytes is how much may be queued in the inbox of a receiver on this device before its
	// sender pauses for ucPauseStep. A receiver that has taken nothing for ucPauseLimit gets no
	// more consideration than on a network. Twice: less room for senders that do not know of each
	// other. Half: more pauses.
	ucPauseBytes = inboxLimit / 4
	ucPauseStep  = 100 * microsecond
	ucPauseLimit = 100_000 * microsecond
	// ucQuantum is what a sender over the network sends before it pauses for ucQuantumPause, so
	// that a receiver on the same machine gets more of the CPU. Twice: the receiver's socket buffer
	// overflows. Half: less throughput.
	ucQuantum      = 4 << 20
	ucQuantumPause = 100 * microsecond
	// ucLate is how far behind the expected PSN, in packets, a UC packet counts as a duplicate, or
	// as one that others overtook; it is dropped. A packet further behind shows that the stream has
	// jumped ahead by more than half the PSN circle. Twice: a jump is taken for late packets more
	// often. Half: networks that reorder by more than a second are not expected.
	ucLate = 1 << 15
	// mostStrays is how many datagrams with a wrong Q_Key a UD queue pair reports. Twice: reports
	// of strangers' datagrams displace more of the others. Half: there may be more senders.
	mostStrays = 16
)

// Congestion (ecn.go, dcqcn.go).
const (
	// alphaOne is the alpha of 1, and alphaKeepOne the unit of ECN.AlphaKeep.
	alphaOne     = 1 << 20
	alphaKeepOne = 1024
	// A device in software sends more slowly than its port says. So a CNP lowers the rate that was
	// measured since the CNP before, if that is from measureMin to measureMax long and so tells the
	// rate of a busy sender. The sender may have been idle all the same, so the rate that counts is
	// 1/measuredLeast of the one before at least. Twice or half: convergence takes a CNP more or
	// less.
	measureMin    = 50 * microsecond
	measureMax    = 1000 * microsecond
	measuredLeast = 4
	// A limited sender pauses for paceQuantum, which a thread can keep, and then sends what it may
	// have sent meanwhile. A thread that wakes late has missed no more than creditMax. Twice:
	// larger bursts. Half: more pauses than a thread can keep.
	paceQuantum = 100 * microsecond
	creditMax   = 5 * paceQuantum
	// A port of 1/lineFloor of a rate may go below ECN.MinRate, and a rate within 1/lineNear of the
	// port rate is no limit.
	lineFloor = 16
	lineNear  = 1024
)

// DefaultECN returns the defaults. With less than 100 Mb/s, the packets of a message would come
// so slowly that the shortest local ACK timeout expires between two of them.
func DefaultECN() ECN {
	return ECN{
		CNPInterval: 50, CNPDSCP: 48,
		AlphaTimer: 55, AlphaKeep: 1020, RateTimer: 55, RateBytes: 10_000_000, Threshold: 5,
		RateAI: 40, RateHAI: 400, MinRate: 100,
	}
}

// Params returns the parameters of e.
func (e *ECN) Params() []ECNParam {
	return []ECNParam{
		{"min_time_between_cnps", &e.CNPInterval, 0, 1_000_000, "µs", "a queue pair sends one CNP in this time at most"},
		{"cnp_dscp", &e.CNPDSCP, 0, 63, "", "the DSCP of CNPs"},
		{"dce_tcp_rtt", &e.AlphaTimer, 1, 1_000_000, "µs", "time without a CNP until alpha falls"},
		{"dce_tcp_g", &e.AlphaKeep, 1, 1023, "/1024", "factor by which alpha falls: 1-g"},
		{"rpg_time_reset", &e.RateTimer, 1, 1_000_000, "µs", "time between two increases of the rate"},
		{"rpg_byte_reset", &e.RateBytes, 4096, 1 << 30, "B", "data between two increases of the rate"},
		{"rpg_threshold", &e.Threshold, 1, 31, "", "increases of fast recovery, before additive ones"},
		{"rpg_ai_rate", &e.RateAI, 1, 100_000, "Mb/s", "an additive increase"},
		{"rpg_hai_rate", &e.RateHAI, 1, 100_000, "Mb/s", "a hyper increase"},
		{"rpg_min_rate", &e.MinRate, 1, 100_000, "Mb/s", "the rate does not fall below it"},
	}
}

// Packets that wait in memory of the device, in bytes. Each has a limit for one QP, and a lower one
// once all QPs together have much: only QPs whose threads are blocked by program memory bring that
// about. What does not fit is dropped, as by any receiver that is overrun, and RC recovers.
const (
	// inboxLimit is for what waits for a locked QP. The windows of two directions fit in it. Twice:
	// a blocked QP holds more. Half: two streams at once lose packets.
	inboxLimit         = 4 << 20
	inboxesScarceAbove = 64 << 20
	inboxLimitScarce   = 128 << 10
	// inboxLimitUnreliable applies to UC and UD QPs while all inboxes together have no more. Their
	// senders have no window, nobody repeats what is lost, and the thread that has locked the QP
	// may be waiting for a CPU. Half: a stream over UD loses messages sooner. Twice: a blocked QP
	// holds more.
	inboxLimitUnreliable = 32 << 20
	// deferredLimit is for requests that wait for READs: a window fits. With deferredLimitAll none
	// may defer more. Half: a stream of WRITEs behind a READ is dropped and sent again.
	deferredLimit       = inboxLimit / 2
	deferredLimitScarce = inboxLimitScarce
	deferredScarceAbove = deferredLimitAll / 2
	deferredLimitAll    = 32 << 20
	// gsiInboxLimit is for what QPs of this device have sent to queue pair 1. Twice: more memory
	// for a handler that does not keep up. Half: a thousand connections at once lose messages.
	gsiInboxLimit = 1 << 20

	// smallItemBytes is the memory for a few small packets. largeItemBytes is enough for a full
	// burst and for any group of packets. It is that of an outbox, because a large item and an
	// outbox may exchange their memory (deliverWhole). Twice: small messages use up inboxLimit
	// sooner. Half: messages of 4 KiB take large items.
	smallItemBytes = 4 << 10
	largeItemBytes = outboxBytes
	// itemPackets is for how many packets of the size of the first an item has room. Twice: large
	// items for packets of 1 KiB. Half: an item for every second packet.
	itemPackets = 4
	// endBytes is the memory of the end of a packet in an item.
	endBytes = 4
)

// Receives that a program posts in ERR (recvlate.go).
const (
	// lateFirst is the shortest pause between two looks. A pause is 1/lateGrowth of the time since
	// ERR, so a receive that is posted within six seconds is flushed within 100 ms. Twice: a
	// program that drains waits longer. Half: more looks.
	lateFirst  = 4000 * microsecond
	lateGrowth = 64
	// lateEach is the pause for each QP of the device that is looked at: many QPs in ERR cost no
	// more than 20,000 looks a second. lateVisits is how many QPs a request for a notification
	// looks at.
	lateEach   = 50 * microsecond
	lateVisits = 64
)

// Chaos (chaos.go, docs/design/0038).
const (
	// lateForPeer bounds pauses that a peer notices. It is far below minAckTimeout, so no peer
	// takes what was not sent yet for lost. Five times as much: retransmissions.
	lateForPeer = 200 * time.Microsecond
	// lateScales is how many powers of two of a microsecond a delay may have. Each is as probable,
	// for programs of any speed.
	lateScales = 15
	// lateOdds is the denominator of oddsOf.
	lateOdds = 64
	// lateWritesLimit bounds the bytes that one QP holds back, lateWritesLimitAll those of the
	// device, latePieces the pieces of one QP and lateReceives its completions. Beyond them nothing
	// is late.
	lateWritesLimit    = 256 << 10
	lateWritesLimitAll = 32 << 20
	latePieces         = 256
	lateReceives       = 256
	// lateCuts is how often one span is cut.
	lateCuts = 4
)

// mostLate is the longest delay of each thing. Far more: programs run into timeouts of their own.
var mostLate = [numLateness]time.Duration{
	latePost:     16 * time.Millisecond,
	lateSource:   lateForPeer,
	lateResponse: lateForPeer,
	latePlace:    16 * time.Millisecond,
	lateReceive:  8 * time.Millisecond,
	lateSend:     8 * time.Millisecond,
}

// oddsOf are what a QP draws its odds from: some QPs delay a thing always, others seldom.
var oddsOf = [...]int{4, 16, 32, lateOdds}

// Numbers of queue pairs (filter.go, filterpeers.go).
const (
	// spareNumbers is how many numbers with the right mark there are at least for each queue pair,
	// so that a peer that knows the mark still has to guess. Twice: shorter marks. Half: easier to
	// guess.
	spareNumbers = 4
	// Config.Mark has at most maxMarkBits: one number in 256. With fewer than minMarkBits, marks
	// are the same for all kinds.
	maxMarkBits = 8
	minMarkBits = 2
	// filterShare is how many peers of one user the filter lists. Twice: four users fill the
	// filter's map. Half: programs with many peers are not filtered by address.
	filterShare = 256
)

// Ethernet frames (raw.go).
const (
	// MinFrame is the length of an Ethernet header, which is the shortest frame here (IEEE 802.3).
	MinFrame = 14
	// MaxFrame is the longest frame, in bytes, and what a work request sends at most: headers, and
	// 64 KiB that are cut into segments. Twice: no item has room. Half: segments of fewer bytes
	// than adapters cut.
	MaxFrame = 64<<10 + 256
	// wordPart is the size of the parts of FrameSend.Word, in bits.
	wordPart = 16
	// The tag of a frame stands behind the two addresses, and has four bytes (IEEE 802.1Q). A check
	// sequence has four, too (IEEE 802.3).
	vlanAt   = 12
	vlanSize = 4
	fcsSize  = 4
)

// Memory of tables and queues.
const (
	// numTableMin is the first size of a table of objects by number, a power of two.
	numTableMin = 16
	// fewAddrs is up to how many addresses a search is faster than a map.
	fewAddrs = 8
	// sendEntryBytes is the memory of a sendEntry without its lists, but with its fault and its
	// bind.
	sendEntryBytes = 320
	// LatencySample is how many work requests of a queue pair come for each one that is timed.
	// Half: two more readings of the clock in eight requests.
	LatencySample = 16
	// latencyBuckets are powers of two, from 1 µs to 16 s and above.
	latencyBuckets = 26
	// useDying is above any number of accesses in flight (keys.go).
	useDying = 1 << 62
	// maxXRCDs is how many XRC domains a device has. Twice: more memory for hostile programs.
	maxXRCDs = 1 << 16
	// memoryPage is the unit of LimitMemory, in bytes.
	memoryPage = 4096
	// leastHeaders is what the shortest packet has beside its payload, in bytes: IPv4 (RFC 791),
	// UDP (RFC 768), BTH and ICRC (IBA 9.2, 9.2.4).
	leastHeaders = 20 + 8 + 12 + 4
)

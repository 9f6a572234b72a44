package sim

import (
	"math/rand/v2"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// params describes a run completely.
type params struct {
	seed      uint64
	net       simnet.Config
	v6        bool
	oneCQ     bool
	srq       bool
	memory    int           // bytes of each host
	thinkTime time.Duration // between postings, at most
	recvDelay time.Duration // of receives, at most
	tap       bool          // see packets between QPs of one device
	activeQPs int           // of QPs, at most; 0: the default, which these never reach
	chaos     bool          // do late what the specification lets a device do late

	costlyMemory bool // access the memory for several messages together

	pairs []pairParams
}

// scale is how long the messages of a run are.
type scale uint8

const (
	shortMessages scale = iota // up to 12 KiB
	longMessages               // many of 16 to 64 KiB in a row, whose payloads are read together
	bigMessages                // up to megabytes
)

// pairParams are those of two connected QPs.
type pairParams struct {
	typ       rxe.QPType
	mtu       rxe.MTU
	hosts     [2]int
	ops       [2]int
	psn       [2]wire.PSN
	depth     int // of the send queues
	recvDepth int
	maxSize   int // bytes of a message
	target    int // bytes
	signalAll bool
	signaled  int // percent
	rdAtomic  uint8
	rnrTimer  uint8
	timeout   uint8
	retryCnt  uint8
	flowLabel uint32
	pause     bool // through SQD, now and then
	xrc       bool // of XRC: typ is RC, and the second one has no work
	long      bool // most messages are SENDs and WRITEs of 16 KiB or more
}

// giveUpAfter sets how often each QP of the run repeats a request.
func (p *params) giveUpAfter(retries uint8) {
	for i := range p.pairs {
		p.pairs[i].retryCnt = retries
	}
}

func (p *params) lossy() bool { return p.net.Loss+p.net.Corrupt+p.net.Reorder > 0 }

// maxRecv is the size of a receive buffer that any QP may take.
func (p *params) maxRecv() int {
	n := 0
	for _, pp := range p.pairs {
		n = max(n, pp.maxSize+grhSpace(pp.typ))
	}
	return n
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// drawParams draws the parameters of a run.
func drawParams(seed uint64, size scale) params {
	r := rand.New(rand.NewPCG(seed, 0))
	p := params{
		seed:      seed,
		v6:        r.IntN(3) == 0,
		oneCQ:     r.IntN(2) == 0,
		srq:       r.IntN(4) == 0,
		memory:    192 << 10,
		thinkTime: pick(r, 0, 5*time.Microsecond, 100*time.Microsecond),
		recvDelay: pick(r, 0, 10*time.Microsecond, time.Millisecond),
	}
	p.net = drawFaults(r)
	p.net.Seed = seed
	if seed%5 == 0 {
		p.net.Mark = 0.1
	}
	p.tap = seed%2 == 0
	p.costlyMemory = seed/3%2 == 0
	p.activeQPs = int(seed / 2 % 4)
	p.chaos = seed%3 == 0
	// packets bounds a message, so that retries have a chance against the losses.
	// TestSeeds bounds the number of runs that exceed them.
	packets := 400
	switch loss := p.net.Loss + p.net.Corrupt; {
	case loss > 0.12:
		packets = 24
	case loss > 0.05:
		packets = 100
	}
	if size == bigMessages {
		p.memory = 32 << 20
		packets *= 10
		// With one packet per batch, a receiver needs longer for a window of small
		// packets than the shortest timeouts allow.
		p.net.MaxBatch = max(p.net.MaxBatch, 4)
	}
	n := pick(r, 1, 1, 1, 2, 3)
	for range n {
		p.pairs = append(p.pairs, drawPair(r, packets, p.memory/(16*n)))
	}
	if size == longMessages {
		p.lengthen(r, packets)
	}
	if seed%7 == 5 {
		p.useXRC(seed/7%2 == 0)
	}
	return p
}

// lengthen makes messages long, and the engine read the payloads of several with one call.
func (p *params) lengthen(r *rand.Rand, packets int) {
	p.costlyMemory = true
	p.net.MaxBatch = max(p.net.MaxBatch, 4) // as for big messages
	n := len(p.pairs)
	longest := pick(r, 64<<10, 64<<10, 256<<10/n)
	p.memory = 16*n*longest + 1<<20 // a quarter of that, and 1 MiB, remain for payloads
	for i := range p.pairs {
		p.pairs[i].lengthen(r, packets, longest)
	}
}

func (p *pairParams) lengthen(r *rand.Rand, packets, longest int) {
	if p.typ == rxe.QPUD {
		return
	}
	p.long = true
	p.mtu = pick[rxe.MTU](r, 1024, 2048, 4096, 4096)
	p.depth = 4 + r.IntN(13)
	p.limit(packets, longest)
}

// drawFaults draws none, some, or up to 20 percent of each.
func drawFaults(r *rand.Rand) simnet.Config {
	c := simnet.Config{
		Latency:   pick(r, time.Microsecond, 5*time.Microsecond, 40*time.Microsecond),
		ReorderBy: pick(r, 2*time.Microsecond, 20*time.Microsecond, 300*time.Microsecond),
		PerByte:   pick[time.Duration](r, 0, 0, 1),
		MaxBatch:  pick(r, 1, 4, 64),
	}
	level := pick(r, 0, 0.01, 0.03, 0.05, 0.1, 0.2)
	for _, f := range [...]*float64{&c.Loss, &c.Duplicate, &c.Reorder, &c.Corrupt} {
		if r.IntN(2) == 0 {
			*f = pick(r, level, r.Float64()*level)
		}
	}
	// Retries have to overcome losses, and corruption causes losses too.
	c.Corrupt = min(c.Corrupt, 0.22-c.Loss)
	return c
}

func drawPair(r *rand.Rand, packets, maxBytes int) pairParams {
	p := pairParams{
		typ:       pick(r, rxe.QPRC, rxe.QPRC, rxe.QPRC, rxe.QPRC, rxe.QPUC, rxe.QPUD),
		mtu:       pick[rxe.MTU](r, 256, 512, 1024, 2048, 4096),
		hosts:     pick(r, [2]int{0, 1}, [2]int{0, 1}, [2]int{1, 0}, [2]int{0, 0}),
		ops:       [2]int{1 + r.IntN(24), r.IntN(24)},
		depth:     1 + r.IntN(16),
		recvDepth: 1 + r.IntN(8),
		signalAll: r.IntN(8) == 0,
		signaled:  pick(r, 100, 60, 20),
		rdAtomic:  pick[uint8](r, 1, 2, 4, 16),
		rnrTimer:  uint8(1 + r.IntN(12)),
		timeout:   uint8(8 + r.IntN(5)),
		retryCnt:  7,
		flowLabel: r.Uint32N(2) * r.Uint32N(1<<20),
		pause:     r.IntN(8) == 0,
	}
	for i := range p.psn {
		p.psn[i] = wire.PSN(r.Uint32() & wire.PSNMask)
		if r.IntN(2) == 0 {
			p.psn[i] = wire.PSN(0).Sub(r.Uint32N(64))
		}
	}
	p.limit(packets, maxBytes)
	return p
}

// limit bounds messages, and with them the target and the receive buffers.
func (p *pairParams) limit(packets, maxBytes int) {
	p.maxSize = min(packets*int(p.mtu), maxBytes)
	if p.typ == rxe.QPUD {
		p.maxSize = min(p.maxSize, int(p.mtu))
	}
	p.target = max(2*p.maxSize, 256)
	if p.recvDepth*p.maxSize > 4*maxBytes {
		p.recvDepth = 4 * maxBytes / p.maxSize
	}
}

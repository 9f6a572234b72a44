package sim

import (
	"math/rand/v2"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/wire"
)

// params is all that a run depends on.
type params struct {
	seed uint64
	net  simnet.Config
	loss float64
	// polite: no user destroys a connection before it is over, no host crashes, and
	// the network is never cut. Then both ends must come to the same verdict.
	polite  bool
	plans   []*plan
	crashes []crash
	cut     [2]time.Duration // nothing arrives in between
}

// crash is the end of a host, and its start without memory.
type crash struct {
	at   time.Duration
	host int
	kill bool // the host's connection manager is closed in order
}

// action is what a user does.
type action uint8

const (
	accept action = iota // the REQ, or the REP
	reject
	ignore  // the first REQ
	refuse  // within the listener's handler
	destroy // within the handler, or after the delay
)

// ending is how an established connection ends.
type ending uint8

const (
	clientDisconnects ending = iota
	serverDisconnects
	bothDisconnect // at the same time
)

// plan is one connection.
type plan struct {
	index    int
	from, to int // hosts; the same one too
	lookup   bool
	start    time.Duration

	request, reply, reason []byte // private data

	server      action
	serverDelay time.Duration // 0: within the handler
	client      action
	clientDelay time.Duration

	ending     ending
	endDelay   time.Duration    // from ready on
	replyDelay [2]time.Duration // from the DREQ to the DREP, by side
	keep       [2]bool          // until the end of the run, instead of to the end of timewait
	// the server is told that data came, so long after the client is ready; 0: never
	notify      time.Duration
	destroyAt   [2]time.Duration // not polite: 0: never
	depths      [4]uint8
	startingPSN [2]wire.PSN
}

const (
	client = 0
	server = 1
)

func drawParams(seed uint64) params {
	rng := rand.New(rand.NewPCG(seed, 0xc0))
	p := params{seed: seed, polite: rng.IntN(2) == 0}
	p.net = simnet.Config{
		Seed: seed, MaxBatch: 4,
		Latency:   pick(rng, 10*time.Microsecond, time.Millisecond, 100*time.Millisecond, time.Second),
		Duplicate: pick(rng, 0, 0.05, 0.3), Reorder: pick(rng, 0, 0.1, 0.4),
		ReorderBy: pick(rng, time.Millisecond, 300*time.Millisecond, 6*time.Second, 20*time.Second),
	}
	p.loss = pick(rng, 0, 0.05, 0.2, 0.5)
	for i := range 1 + rng.IntN(6) {
		p.plans = append(p.plans, drawPlan(rng, i, p.polite))
	}
	if p.polite {
		return p
	}
	for range rng.IntN(3) {
		p.crashes = append(p.crashes, crash{at: within(rng, 60*time.Second), host: rng.IntN(2), kill: rng.IntN(2) == 0})
	}
	if rng.IntN(4) == 0 {
		p.cut[0] = within(rng, 30*time.Second)
		p.cut[1] = p.cut[0] + within(rng, 150*time.Second)
	}
	return p
}

func drawPlan(rng *rand.Rand, index int, polite bool) *plan {
	p := &plan{
		index: index, from: rng.IntN(2), lookup: rng.IntN(5) == 0, start: within(rng, 20*time.Second),
		server: pick(rng, accept, accept, accept, accept, reject, ignore, refuse), serverDelay: delay(rng),
		client: pick(rng, accept, accept, accept, accept, accept, reject), clientDelay: delay(rng),
		ending: pick(rng, clientDisconnects, serverDisconnects, bothDisconnect), endDelay: delay(rng),
		replyDelay: [2]time.Duration{delay(rng), delay(rng)},
		keep:       [2]bool{rng.IntN(4) == 0, rng.IntN(4) == 0},
	}
	p.to = 1 - p.from
	if rng.IntN(8) == 0 {
		p.to = p.from
	}
	if rng.IntN(4) == 0 {
		p.notify = 1 + delay(rng)
	}
	requestLen, replyLen := wire.CMREQPrivateLen, wire.CMREPPrivateLen
	if p.lookup {
		requestLen, replyLen = wire.CMSIDRREQPrivateLen, wire.CMSIDRREPPrivateLen
		// A lookup whose reply was lost begins again, and the delay with it.
		p.serverDelay %= 4 * time.Second
	}
	p.request = append([]byte{byte(index + 1)}, bytesOf(rng, requestLen-1)...)
	p.reply = bytesOf(rng, replyLen)
	p.reason = bytesOf(rng, pick(rng, wire.CMSIDRREPPrivateLen, 0))
	for i := range p.depths {
		p.depths[i] = uint8(rng.IntN(256))
	}
	p.startingPSN = [2]wire.PSN{wire.PSN(rng.IntN(3)) * 0x7fffff, wire.PSN(rng.IntN(3)) * 0x7fffff}
	if polite {
		return p
	}
	if rng.IntN(6) == 0 {
		p.server = destroy
	}
	if rng.IntN(6) == 0 {
		p.client = destroy
	}
	for side := range p.destroyAt {
		if rng.IntN(2) == 0 {
			p.destroyAt[side] = p.start + pick(rng, within(rng, 100*time.Millisecond), within(rng, 10*time.Second), within(rng, 90*time.Second))
		}
	}
	return p
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func within(rng *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}

// delay is how long a user takes: nothing, shorter than a resend, or longer.
func delay(rng *rand.Rand) time.Duration {
	return pick(rng, 0, 0, within(rng, time.Second), within(rng, 25*time.Second))
}

// bytesOf returns up to n random bytes; often n.
func bytesOf(rng *rand.Rand, n int) []byte {
	if n > 0 && rng.IntN(2) == 0 {
		n = rng.IntN(n)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

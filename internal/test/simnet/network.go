package simnet

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Config says how the network behaves. Probabilities are per packet, 0 to 1.
type Config struct {
	Seed      uint64
	Loss      float64
	Duplicate float64
	Reorder   float64 // delayed by up to ReorderBy
	Corrupt   float64 // some bits flip, or the tail is cut off
	Mark      float64 // ECN-capable packets meet congestion

	Latency   time.Duration // one way
	ReorderBy time.Duration // the longest delay of a reordered packet
	PerByte   time.Duration // inverse of the bandwidth; 0 for no limit
	MaxBatch  int           // packets handed over at once; 0 means 1
}

// Receiver takes what arrives at a port. *rxe.Device is one.
type Receiver interface {
	Receive(batch []wire.Datagram)
	Expire()
}

// Packet is a packet on its way, for Observe and Filter. Data runs from BTH
// through ICRC and belongs to the network.
type Packet struct {
	Data  []byte
	Route wire.Route
	ID    uint16 // IPv4 identification
}

// Fate is what happens to a packet.
type Fate uint8

// The fates: at sending, what the network decided; at arrival, Delivered or
// Discarded by the ICRC check.
const (
	Sent Fate = iota
	Lost
	Corrupted
	Duplicated
	Reordered
	Delivered
	Discarded
)

func (f Fate) String() string {
	names := [...]string{"sent", "lost", "corrupted", "duplicated", "reordered", "delivered", "discarded"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("Fate(%d)", uint8(f))
}

// Stats count fates.
type Stats [Discarded + 1]uint64

// Network carries packets between ports. It is for one goroutine.
type Network struct {
	// Observe, if set, sees every packet as it is sent, with its fate, and
	// again as it arrives.
	Observe func(p *Packet, fate Fate)
	// Filter, if set, is asked for each packet that is sent before any fault
	// is drawn; false loses it.
	Filter func(p *Packet) bool

	Stats Stats

	cfg    Config
	rng    *rand.Rand
	now    rxe.Time
	events eventQueue
	ports  map[netip.Addr]*Port
	order  []*Port // in order of Attach, for what must not depend on a map
	free   []*flight
	trace  uint32
}

// New returns a network without ports.
func New(cfg Config) *Network {
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = 1
	}
	return &Network{
		cfg:   cfg,
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0x5ee0)),
		ports: make(map[netip.Addr]*Port),
	}
}

// Now reads the virtual clock.
func (n *Network) Now() rxe.Time { return n.now }

// Trace is a checksum of every packet sent and its fate, and every time at
// which one arrived.
func (n *Network) Trace() uint32 { return n.trace }

// SetFaults changes the probabilities; the rest of cfg is ignored.
func (n *Network) SetFaults(cfg Config) {
	n.cfg.Loss, n.cfg.Duplicate = cfg.Loss, cfg.Duplicate
	n.cfg.Reorder, n.cfg.Corrupt, n.cfg.Mark = cfg.Reorder, cfg.Corrupt, cfg.Mark
}

// At runs f at time t, or now if t has passed.
func (n *Network) At(t rxe.Time, f func()) {
	n.events.push(event{at: max(t, n.now), call: f})
}

// After runs f after d.
func (n *Network) After(d time.Duration, f func()) { n.At(n.now+rxe.Time(d), f) }

// Step runs the next event and reports whether there was one.
func (n *Network) Step() bool { return n.step(math.MaxInt64) }

// step runs the next event that is due by limit.
func (n *Network) step(limit rxe.Time) bool {
	for n.events.len() > 0 && n.events.next() <= limit {
		e := n.events.pop()
		if e.arm != 0 && e.arm != e.port.armed {
			continue // disarmed since
		}
		n.now = max(n.now, e.at)
		switch {
		case e.call != nil:
			e.call()
		case e.flight != nil:
			n.arrive(e.flight)
		case e.arm != 0:
			e.port.expire()
		default:
			e.port.poll()
		}
		return true
	}
	return false
}

// Run steps until done reports true. It reports false when the events run out
// or time reaches limit before that.
func (n *Network) Run(limit rxe.Time, done func() bool) bool {
	for !done() {
		if n.now >= limit || !n.Step() {
			return false
		}
	}
	return true
}

// Drain steps until no packet is on its way and nothing is left to call before
// limit.
func (n *Network) Drain(limit rxe.Time) {
	for n.step(limit) {
	}
	n.now = max(n.now, limit)
}

// note adds to the trace's checksum.
func (n *Network) note(fate Fate, f *flight) {
	n.Stats[fate]++
	n.trace = n.trace*16777619 ^ uint32(fate)
	n.trace = n.trace*16777619 ^ uint32(n.now) ^ uint32(f.ID)<<16
	n.trace = crc32.Update(n.trace, crc32.IEEETable, f.Data[max(0, len(f.Data)-wire.ICRCLen):])
	if n.Observe != nil {
		n.Observe(&f.Packet, fate)
	}
}

// flight is a packet in the network.
type flight struct {
	Packet
	buf []byte // Data's storage, kept between uses
}

func (n *Network) newFlight(data []byte, r *wire.Route, id uint16) *flight {
	f := &flight{}
	if last := len(n.free) - 1; last >= 0 {
		f, n.free = n.free[last], n.free[:last]
	}
	f.buf = append(f.buf[:0], data...)
	f.Packet = Packet{Data: f.buf, Route: *r, ID: id}
	return f
}

func (n *Network) release(f *flight) { n.free = append(n.free, f) }

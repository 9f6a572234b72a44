package rxe

import (
	crand "crypto/rand"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// Config describes the device that New makes. Link and Clock are required.
type Config struct {
	Name  string
	GUID  uint64 // EUI-64 of the node, host order
	Link  Link
	Clock Clock
	// Seed seeds the generator of QPNs and keys. All zero means the operating
	// system's randomness, which is right except in tests that repeat a run.
	Seed [32]byte // RFC 8439: a key of ChaCha
	// Limits replaces the capabilities and limits; nil: DefaultLimits.
	Limits *DeviceAttr
	Quirks Quirks
	// MaxActiveQPs is how many RC QPs may have requests outstanding to other
	// devices. Further ones wait for acknowledgements to those, so that they share
	// system calls (admission.go). 0 means 32.
	MaxActiveQPs int
	// OnEvent receives asynchronous events. It may be called with a QP locked and
	// must not call back into the device.
	OnEvent func(Event)
	// OnDeliver, if set, is called when a program's call has left packets for other
	// QPs of this device: some thread should then call Device.Deliver. It may be
	// called from any thread, with no QP locked. Nil means that the call itself
	// delivers, and so waits for the memory of other programs.
	OnDeliver func()
	// CostlyMemory says that each call of a Memory takes a system call. Queue pairs then read
	// the payloads of several small messages with one call, and write those of several SENDs
	// or READs with one. For other memory the copies that this takes cost more.
	CostlyMemory bool
	// GSI handles the packets to queue pair 1. Nil means that they are counted as
	// packets to a QP that does not exist.
	GSI GSI
	// ECN is how the device answers congestion; nil: DefaultECN.
	ECN *ECN
	// GIDTableLen is how many entries the table of GIDs has; 0 means 1024. Some programs ask for
	// each of them.
	GIDTableLen int
	// Mark is what the numbers of queue pairs have in common; zero: nothing.
	Mark wire.QPNMark
	// Filter, if set, learns which packets are of use.
	Filter Filter
	// Tap sees the packets that pass between QPs of this device, which reach no
	// Link. Without it such packets need not be formed at all.
	Tap func(b *wire.Burst)
}

// Device is one RDMA device with one port.
type Device struct {
	cfg      Config
	ecn      ECN
	counters Counters
	opcodes  opcodeCounters
	timers   timerHeap
	random   random

	qps  numTable[QP]
	mark wire.QPNMark // of the numbers in qps; under qps.mu, like marked
	// marked has how many of them keep their mark with as many bits and no more.
	marked      [maxMarkBits + 1]int
	filterUsers filterUsers
	keys        numTable[keyObject]
	ahs         numTable[AH]
	xrcSRQs     numTable[SRQ] // those of XRC

	intercept atomic.Pointer[Interceptor]
	lateQPs   atomic.Int32 // QPs in ERR whose receives come late
	pools     pools        // of packets that wait
	runQueue  runQueue     // between QPs of this device
	admission admission    // of QPs that send to other devices
	gsi       gsi
	port      port
	gids      atomic.Pointer[gidTable]
	groups    mcastTable

	whole Subdevice
	registry
}

// registry has the objects that no number finds.
type registry struct {
	mu     sync.Mutex // for its place see the lock order in doc.go
	closed bool
	pds    map[*PD]struct{}
	cqs    map[*CQ]struct{}
	srqs   map[*SRQ]struct{}
	xrcds  map[*XRCD]struct{}
	files  map[any]*XRCD // domains that have a file
}

// ObjectCounts is how many objects of each kind exist.
type ObjectCounts struct {
	PD, MR, MW, CQ, SRQ, QP, AH, XRCD int

	uc int // of QP
}

// New makes a device whose port is down and has no GID: see SetGIDs, SetPort.
func New(cfg Config) (*Device, error) {
	if cfg.Link == nil {
		return nil, invalid("New", "link", "is nil", "set Config.Link")
	}
	if cfg.Clock == nil {
		return nil, invalid("New", "clock", "is nil", "set Config.Clock")
	}
	d := &Device{
		cfg:      cfg,
		ecn:      DefaultECN(),
		registry: registry{pds: make(map[*PD]struct{}), cqs: make(map[*CQ]struct{}), srqs: make(map[*SRQ]struct{}), xrcds: make(map[*XRCD]struct{}), files: make(map[any]*XRCD)},
	}
	d.whole = Subdevice{dev: d, attr: DefaultLimits(), memory: unlimited, uc: unlimited}
	limits := &d.whole.attr
	if cfg.Limits != nil {
		*limits = *cfg.Limits
	}
	if cfg.ECN != nil {
		d.ecn = *cfg.ECN
	}
	if err := d.ecn.Check(); err != nil {
		return nil, invalid("New", "ecn", err.Error(), "see ECN")
	}
	if type2 := CapMemWindowType2A | CapMemWindowType2B; limits.Cap&type2 == type2 {
		// o10-37.2.31
		return nil, invalid("New", "limits", "type 2A and type 2B windows exclude each other", "choose one")
	}
	if cfg.Mark.Bits > maxMarkBits {
		return nil, invalid("New", "mark", "has more than 8 bits", "use 8")
	}
	limits.NodeGUID, limits.SysImageGUID = cfg.GUID, cfg.GUID
	seed := cfg.Seed
	if cfg.Seed == (Config{}.Seed) {
		crand.Read(seed[:]) // never fails
	}
	d.admission.limit, d.admission.epoch = defaultActiveQPs, 1
	if cfg.MaxActiveQPs > 0 {
		d.admission.limit = cfg.MaxActiveQPs
	}
	d.mark = cfg.Mark
	d.random.gen = rand.NewChaCha8(seed)
	d.port.init(cfg.GIDTableLen)
	d.pools.init()
	d.gids.Store(newGIDTable(nil))
	return d, nil
}

// Name returns the device's name, as configured.
func (d *Device) Name() string { return d.cfg.Name }

// GUID returns the node GUID in host order.
func (d *Device) GUID() uint64 { return d.cfg.GUID }

// Attr returns capabilities and limits (ibv_query_device_ex).
func (d *Device) Attr() DeviceAttr { return d.whole.attr }

// Objects counts the objects that exist.
func (d *Device) Objects() ObjectCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.whole.live
}

// Close destroys every object that is left, in the order of their dependencies.
// Their methods return ErrClosed from then on. A second Close does nothing. Like
// QP.Destroy and MR.Dereg, Close waits for accesses to program memory that are
// under way. A program can make that take as long as it likes; a caller that cannot
// wait ends the program first.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()

	// first, because they keep regions and QPs in use
	d.keys.each(func(_ uint32, k *keyObject) { k.closeWindow() })
	d.qps.each(func(_ uint32, q *QP) {
		q.detachAll()
		_ = q.destroy() // may have been destroyed meanwhile
	})
	d.ahs.each(func(_ uint32, a *AH) { _ = a.Destroy() })
	d.keys.each(func(_ uint32, k *keyObject) { k.closeRegion() })
	d.closeQueues()
	return nil
}

func (d *Device) closeQueues() {
	d.mu.Lock()
	cqs, srqs, pds := slices.Collect(maps.Keys(d.cqs)), slices.Collect(maps.Keys(d.srqs)), slices.Collect(maps.Keys(d.pds))
	xrcds := slices.Collect(maps.Keys(d.xrcds))
	d.mu.Unlock()
	for _, s := range srqs {
		_ = s.Destroy() // may have been destroyed meanwhile
	}
	for _, c := range cqs {
		_ = c.Destroy() // as above
	}
	for _, p := range pds {
		_ = p.Dealloc() // as above
	}
	for _, x := range xrcds {
		for x.Close() == nil { // for each caller that has it open
		}
	}
}

// lookupQP finds a queue pair without a lock; nil when there is none.
func (d *Device) lookupQP(n wire.QPN) *QP { return d.qps.lookup(uint32(n)) }

// QP finds a queue pair by its number; nil when there is none.
func (d *Device) QP(n wire.QPN) *QP { return d.lookupQP(n) }

// event reports e to the device's owner. Any lock may be held.
func (d *Device) event(e Event) {
	if d.cfg.OnEvent != nil {
		d.cfg.OnEvent(e)
	}
}

// random draws numbers that a peer cannot guess from those it has seen.
type random struct {
	mu  sync.Mutex
	gen *rand.ChaCha8
}

func (r *random) uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gen.Uint64()
}

func (r *random) uint32() uint32 { return uint32(r.uint64()) }

// qpn draws a queue pair number that is marked. 0 and 1 are special QPs; 0xffffff is the multicast
// QPN (IBA 10.5). One number in 256 may be marked, and random draws are slow. So qpn tries numbers
// at a random distance from each other. The distance is odd, so that it tries all.
func (r *random) qpn(marked func(wire.QPN) bool) uint32 {
	drawn := r.uint64()
	n, distance := uint32(drawn), uint32(drawn>>32)|1
	for {
		if n &= wire.QPNMask; n > 1 && n != wire.QPNMask && marked(wire.QPN(n)) {
			return n
		}
		n += distance
	}
}

// index draws a 24-bit key index or AH number. It never draws 0, so that a zero key
// is always invalid (IBA 10.6.3.3).
func (r *random) index() uint32 {
	for {
		if n := r.uint32() & 0xffffff; n != 0 {
			return n
		}
	}
}

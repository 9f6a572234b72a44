package verbsapi

import (
	"cmp"
	"net/netip"
	"sync"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/uplink"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// sharedEngine is a running device and its users. Contexts that were opened on one
// address share it, as programs share an adapter, because the UDP port can be bound
// only once.
type sharedEngine struct {
	key    engineKey
	run    *engine.Engine
	dev    *rxe.Device // run's
	mux    *gsi.Mux    // of dev's queue pair 1
	cm     *cmDevice   // nil: the host has no RDMA CM
	faults *inject.Link
	verbs  inject.Verbs
	// of the queue pairs for raw packets
	station *segment.Station
	like    adapter

	refs int // guarded by engines.mu

	mu       sync.Mutex // guards what follows; a leaf lock, because events come with a QP locked
	contexts map[*Context]struct{}
	dmUsed   int // bytes of device memory
	// of a *rxe.QP, *rxe.CQ or *rxe.SRQ; several have opened an XRC target
	owners map[any][]eventTarget
}

type engineKey struct {
	iface string
	addr  netip.Addr
	port  uint16
}

// engines holds the running engines of this process.
var engines = struct {
	mu   sync.Mutex
	open map[engineKey]*sharedEngine
}{open: make(map[engineKey]*sharedEngine)}

// segments is the Ethernet segment of this process, on which all devices are.
var segments segment.Segment

// acquireEngine returns the engine of cfg's address, and starts it if necessary.
func acquireEngine(cfg Config, like adapter) (*sharedEngine, error) {
	key := engineKey{iface: cfg.Interface, addr: cfg.Address.Unmap(), port: cmp.Or(cfg.Port, wire.UDPPort)}
	engines.mu.Lock()
	defer engines.mu.Unlock()
	if e := engines.open[key]; e != nil {
		switch {
		case cfg.Tap != nil:
			return nil, &OpError{Op: "Open", Arg: "tap", Why: "the device is open already", Err: ErrBusy}
		case cfg.RawNetwork:
			return nil, &OpError{Op: "Open", Arg: "raw_network", Why: "the device is open already", Err: ErrBusy}
		}
		if cfg.Like != "" && like != e.like {
			return nil, &OpError{Op: "Open", Arg: "like", Why: "the device is open already, and looks otherwise", Err: ErrBusy}
		}
		e.refs++
		return e, nil
	}
	e := &sharedEngine{
		key:      key,
		like:     like,
		refs:     1,
		contexts: make(map[*Context]struct{}),
		owners:   make(map[any][]eventTarget),
	}
	engineCfg := cfg.engine()
	like.apply(&engineCfg)
	e.mux = gsi.New(gsi.Config{Counters: gsi.NewPortCounters(func() wire.PortCounters {
		return engine.PortCounters(e.dev, e.run.Port().Counters())
	})})
	engineCfg.OnEvent, engineCfg.GSI = e.onEvent, e.mux
	var err error
	if e.run, err = engine.Start(engineCfg); err != nil {
		return nil, err
	}
	e.dev = e.run.Device()
	e.faults = inject.New(e.run)
	e.mux.Start(e.dev)
	if err := e.join(cfg); err != nil {
		e.stop() //nolint:errcheck // err says what is wrong
		return nil, err
	}
	e.cm = joinCM(cfg.Name, e.run, e.mux, cfg.Log)
	engines.open[key] = e
	return e, nil
}

// release closes the engine with its last context.
func (e *sharedEngine) release() error {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	if e.refs--; e.refs > 0 {
		return nil
	}
	delete(engines.open, e.key)
	e.cm.close()
	e.station.Leave()
	return e.stop()
}

// stop ends the engine.
func (e *sharedEngine) stop() error {
	e.mux.Close()
	e.faults.Close()
	return e.run.Close()
}

// join makes the device a station of the process's segment.
func (e *sharedEngine) join(cfg Config) error {
	station := e.run.Station()
	if cfg.RawNetwork {
		up, err := uplink.Open(e.run.Port().Info().Name)
		if err != nil {
			return &OpError{Op: "Open", Arg: "raw_network", Why: "no packet socket", Err: err}
		}
		station.Uplink = up
	}
	e.station = segments.Join(station)
	if cfg.RawTap != nil {
		segments.Capture(cfg.RawTap)
	}
	return nil
}

// engine returns c as the engine's configuration.
func (c *Config) engine() engine.Config {
	limits := c.Limits
	if limits == nil {
		all := DefaultLimits()
		limits = &all
	}
	return engine.Config{
		Name: c.Name, Interface: c.Interface, Address: c.Address, Port: c.Port,
		Limits: limits, ECN: c.ECN, Tap: c.Tap, Log: c.Log,
	}
}

func (c *Config) guid() uint64 {
	e := c.engine()
	return e.GUID()
}

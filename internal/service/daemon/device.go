package daemon

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/umad"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/internal/mgmt/sma"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/provider/mlx5"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// device is one device of the daemon: the engine, its queue pair 1, and its two views for programs
// (uverbs and the file tree).
type device struct {
	spec    proto.Spec
	index   int // N of uverbsN
	created time.Time
	driver  provider.Driver
	engine  *engine.Engine
	mux     *gsi.Mux // of the engine's queue pair 1
	count   *gsi.PortCounters
	mad     *umad.Device   // the management datagrams of programs
	cm      *rdmacm.Device // set before there are programs
	verbs   *uverbs.Device
	faults  *inject.Link
	raw     segment.Counters  // of raw packets
	lost    map[string]uint64 // by the last report of losses; for Server.Run
}

// common is what the devices of a daemon share. Each may be nil, except log.
type common struct {
	ecn     *rxe.ECN
	tap     *rocev2.Tap
	work    rxe.WorkTap
	threads *rocev2.Threads
	class   *sched.Class
	// the Ethernet segments of users, and which one has a user's programs
	segments  *segment.Users
	segmentOf func(user any) any
	log       *slog.Logger
}

func startDevice(spec proto.Spec, index int, c common) (*device, error) {
	d := &device{spec: spec, index: index, created: time.Now(), driver: driverOf(spec, c.class)}
	log := c.log.With("device", spec.Name)
	// The first events come before there is a receiver.
	hear := new(eventRelay)
	var err error
	cfg := engineConfig(spec)
	d.count = gsi.NewPortCounters(func() wire.PortCounters {
		return engine.PortCounters(d.engine.Device(), d.engine.Port().Counters())
	})
	d.mux = gsi.New(gsi.Config{Counters: d.count})
	cfg.ECN, cfg.Tap, cfg.Work, cfg.Threads, cfg.Log, cfg.OnEvent, cfg.GSI = c.ecn, c.tap, c.work, c.threads, log, hear.event, d.mux
	d.engine, err = engine.Start(cfg)
	if err != nil {
		return nil, err
	}
	look := d.driver.Look(spec.Name, index)
	d.faults = inject.New(d.engine)
	d.mad = umad.New(mad.New(d.mux, sma.New(d.engine.Device(), look.NodeDesc)))
	d.mux.Start(d.engine.Device())
	d.verbs, err = uverbs.NewDevice(uverbs.Config{
		Driver: d.driver, FWVer: look.FWVer,
		Device: d.engine.Device(), Index: index,
		NetIndex: func() int { return d.engine.Port().Info().Index },
		Station:  d.station(c.segments, c.segmentOf),
		Log:      log,
	})
	if err != nil {
		d.mux.Close()
		d.engine.Close() //nolint:errcheck // err says what is wrong
		return nil, err
	}
	hear.to(d.verbs.Event)
	return d, nil
}

// driverOf chooses the driver by the device's name.
func driverOf(s proto.Spec, class *sched.Class) provider.Driver {
	if p, ok := s.ConnectX(); ok {
		return mlx5.New(p, class)
	}
	return librxe.Driver{}
}

func engineConfig(s proto.Spec) engine.Config {
	cfg := engine.Config{Name: s.Name, Interface: s.Interface, Address: s.Address, SpeedMbps: int(s.Speed), CostlyMemory: true}
	if p, ok := s.ConnectX(); ok {
		cfg.SpeedMbps, cfg.Limits, cfg.Quirks = cmp.Or(cfg.SpeedMbps, p.Mbps), p.Limits(), p.Quirks
	}
	if s.Rail {
		cfg.GIDTableLen = railGIDs
	}
	return cfg
}

// joinCM makes the device available to connections.
func (d *device) joinCM(m *rdmacm.Manager) error {
	d.cm = &rdmacm.Device{
		Index: d.index, Name: d.spec.Name, GUID: d.engine.Device().GUID(), Mux: d.mux, Net: d.engine.PortInfo,
		IsLo: d.spec.Free,
	}
	return m.AddDevice(d.cm)
}

// close first releases the programs' objects, because their queues are in program memory.
func (d *device) close() error {
	d.verbs.Close()
	d.mux.Close()
	d.faults.Close()
	return d.engine.Close()
}

// sysfs returns the device as the file tree shows it.
func (d *device) sysfs() tree.Device {
	return (&view{
		spec: d.spec, index: d.index, created: d.created, driver: d.driver, dev: d.engine.Device(),
		netdev: d.engine.Port().Info().Name, counters: d.count.All, sockets: d.engine.Port().Counters,
		cm: func() cm.Counters { return d.cm.Counters() },
	}).sysfs()
}

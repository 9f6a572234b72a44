package daemon

import (
	"log/slog"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sysfs"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// device is one device of the daemon: the engine, and its two views for programs (uverbs
// and sysfs).
type device struct {
	spec    proto.Spec
	index   int // N of uverbsN
	created time.Time
	engine  *engine.Engine
	verbs   *uverbs.Device
}

func startDevice(spec proto.Spec, index int, tap *rocev2.Tap, log *slog.Logger) (*device, error) {
	d := &device{spec: spec, index: index, created: time.Now()}
	log = log.With("device", spec.Name)
	// The first events come before there is a receiver.
	hear := new(eventRelay)
	var err error
	d.engine, err = engine.Start(engine.Config{
		Name: spec.Name, Interface: spec.Interface, Address: spec.Address, SpeedMbps: int(spec.Speed),
		Tap: tap, Log: log, OnEvent: hear.event,
	})
	if err != nil {
		return nil, err
	}
	d.verbs, err = uverbs.NewDevice(uverbs.Config{
		Driver: librxe.Driver{},
		Device: d.engine.Device(), Index: index,
		NetIndex: func() int { return d.engine.Port().Info().Index },
		Log:      log,
	})
	if err != nil {
		d.engine.Close() //nolint:errcheck // err says what is wrong
		return nil, err
	}
	hear.to(d.verbs.Event)
	return d, nil
}

// close first releases the programs' objects, because their queues are in program memory.
func (d *device) close() error {
	d.verbs.Close()
	return d.engine.Close()
}

// sysfs returns the device as the file tree shows it.
func (d *device) sysfs() sysfs.Device {
	dev := d.engine.Device()
	return sysfs.Device{
		Name: d.spec.Name, Index: d.index, Created: d.created,
		NodeGUID: dev.GUID(), SysImageGUID: dev.Attr().SysImageGUID,
		NodeDesc: "rxe", // rxe_verbs.c:rxe_register_device
		HCAType:  "rxe",
		BoardID:  "gorxe",
		Netdev:   d.engine.Port().Info().Name,
		Port:     d.port,
		Counters: func() []sysfs.Counter { return portCounters(d.engine.Port().Counters(), dev.HWCounters()) },
		HWCounters: func() []sysfs.Counter {
			counters := dev.HWCounters()
			out := make([]sysfs.Counter, len(counters))
			for i, c := range counters {
				out[i] = sysfs.Counter{Name: c.Name, Value: c.Value}
			}
			return out
		},
	}
}

func (d *device) port() sysfs.PortInfo {
	dev := d.engine.Device()
	attr := dev.QueryPort()
	return sysfs.PortInfo{
		State: uint8(attr.State), PhysState: attr.PhysState, LinkLayer: attr.LinkLayer,
		ActiveWidth: attr.ActiveWidth, ActiveSpeed: attr.ActiveSpeedEx,
		CapMask:     attr.PortCapFlags,
		GIDTableLen: attr.GIDTblLen, GIDs: dev.GIDs(),
		PKeys: pkeys(dev, attr.PKeyTblLen),
	}
}

func pkeys(dev *rxe.Device, n uint16) []uint16 {
	keys := make([]uint16, n)
	for i := range keys {
		key, err := dev.QueryPKey(i)
		if err != nil {
			key = wire.PKey(0)
		}
		keys[i] = uint16(key)
	}
	return keys
}

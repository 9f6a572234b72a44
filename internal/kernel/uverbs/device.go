package uverbs

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/rxe"
)

// Config is what NewDevice makes a device from.
type Config struct {
	Device *rxe.Device
	Driver provider.Driver // the provider that programs use
	Index  int             // of /dev/infiniband/uverbsN
	// FWVer is the firmware version, "major.minor.sub"; empty is 0.0.0, as
	// rdma_rxe has it.
	FWVer string
	// NetIndex is the index of the network interface, for GID entries; nil: 0,
	// none.
	NetIndex func() int
	// Station returns the device's place on an Ethernet segment, for queue pairs of raw packets.
	// The segment is the user's, or with netRaw that of the network interface. The caller releases
	// the station. Nil: there are no such queue pairs.
	Station func(user any, netRaw bool) *segment.Station
	Log     *slog.Logger // nil: nothing is logged
}

// Device is /dev/infiniband/uverbsN: an rxe.Device as programs open it.
type Device struct {
	cfg         Config
	rxe         *rxe.Device
	log         *slog.Logger
	fwVer       uint64
	compVectors uint32      // as many as rdma_rxe has
	gone        atomic.Bool // Close was called
	numbers     numbers
	tables      dispatch.Tables // with the driver's methods
	xrc         bool            // the driver has XRC
	steers      bool            // the driver has flow rules, and the device frames for them
	sameKeys    bool            // provider.SameKeys
	describe    func(fd int) (bufmem.Info, error)

	// owners maps objects of the engine to the objects that events name. Several programs may have
	// opened an XRC target. Events come with a QP locked, so this is a leaf lock.
	mu     sync.Mutex
	owners map[any][]*dispatch.Object // *rxe.QP, *rxe.CQ, *rxe.SRQ
	files  map[*File]struct{}
}

// NewDevice makes the device. The engine's events must be handed to its Event.
func NewDevice(cfg Config) (*Device, error) {
	if cfg.Device == nil || cfg.Driver == nil {
		return nil, errors.New("uverbs: Config.Device or Config.Driver is nil")
	}
	ver, err := parseFWVer(cfg.FWVer)
	if err != nil {
		return nil, err
	}
	d := &Device{
		cfg: cfg, rxe: cfg.Device, log: cfg.Log, fwVer: ver,
		compVectors: uint32(runtime.NumCPU()),
		tables:      tablesWith(cfg.Driver.Methods()),
		describe:    bufmem.Describe,
		owners:      make(map[any][]*dispatch.Object),
		files:       make(map[*File]struct{}),
	}
	if x, ok := cfg.Driver.(provider.XRC); ok && x.HasXRC() {
		d.xrc, d.tables = true, withXRC(d.tables)
	}
	if s, ok := cfg.Driver.(provider.Steers); ok && s.HasSteering() && cfg.Station != nil {
		d.steers, d.tables = true, withSteering(d.tables)
	}
	if m, ok := cfg.Driver.(provider.Moderates); ok && m.ModeratesCQs() {
		d.tables = withModeration(d.tables)
	}
	if s, ok := cfg.Driver.(provider.SameKeys); ok {
		d.sameKeys = s.HasSameKeys()
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d, nil
}

// parseFWVer packs a version as the rxe provider unpacks it (rxe_query_device).
func parseFWVer(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	var v uint64
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return 0, fmt.Errorf("uverbs: firmware version %q has more than three parts", s)
	}
	for i := range 3 {
		var n uint64
		if i < len(parts) {
			var err error
			if n, err = strconv.ParseUint(parts[i], 10, 16); err != nil {
				return 0, fmt.Errorf("uverbs: firmware version %q: %w", s, err)
			}
		}
		v = v<<16 | n
	}
	return v, nil
}

// Open is OpenAs with the device's own limits.
func (d *Device) Open(b *quota.Budget) (*File, error) { return d.OpenAs(d.rxe.Whole(), b) }

// OpenAs is one open("/dev/infiniband/uverbsN"). The program sees the limits of sub, which is the
// engine's device as one user sees it. The costs are taken of b; nil is a budget of its own,
// without limits. ENODEV after Close; ENOMEM or EMFILE if the budget is spent.
func (d *Device) OpenAs(sub *rxe.Subdevice, b *quota.Budget) (*File, error) {
	if b == nil {
		b = quota.New(quota.Cost{})
	}
	f := &File{dev: d, sub: sub, budget: b, number: d.numbers.contexts.Add(1), gate: gate{settled: make(chan struct{})}}
	var err error
	f.ctx, err = d.cfg.Driver.Open(provider.Open{Device: sub, Budget: b, Offsets: provider.NewOffsets(), Overrun: f.overran,
		AddFlow: f.addFlow})
	if err != nil {
		return nil, fmt.Errorf("uverbs%d: %w", d.cfg.Index, err)
	}
	f.unhook = b.BeforeRefusal(f.events.dropGone)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone.Load() {
		f.unhook()
		f.ctx.Close(false)
		return nil, fmt.Errorf("uverbs%d: device is closed: %w", d.cfg.Index, unix.ENODEV)
	}
	d.files[f] = struct{}{}
	return f, nil
}

// closeTimeout is how long Device.Close waits for programs whose memory does not answer.
const closeTimeout = time.Second

// Close takes the device away from the programs that have it open, as the kernel
// disassociates a device. A program gets IBV_EVENT_DEVICE_FATAL. What is in its queues
// completes with WCFlushErr, for programs that only look there. Its objects end, and all
// but destroying calls answer EIO.
//
// Close waits for calls in progress, and for the engine's accesses to a program's memory,
// but not for ever. The objects of a file with such a call end when the call ends. A
// second Close does nothing.
func (d *Device) Close() {
	d.mu.Lock()
	if d.gone.Swap(true) {
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	files := d.opened()
	ended := make(chan struct{}, len(files))
	for _, f := range files {
		go func() {
			f.events.tell(0, uint32(rxe.EventDeviceFatal))
			f.disassociate()
			ended <- struct{}{}
		}()
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	for range files {
		select {
		case <-ended:
		case <-timeout.C:
			d.log.Warn("programs whose memory does not answer keep their objects until it does")
			return
		}
	}
}

// opened returns the files that are open now.
func (d *Device) opened() []*File {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := make([]*File, 0, len(d.files))
	for f := range d.files {
		files = append(files, f)
	}
	return files
}

// Event delivers an event of the engine (rxe.Config.OnEvent) to the program that it
// concerns. A QP may be locked, so Event does not call the engine.
func (d *Device) Event(ev rxe.Event) {
	switch {
	case ev.QP != nil:
		d.eventOf(ev.QP, ev.Type)
	case ev.CQ != nil:
		d.eventOf(ev.CQ, ev.Type)
	case ev.SRQ != nil:
		d.eventOf(ev.SRQ, ev.Type)
	default:
		for _, f := range d.opened() {
			f.events.broadcast(uint64(ev.Port), uint32(ev.Type))
		}
	}
}

func (d *Device) eventOf(engine any, typ rxe.EventType) {
	d.mu.Lock()
	owners := d.owners[engine] // own and disown make new ones
	d.mu.Unlock()
	for _, o := range owners {
		told, tell := typ, true
		if o.Type == uapi.ObjWQ {
			told, tell = segment.WorkQueueEvent(typ)
		}
		if a, ok := o.Async.(*asyncFD); ok && tell {
			a.push(o.User, uint32(told), o)
		}
	}
}

// own and disown say which object the events of an engine object concern.
func (d *Device) own(engine any, o *dispatch.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[engine] = append(slices.Clip(d.owners[engine]), o)
}

func (d *Device) disown(engine any, o *dispatch.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(d.owners[engine]), func(other *dispatch.Object) bool { return other == o })
	if d.owners[engine] = left; len(left) == 0 {
		delete(d.owners, engine)
	}
}

func (d *Device) forget(f *File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, f)
}

func (d *Device) netIndex() uint32 {
	if d.cfg.NetIndex == nil {
		return 0
	}
	return uint32(d.cfg.NetIndex())
}

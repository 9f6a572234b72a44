package verbsapi

import (
	"cmp"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/verbsapi/internal/waitqueue"
)

// Config says which device to open. The zero value means the interface of the
// default route.
type Config struct {
	// Name of the device; "rxe0" if empty, and "mlx5_0" with Like.
	Name string
	// Interface is the network interface whose addresses are the GID table.
	Interface string
	// Address, if valid, is the device's only address; if Interface is set too, it
	// must be an address of that interface. Every address of 127.0.0.0/8 can be a
	// device of its own.
	Address netip.Addr
	// Port is the UDP port; 0 means 4791. Peers listen there, so that other ports
	// are for tests.
	Port uint16
	// Limits replaces the device's capabilities and limits. Nil means the defaults.
	Limits *DeviceAttr
	// Like, if not empty, is the adapter whose numbers, limits, speed and quirks the device has:
	// "connectx6", "connectx7-400g+no-uc" (docs/connectx.md).
	Like string
	// ECN is how the device answers congestion. Nil means DefaultECN.
	ECN *ECN
	// Faults are rules for what goes wrong (Context.AddFaults). Those about limits hold as long as
	// the context.
	Faults []Fault
	// Chaos, if not 0, is a seed. The device then does late and out of order all that the
	// specification leaves open, drawn from that seed (docs/faults.md).
	Chaos uint64
	// RawNetwork has queue pairs of type QPRaw send to the network interface, and receive from it,
	// too. It needs CAP_NET_RAW. The interface's own sockets get all their packets.
	RawNetwork bool
	// RawTap captures the frames of such queue pairs, of all devices of the process. Nil means no
	// capture.
	RawTap *rocev2.Tap
	// Sanitize has the device look for misuse of verbs: "default", "all", or the names of checks
	// (docs/sanitizer.md). Context.Misuse returns what it finds. Empty means that it does not look.
	Sanitize string
	// Tap captures the packets that are, or would be, on the wire. Nil means no
	// capture.
	Tap *rocev2.Tap
	// Log receives messages about things that a user can repair, such as a kernel
	// without UDP offloads. Nil means no log.
	Log *slog.Logger
}

// Context is an open device (struct ibv_context).
type Context struct {
	device *Device
	eng    *sharedEngine
	events waitqueue.Queue[*AsyncEvent]
	faults *fault.Set     // the owner of the queue pairs
	works  rxe.WorkFaults // what these say of work requests
	sub    *rxe.Subdevice
	chaos  *rxe.Chaos // of the queue pairs; nil: none
	watch  *watcher   // nil: none

	mu     sync.Mutex
	closed chan struct{}
	owned  [kinds]map[child]struct{}
}

// kind orders objects by their dependencies. Close destroys them in this order.
type kind int

const (
	kindMW kind = iota
	kindFlow
	kindCounters
	kindQP
	kindIndTable
	kindWQ
	kindAH
	kindMR
	kindSRQ
	kindCQ
	kindChannel
	kindPD
	kindXRCD
	kindDM
	kinds
)

// child is an object of a context. destroyNow destroys it without waiting for
// acknowledgements.
type child interface{ destroyNow() }

// Open opens the device that cfg describes. A device that this process has open
// already is shared. Network errors unwrap to the sentinels of package rocev2, and
// say what to do.
func Open(cfg Config) (*Context, error) {
	if cfg.Interface == "" && !cfg.Address.IsValid() {
		name, err := rocev2.DefaultInterface()
		if err != nil {
			return nil, err
		}
		cfg.Interface = name
	}
	adapter, err := cfg.adapter()
	if err != nil {
		return nil, err
	}
	if cfg.Name == "" {
		cfg.Name = cmp.Or(adapter.Device, "rxe0")
	}
	watch, err := newWatcher(cfg.Sanitize, cfg.Name)
	if err != nil {
		return nil, err
	}
	eng, err := acquireEngine(cfg, adapter)
	if err != nil {
		return nil, err
	}
	info := eng.run.Port().Info()
	info.SpeedMbps = cmp.Or(adapter.Mbps, info.SpeedMbps)
	c := &Context{
		device: &Device{name: cfg.Name, guid: eng.dev.GUID(), info: info, cfg: cfg},
		eng:    eng,
		faults: fault.NewSet(time.Now),
		watch:  watch,
		closed: make(chan struct{}),
	}
	c.works = eng.faults.Works(c.faults, c.program())
	c.events.Init()
	if cfg.Chaos != 0 {
		c.chaos = rxe.NewChaos(cfg.Chaos)
	}
	for k := range c.owned {
		c.owned[k] = make(map[child]struct{})
	}
	eng.mu.Lock()
	eng.contexts[c] = struct{}{}
	eng.mu.Unlock()
	if _, err = c.addFaults(cfg.Faults); err == nil {
		c.sub, err = inject.Subdevice(eng.dev, c.faults)
	}
	if err != nil {
		c.Close() //nolint:errcheck // err says what is wrong
		return nil, err
	}
	return c, nil
}

// Close destroys everything that was made in the context. It closes the device if
// no other context of this process has it open (ibv_close_device). Calls that wait
// return ErrClosed. Close does not wait for events to be acknowledged. A second
// Close returns ErrClosed.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		return closed("CloseDevice", "context")
	}
	close(c.closed)
	c.mu.Unlock()

	c.watch.close()
	// Nothing is added any more, because own refuses.
	for k := range c.owned {
		for _, ch := range c.children(kind(k)) {
			ch.destroyNow()
		}
	}
	c.faults.Close()
	c.updateFaults()
	c.eng.mu.Lock()
	delete(c.eng.contexts, c)
	c.eng.mu.Unlock()
	c.events.Close()
	return c.eng.release()
}

func (c *Context) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (c *Context) children(k kind) []child {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]child, 0, len(c.owned[k]))
	for ch := range c.owned[k] {
		list = append(list, ch)
	}
	return list
}

// own enters an object that was just made, and returns it. On a closed context it destroys the
// object and returns ErrClosed.
func own[T child](c *Context, op string, k kind, object T) (T, error) {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		object.destroyNow()
		var none T
		return none, closed(op, "context")
	}
	c.owned[k][object] = struct{}{}
	c.mu.Unlock()
	c.watch.made(object)
	return object, nil
}

// destroy is what every destroying verb does: fault rules may refuse it, do destroys the object,
// and the context forgets it.
func (c *Context) destroy(op, verb string, k kind, object child, do func() error) error {
	if err := c.verb(op, verb); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	c.disown(k, object)
	return nil
}

func (c *Context) disown(k kind, ch child) {
	c.mu.Lock()
	delete(c.owned[k], ch)
	c.mu.Unlock()
	c.watch.ended(ch)
}

// Device returns the open device.
func (c *Context) Device() *Device { return c.device }

// Addr returns the device's first address.
func (c *Context) Addr() netip.Addr {
	for _, g := range c.eng.dev.GIDs() {
		if !g.IsZero() {
			return g.Addr()
		}
	}
	return netip.Addr{}
}

// PortCounters returns the live statistics of the network port.
func (c *Context) PortCounters() *rocev2.Counters { return c.eng.run.Port().Counters() }

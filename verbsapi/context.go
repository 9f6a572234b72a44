package verbsapi

import (
	"log/slog"
	"net/netip"
	"sync"

	"github.com/gorxe/gorxe/rocev2"
)

// Config says which device to open. The zero value is the interface of the
// default route.
type Config struct {
	// Name of the device; "rxe0" if empty.
	Name string
	// Interface is the network interface whose addresses are the GID table.
	Interface string
	// Address, if valid, is the only address of the device, of Interface if that
	// is set too. Every address of 127.0.0.0/8 can be a device of its own.
	Address netip.Addr
	// Port is the UDP port; 4791 if 0. Peers listen there, so others serve tests.
	Port uint16
	// Limits replaces the device's capabilities and limits; nil: the defaults.
	Limits *DeviceAttr
	// Tap captures what is, or would be, on the wire. Nil: nobody does.
	Tap *rocev2.Tap
	// Log is told of what a user could mend, as a kernel without UDP offloads.
	// Nil: nobody is.
	Log *slog.Logger
}

// Context is an open device (struct ibv_context).
type Context struct {
	device *Device
	eng    *sharedEngine
	events queue[*AsyncEvent]

	mu     sync.Mutex
	closed chan struct{}
	owned  [kinds]map[child]struct{}
}

// kind orders objects by what depends on what: Close destroys in this order.
type kind int

const (
	kindMW kind = iota
	kindQP
	kindAH
	kindMR
	kindSRQ
	kindCQ
	kindChannel
	kindPD
	kinds
)

// child is an object of a context. DestroyNow destroys it without waiting for
// acknowledgements.
type child interface{ destroyNow() }

// Open opens the device that cfg describes. A device that this process has open
// already is shared. Errors of the network unwrap to the sentinels of package
// rocev2, and say what to do.
func Open(cfg Config) (*Context, error) {
	if cfg.Interface == "" && !cfg.Address.IsValid() {
		name, err := rocev2.DefaultInterface()
		if err != nil {
			return nil, err
		}
		cfg.Interface = name
	}
	if cfg.Name == "" {
		cfg.Name = "rxe0"
	}
	eng, err := acquireEngine(cfg)
	if err != nil {
		return nil, err
	}
	c := &Context{
		device: &Device{name: cfg.Name, guid: eng.dev.GUID(), info: eng.run.Port().Info(), cfg: cfg},
		eng:    eng,
		closed: make(chan struct{}),
	}
	c.events.init()
	for k := range c.owned {
		c.owned[k] = make(map[child]struct{})
	}
	eng.mu.Lock()
	eng.contexts[c] = struct{}{}
	eng.mu.Unlock()
	return c, nil
}

// Close destroys everything that was made in the context, and closes the device
// if no other context of this process has it open (ibv_close_device). Calls that
// wait return ErrClosed; unacknowledged events are not waited for. A second
// Close is ErrClosed.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		return closed("CloseDevice", "context")
	}
	close(c.closed)
	c.mu.Unlock()

	// Nothing is added any more: own refuses.
	for k := range c.owned {
		for _, ch := range c.children(kind(k)) {
			ch.destroyNow()
		}
	}
	c.eng.mu.Lock()
	delete(c.eng.contexts, c)
	c.eng.mu.Unlock()
	c.events.close()
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

// own enters an object that was just made. Of a closed context it destroys it
// again and returns ErrClosed.
func (c *Context) own(op string, k kind, ch child) error {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		ch.destroyNow()
		return closed(op, "context")
	}
	c.owned[k][ch] = struct{}{}
	c.mu.Unlock()
	return nil
}

func (c *Context) disown(k kind, ch child) {
	c.mu.Lock()
	delete(c.owned[k], ch)
	c.mu.Unlock()
}

// Device is the device that is open.
func (c *Context) Device() *Device { return c.device }

// Addr is the device's first address.
func (c *Context) Addr() netip.Addr {
	for _, g := range c.eng.dev.GIDs() {
		if !g.IsZero() {
			return g.Addr()
		}
	}
	return netip.Addr{}
}

// PortCounters are the statistics of the network port, live.
func (c *Context) PortCounters() *rocev2.Counters { return c.eng.run.Port().Counters() }

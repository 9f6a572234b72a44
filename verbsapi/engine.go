package verbsapi

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// engine is a running device: the port, the rxe.Device and the clock. Contexts
// that were opened on one address share it, as programs share an adapter: the
// UDP port can be bound once.
type engine struct {
	key   engineKey
	dev   *rxe.Device
	port  *rocev2.Port
	link  portLink
	clock *clock

	portMu sync.Mutex // updatePort

	refs int // guarded by engines.mu

	mu       sync.Mutex // below; a leaf lock: events come with a QP locked
	contexts map[*Context]struct{}
	owners   map[any]eventTarget // *rxe.QP, *rxe.CQ, *rxe.SRQ
}

type engineKey struct {
	iface string
	addr  netip.Addr
	port  uint16
}

// engines are the running ones of this process.
var engines = struct {
	mu   sync.Mutex
	open map[engineKey]*engine
}{open: make(map[engineKey]*engine)}

// acquireEngine returns the engine of cfg's address, started if need be.
func acquireEngine(cfg Config) (*engine, error) {
	key := engineKey{iface: cfg.Interface, addr: cfg.Address.Unmap(), port: cfg.Port}
	engines.mu.Lock()
	defer engines.mu.Unlock()
	if e := engines.open[key]; e != nil {
		if cfg.Tap != nil {
			return nil, &OpError{Op: "Open", Arg: "tap", Why: "the device is open already", Err: ErrBusy}
		}
		e.refs++
		return e, nil
	}
	e, err := startEngine(key, cfg)
	if err != nil {
		return nil, err
	}
	e.refs = 1
	engines.open[key] = e
	return e, nil
}

func startEngine(key engineKey, cfg Config) (*engine, error) {
	e := &engine{
		key:      key,
		clock:    newClock(),
		contexts: make(map[*Context]struct{}),
		owners:   make(map[any]eventTarget),
	}
	link := &e.link
	devCfg := rxe.Config{
		Name:    cfg.Name,
		GUID:    cfg.guid(),
		Link:    link,
		Clock:   e.clock,
		Limits:  cfg.Limits,
		OnEvent: e.onEvent,
	}
	if cfg.Tap != nil {
		devCfg.Tap = tapBurst(cfg.Tap)
	}
	var err error
	if e.dev, err = rxe.New(devCfg); err != nil {
		return nil, err
	}
	e.port, err = rocev2.Open(rocev2.Config{
		Interface: cfg.Interface,
		Address:   cfg.Address,
		Port:      cfg.Port,
		Receiver:  func(b []wire.Datagram) { raceReceive(); e.dev.Receive(b) },
		OnPort:    func(rocev2.PortInfo) { e.updatePort() },
		Log:       cfg.Log,
		Tap:       cfg.Tap,
	})
	if err != nil {
		e.dev.Close() //nolint:errcheck // nothing was made in it
		return nil, err
	}
	link.port.Store(e.port)
	e.updatePort()
	e.clock.run(e.dev.Expire)
	return e, nil
}

// release closes the engine with its last context.
func (e *engine) release() error {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	if e.refs--; e.refs > 0 {
		return nil
	}
	delete(engines.open, e.key)
	err := e.dev.Close()
	e.clock.close()
	if perr := e.port.Close(); err == nil {
		err = perr
	}
	return err
}

// updatePort tells the device what its port is like now. It asks the port again,
// so that of two changes the last one stands. A change before the port is in
// place counts once it is.
func (e *engine) updatePort() {
	port := e.link.port.Load()
	if port == nil {
		return
	}
	e.portMu.Lock()
	defer e.portMu.Unlock()
	info := port.Info()
	e.dev.SetGIDs(info.GIDs)                                          //nolint:errcheck // the port's table is valid
	e.dev.SetPort(rxe.PortState(info.State), rxe.MTU(info.ActiveMTU)) //nolint:errcheck // likewise
}

// tapBurst captures packets between queue pairs of the device. Identifications
// are those that one send of the burst would give.
func tapBurst(tap *rocev2.Tap) func(*wire.Burst) {
	return func(b *wire.Burst) {
		for i := range b.N() {
			tap.WriteOut(b.Route, b.Packet(i), uint16(i))
		}
	}
}

// portLink is the port as the engine's link.
type portLink struct {
	port atomic.Pointer[rocev2.Port]
}

// Send loses packets while the port is not open yet, or not any more.
func (l *portLink) Send(bursts []wire.Burst) {
	raceSend()
	if p := l.port.Load(); p != nil {
		p.Send(bursts) //nolint:errcheck // a lost packet is the transport's to mend
	}
}

func (l *portLink) Join(mgid wire.GID) error {
	if p := l.port.Load(); p != nil {
		return p.JoinGroup(mgid.Addr())
	}
	return ErrClosed
}

func (l *portLink) Leave(mgid wire.GID) error {
	if p := l.port.Load(); p != nil {
		return p.LeaveGroup(mgid.Addr())
	}
	return ErrClosed
}

// guid is the node's EUI-64. An address of its own gives a device of its own,
// and so another GUID than the interface's.
func (c *Config) guid() uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.Interface)) // never fails, as below
	if c.Address.IsValid() {
		b := c.Address.As16()
		h.Write(b[:])
	}
	binary.Write(h, binary.BigEndian, c.Port) //nolint:errcheck // as above
	// Bit 1 of the first byte: locally administered (RFC 4291, appendix A).
	return h.Sum64()&^(3<<56) | 2<<56
}

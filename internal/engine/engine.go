package engine

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Config describes the device to start. Interface or Address must be set.
type Config struct {
	Name string // of the device: "rxe0"
	// Interface is the network interface whose addresses are the GID table.
	Interface string
	// Address, if valid, is the only address of the device. If Interface is set too, it
	// must be an address of that interface.
	Address netip.Addr
	// Port is the UDP port; 4791 if 0.
	Port uint16
	// SpeedMbps is what the port says of its speed; 0: what the interface says.
	SpeedMbps int
	// Limits replaces the device's capabilities and limits; nil: the defaults.
	Limits *rxe.DeviceAttr
	Quirks rxe.Quirks
	ECN    *rxe.ECN // how the device answers congestion; nil: the default
	// GIDTableLen is rxe.Config's. Further addresses have no GID.
	GIDTableLen int
	// OnEvent receives asynchronous events. The engine may call it with a QP locked, so it
	// must not call back into the device.
	OnEvent   func(rxe.Event)
	Decorator Decorator // see Engine.Decorate
	// GSI handles the packets to queue pair 1. Nil: they are dropped.
	GSI rxe.GSI
	Tap *rocev2.Tap // nil: no capture at first
	// Work sees the work requests of a device with a Tap; nil: nothing does.
	Work rxe.WorkTap
	Log  *slog.Logger // nil: no log
	// Threads is rocev2.Config's.
	Threads *rocev2.Threads
	// CostlyMemory is rxe.Config's: programs are other processes.
	CostlyMemory bool
	// OpenPort opens the port; nil: rocev2.Open.
	OpenPort func(rocev2.Config) (Port, error)
}

// Engine is a running device.
type Engine struct {
	dev   *rxe.Device
	port  Port
	link  portLink
	clock *clock

	decorator atomic.Pointer[Decorator]

	closeTimeout time.Duration // deviceCloseTimeout

	speedMbps int                        // of Config
	tap       atomic.Pointer[rocev2.Tap] // of Config, or of SetTap

	portMu sync.Mutex                 // updatePort, and below
	change atomic.Pointer[PortChange] // of AlterPort; read without portMu
	moving *movingGIDs                // nil: GIDs keep their indexes
}

// Start opens the port and starts the device on it. Network errors unwrap to the sentinels
// of package rocev2, and name a remedy.
func Start(cfg Config) (*Engine, error) {
	e := &Engine{clock: newClock(), closeTimeout: deviceCloseTimeout, speedMbps: cfg.SpeedMbps}
	if cfg.Quirks.GIDsMove {
		e.moving = new(movingGIDs)
	}
	devCfg := rxe.Config{
		Name:   cfg.Name,
		GUID:   cfg.GUID(),
		Link:   &e.link,
		Clock:  e.clock,
		Limits: cfg.Limits,
		Quirks: cfg.Quirks,
		ECN:    cfg.ECN,

		GIDTableLen: cfg.GIDTableLen,
		OnEvent:     cfg.OnEvent,
		GSI:         cfg.GSI,

		CostlyMemory: cfg.CostlyMemory,
	}
	if cfg.Tap == nil { // a capture has the packets that no queue pair takes, too
		devCfg.Mark, devCfg.Filter = wire.NewQPNMark(markBits), &e.link
	}
	var err error
	if e.dev, err = rxe.New(devCfg); err != nil {
		return nil, err
	}
	e.SetTap(cfg.Tap, cfg.Work)
	e.Decorate(cfg.Decorator)
	open := cfg.OpenPort
	if open == nil {
		open = openPort
	}
	e.port, err = open(rocev2.Config{
		Interface: cfg.Interface,
		Address:   cfg.Address,
		Port:      cfg.Port,
		Receiver:  func(b []wire.Datagram) { raceReceive(); e.receive(b) },
		OnPort:    func(rocev2.PortInfo) { e.updatePort() },
		Log:       cfg.Log,
		Tap:       cfg.Tap,
		Mark:      devCfg.Mark,
		Threads:   cfg.Threads,
	})
	if err != nil {
		e.dev.Close() //nolint:errcheck // nothing was made in it
		return nil, err
	}
	e.link.port.Store(&e.port)
	e.updatePort()
	e.clock.run(e.dev.Expire)
	return e, nil
}

// Tapped reports whether the packets are captured.
func (e *Engine) Tapped() bool { return e.tap.Load() != nil }

// Device returns the engine's device.
func (e *Engine) Device() *rxe.Device { return e.dev }

// Port returns the engine's network port.
func (e *Engine) Port() Port { return e.port }

// errBlockedAccess is what Close returns when accesses to program memory are still blocked.
var errBlockedAccess = errors.New("engine: a copy to or from a program's memory does not end")

// Close destroys the remaining objects of the device and closes the port. It waits for
// copies to and from program memory, but only for a limited time. If some are still blocked
// then, Close abandons them with the objects that they use, and returns errBlockedAccess. No
// other goroutine of the engine is left when Close returns.
func (e *Engine) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- e.dev.Close() }()
	timer := time.NewTimer(e.closeTimeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-closed:
	case <-timer.C:
		err = errBlockedAccess
	}
	e.clock.close()
	if perr := e.port.Close(); err == nil {
		err = perr
	}
	return err
}

// updatePort copies the port's state into the device. It reads the state again, so the last
// of two changes wins. A change before the port is in place takes effect when it is.
func (e *Engine) updatePort() {
	port := e.link.open()
	if port == nil {
		return
	}
	e.portMu.Lock()
	defer e.portMu.Unlock()
	info, mbps := port.Info(), e.speedMbps
	if c := e.change.Load(); c != nil {
		info, mbps = c.apply(info, mbps)
	}
	e.moving.see(rxe.PortState(info.State))
	info = e.moving.apply(info)
	e.link.mtu.Store(int64(info.MTU))
	setPort(e.dev, info, mbps)
}

// AlterPort makes the port appear otherwise than it is, with the events that belong to the change.
// It does not stop packets. Nil ends that. It must not be called with a QP locked.
func (e *Engine) AlterPort(c *PortChange) {
	e.change.Store(c)
	e.updatePort()
}

// PortInfo returns the state of the port as AlterPort makes it appear. It does not block.
func (e *Engine) PortInfo() rocev2.PortInfo {
	info := e.Port().Info()
	if c := e.change.Load(); c != nil {
		info, _ = c.apply(info, 0)
	}
	return e.moving.apply(info)
}

// setPort copies a port's state into a device. speedMbps, if not 0, replaces the speed of
// the interface.
func setPort(dev *rxe.Device, info rocev2.PortInfo, speedMbps int) {
	dev.SetSpeed(rxe.LinkSpeedFor(cmp.Or(speedMbps, info.SpeedMbps)))
	gids := info.GIDs[:min(len(info.GIDs), dev.QueryPort().GIDTblLen)]
	dev.SetGIDs(gids)                                               //nolint:errcheck // the port's table is valid
	dev.SetPort(rxe.PortState(info.State), rxe.MTU(info.ActiveMTU)) //nolint:errcheck // the port's state is valid
}

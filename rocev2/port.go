package rocev2

import (
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/wire"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Config says which port to open, and which functions it calls.
type Config struct {
	// Interface names the network interface whose addresses make the GID table.
	Interface string

	// Address, if valid, is the only address of the port, on Interface if that is
	// set too. Any address of 127.0.0.0/8 is allowed, so that one host can have
	// several ports. One of Interface and Address must be given. The zone of an
	// IPv6 link-local address names its interface.
	Address netip.Addr

	// Port is the UDP port; 0 means 4791. Others are for tests, because no peer
	// listens there.
	Port uint16

	// Receiver is called with the packets that arrived together, in the order of
	// arrival. It must not keep the slice or the packets' Data after it returns.
	// There is one caller per address and multicast group, so calls may overlap. It
	// must not call Close, JoinGroup or LeaveGroup.
	//
	// A call counts as blocked after some 20 ms if a thread of the process waits for
	// memory that does not answer, and after ten times that in any case. Another
	// goroutine then receives in its place, up to 128 per address. Newer packets may
	// overtake those that the blocked call has not yet processed.
	Receiver func([]wire.Datagram)

	// OnPort, if set, is called after each change of the link or its addresses,
	// one call at a time, not from Open. It must not call Close.
	OnPort func(PortInfo)

	// Mark is the mark of the numbers of the device's queue pairs. If it has bits, the kernel
	// drops packets to numbers without it, except 1 and the multicast number. It also drops
	// packets to connected queue pairs from addresses that AddPeer did not name, and some of
	// very many packets to QP 1.
	Mark wire.QPNMark

	Log *slog.Logger // nil discards
	Tap *Tap         // captures all packets; nil for none (see Port.SetTap)

	// SourcePorts is the number of UDP source ports per address, 1 to 64. 0 means
	// DefaultSourcePorts, or 1 on a loopback interface: no router there chooses a
	// path by the port, and packets of one port share system calls.
	SourcePorts int

	// SocketBuffer is the buffer size in bytes that the port asks for each sending
	// socket; receiving sockets get four times that. 0 means DefaultSocketBuffer.
	// Without CAP_NET_ADMIN the kernel caps it at net.core.wmem_max and rmem_max;
	// PortInfo.ReceiveBuffer has the result.
	SocketBuffer int

	// Threads, if set, lets sockets that receive many packets wait for them in threads.
	Threads *Threads

	// NoGSO and NoGRO do without these offloads, as on an old kernel: for tests, and
	// for network devices whose offload is broken.
	NoGSO, NoGRO bool
}

// Port carries RoCEv2 packets on one network interface or address. All methods
// may be called from several goroutines.
type Port struct {
	cfg      Config
	log      *slog.Logger
	tap      atomic.Pointer[Tap]
	at       atomic.Pointer[attachment]
	counters Counters

	sends        sync.Pool // *sends
	segmentLimit atomic.Int32
	gsoOff       atomic.Bool
	groOff       atomic.Bool

	// Send holds mu for reading, so that no socket is closed during a send: the
	// kernel could give its number to another file.
	mu        sync.RWMutex
	closed    bool
	endpoints map[netip.Addr]*endpoint
	groups    map[netip.Addr]*group
	gids      *gidTable
	info      PortInfo

	// own is a copy of the keys of endpoints. Receivers read it without mu, because
	// Close waits for them.
	own atomic.Pointer[[]netip.Addr]

	filter filter
	drops  drops

	monitor      *monitor
	watch        *standby.Watch // over the receivers
	closeTimeout time.Duration  // defaultCloseTimeout
}

// Open binds the port's sockets and starts to receive and to follow the
// interface. Its errors unwrap to ErrConfig, ErrNoInterface, ErrNoAddress,
// ErrPortTaken or ErrPermission.
func Open(cfg Config) (*Port, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, &PortError{Op: "open", Object: "netlink socket", Kind: permissionKind(err), Cause: err}
	}
	link, err := findLink(h, cfg.Interface, cfg.Address)
	if err != nil {
		h.Close()
		return nil, err
	}
	if cfg.SourcePorts == 0 {
		cfg.SourcePorts = defaultSourcePorts(link)
	}
	p := &Port{
		cfg: cfg, log: cfg.Log,
		endpoints: make(map[netip.Addr]*endpoint), groups: make(map[netip.Addr]*group),
		closeTimeout: defaultCloseTimeout,
	}
	p.tap.Store(cfg.Tap)
	p.attach(link)
	p.filter.init(p)
	p.drops.open()
	p.sends.New = func() any { return new(sends) }
	p.segmentLimit.Store(maxSegments)
	p.own.Store(new([]netip.Addr))
	// Subscribe before the state is read first, so that no change is missed.
	p.monitor, err = newMonitor(p, h)
	if err != nil {
		h.Close()
		p.drops.close()
		return nil, err
	}
	p.watch = standby.NewWatch(standby.CallLimit)
	if err := p.openAddresses(link); err != nil {
		_ = p.Close() // never fails
		return nil, err
	}
	p.monitor.start()
	return p, nil
}

func defaultSourcePorts(link netlink.Link) int {
	if link.Attrs().RawFlags&unix.IFF_LOOPBACK != 0 {
		return 1
	}
	return DefaultSourcePorts
}

// complete checks a Config and fills in its defaults.
func (c *Config) complete() error {
	bad := func(field, hint string) error {
		return &PortError{Op: "open", Object: "Config." + field, Kind: ErrConfig, Hint: hint}
	}
	c.Address = c.Address.Unmap()
	if zone := c.Address.Zone(); zone != "" {
		if c.Interface != "" && c.Interface != zone {
			return bad("Address", "its zone "+zone+" is not the interface "+c.Interface)
		}
		c.Interface, c.Address = zone, c.Address.WithZone("")
	}
	switch {
	case c.Receiver == nil:
		return bad("Receiver", "it is nil; give a function that receives the packets")
	case c.Interface == "" && !c.Address.IsValid():
		return bad("Interface", "name an interface or give an address; DefaultInterface suggests one")
	case c.Address.IsValid() && (c.Address.IsUnspecified() || c.Address.IsMulticast()):
		return bad("Address", c.Address.String()+" is not a unicast address")
	case c.SourcePorts < 0 || c.SourcePorts > maxSourcePorts:
		return bad("SourcePorts", strconv.Itoa(c.SourcePorts)+" is outside 0 to "+strconv.Itoa(maxSourcePorts))
	case c.SocketBuffer < 0:
		return bad("SocketBuffer", "it is negative")
	}
	if c.Port == 0 {
		c.Port = wire.UDPPort
	}
	if c.SocketBuffer == 0 {
		c.SocketBuffer = DefaultSocketBuffer
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return nil
}

// openAddresses opens the sockets of every address that the link has now.
func (p *Port) openAddresses(link netlink.Link) error {
	addrs, table, err := firstTable(p.monitor.handle, link, p.cfg.Address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range addrs {
		e, err := p.openEndpoint(a)
		if err != nil {
			return err
		}
		p.endpoints[a] = e
	}
	p.gids = table
	p.setOwn(addrs)
	p.setInfo(linkInfo(link))
	for _, e := range p.endpoints {
		e.rx.start()
	}
	return nil
}

// setOwn tells the receivers which addresses the port has.
func (p *Port) setOwn(addrs []netip.Addr) {
	own := slices.Clone(addrs)
	p.own.Store(&own)
}

// setInfo adds the GID table to the state of the link, and reports whether anything
// changed. The caller holds mu.
func (p *Port) setInfo(info PortInfo) bool {
	info.GIDs = p.gids.gids()
	for _, e := range p.endpoints {
		if info.ReceiveBuffer == 0 || e.rx.room < info.ReceiveBuffer {
			info.ReceiveBuffer = e.rx.room
		}
	}
	changed := !info.equal(p.info)
	p.info = info
	return changed
}

// owns reports whether addr is an address of the port; it takes no lock.
func (p *Port) owns(addr netip.Addr) bool { return slices.Contains(*p.own.Load(), addr) }

// Info describes the port as it is now.
func (p *Port) Info() PortInfo {
	p.mu.RLock()
	defer p.mu.RUnlock()
	info := p.info
	info.GIDs, info.MAC = slices.Clone(info.GIDs), slices.Clone(info.MAC)
	return info
}

// SetTap sets what captures the packets, in place of the Tap before; nil: nothing does.
func (p *Port) SetTap(t *Tap) { p.tap.Store(t) }

// Counters returns the port's statistics. They are live; this call refreshes the drop counters.
func (p *Port) Counters() *Counters {
	p.countDrops()
	return &p.counters
}

// SendDropTooBig returns that counter. It takes no lock.
func (p *Port) SendDropTooBig() uint64 { return p.counters.SendDropTooBig.Load() }

// Close stops receiving and releases everything. It waits until Receiver and OnPort
// have returned from their last calls. It does not wait for a call of Receiver that
// another goroutine has replaced, nor longer than a second for the last call. The
// goroutines of such calls end when the calls return. Closing twice is harmless.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	endpoints, groups := p.endpoints, p.groups
	p.endpoints, p.groups = nil, nil
	p.mu.Unlock()

	// Not under the lock, because Receiver may be in Send.
	p.monitor.stop()
	deadline := time.Now().Add(p.closeTimeout)
	for _, g := range groups {
		if g.rx != nil {
			g.rx.stop(deadline)
		}
	}
	for _, e := range endpoints {
		e.rx.stop(deadline)
		e.closeSources()
	}
	p.watch.Close()
	p.filter.close()
	p.drops.close()
	return nil
}

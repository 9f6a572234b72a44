package route

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Resolver asks the kernel about the network namespace that it was made in. Its methods
// may be called by several goroutines at once.
type Resolver struct {
	handle *netlink.Handle
	asks   *nl.SocketHandle  // for the state of one neighbor
	events *nl.NetlinkSocket // neighbors that change
	probes [2]*net.UDPConn   // IPv4, IPv6; nil: the host has no such addresses

	low, high uint16
	ipv6Only  bool

	mu      sync.Mutex // a leaf lock
	waiting map[hop]map[*waiter]struct{}
	// followers are told when a neighbor gets another link-layer address.
	followers map[hop]map[*follower]struct{}
	onProbe   func(hop) // for tests; nil: nothing

	closing atomic.Bool
	running sync.WaitGroup
}

// New makes a Resolver. It needs no rights.
func New() (*Resolver, error) {
	r := &Resolver{waiting: make(map[hop]map[*waiter]struct{}), followers: make(map[hop]map[*follower]struct{})}
	r.low, r.high = portRange()
	r.ipv6Only = sysctl("ipv6/bindv6only") == "1"
	var err error
	if r.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("route: opening a netlink socket: %w", err)
	}
	asks, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err == nil {
		r.asks = &nl.SocketHandle{Socket: asks}
		r.events, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_NEIGH)
	}
	if err != nil {
		r.release()
		return nil, fmt.Errorf("route: following the neighbors: %w", err)
	}
	for i, network := range []string{"udp4", "udp6"} {
		// If the host lacks an IP version, nothing needs the socket for it.
		r.probes[i], _ = net.ListenUDP(network, nil) //nolint:errcheck // as above
	}
	r.running.Go(r.follow)
	return r, nil
}

// Close ends the Resolver. No function given to Neighbor or Follow is called any more when
// it returns.
func (r *Resolver) Close() {
	r.closing.Store(true)
	r.events.Close()
	r.running.Wait()
	r.events = nil
	r.release()
}

// release closes what is open.
func (r *Resolver) release() {
	r.handle.Close()
	if r.asks != nil {
		r.asks.Close()
	}
	if r.events != nil {
		r.events.Close()
	}
	for _, c := range r.probes {
		if c != nil {
			c.Close() //nolint:errcheck // nothing was written
		}
	}
}

// PortRange returns the ports that the kernel chooses automatically, as they were when the
// Resolver was made.
func (r *Resolver) PortRange() (low, high uint16) { return r.low, r.high }

// IPv6Only reports whether net.ipv6.bindv6only was set when the Resolver was made.
func (r *Resolver) IPv6Only() bool { return r.ipv6Only }

func portRange() (low, high uint16) {
	f := strings.Fields(sysctl("ipv4/ip_local_port_range"))
	if len(f) == 2 {
		a, errA := strconv.ParseUint(f[0], 10, 16)
		b, errB := strconv.ParseUint(f[1], 10, 16)
		if errA == nil && errB == nil && a > 0 && a <= b {
			return uint16(a), uint16(b)
		}
	}
	return 32768, 60999 // the kernel's default
}

// sysctl returns a setting of the calling thread's network namespace.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/net/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// errno returns the kernel's error.
func errno(err error) error {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// membership is a socket that is a member of a multicast group and receives nothing.
type membership struct{ *net.UDPConn }

// Join makes the host a member of a multicast group on a network interface until the
// result is closed. Routers and switches then send the group's packets here.
func (r *Resolver) Join(index int, group netip.Addr) (io.Closer, error) {
	network := "udp4"
	if group.Is6() {
		network = "udp6"
	}
	c, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, errno(err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close() //nolint:errcheck // nothing was written
		return nil, errno(err)
	}
	control := raw.Control(func(fd uintptr) {
		if group.Is4() {
			err = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
				&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(index)})
			return
		}
		err = unix.SetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(index)})
	})
	if err == nil {
		err = control
	}
	if err != nil {
		c.Close() //nolint:errcheck // nothing was written
		return nil, errno(err)
	}
	return membership{c}, nil
}

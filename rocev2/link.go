package rocev2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/wire"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// PortState is the state of a port.
type PortState uint8

// The values of enum ibv_port_state.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortActive PortState = 4
)

func (s PortState) String() string {
	switch s {
	case PortDown:
		return "PORT_DOWN"
	case PortInit:
		return "PORT_INIT"
	case PortActive:
		return "PORT_ACTIVE"
	}
	return "PORT_STATE_" + strconv.Itoa(int(s))
}

// PortInfo describes a port at one moment.
type PortInfo struct {
	Name      string // of the network interface
	Index     int    // of the network interface
	State     PortState
	MTU       int // of the network interface, bytes
	ActiveMTU int // largest path MTU that fits: 256, 512, 1024, 2048 or 4096 bytes
	// GIDs is the GID table; the zero GID marks an unused index. Index 0 is the
	// default GID, which the interface may not have yet: packets from it are then
	// dropped. Interfaces lists no GID for an interface without a usable address.
	GIDs      []wire.GID
	MAC       net.HardwareAddr
	SpeedMbps int // 0 if the interface does not say; of lo and of a veth: see linkSpeed
	// ReceiveBuffer is the buffer size in bytes of each receiving socket, as the
	// kernel counts it. It limits how much peers may have in flight to this port. It
	// is 0 if the port is not open.
	ReceiveBuffer int
}

// equal reports whether all that matters to a consumer is the same.
func (p PortInfo) equal(q PortInfo) bool {
	return p.Name == q.Name && p.Index == q.Index && p.State == q.State && p.MTU == q.MTU &&
		p.SpeedMbps == q.SpeedMbps && slices.Equal(p.GIDs, q.GIDs) && slices.Equal(p.MAC, q.MAC)
}

// maxHeaders is what Linux sets aside for the headers of a packet before it
// derives the path MTU from the interface's (RXE_MAX_HDR_LENGTH in rxe_param.h). A
// peer with Linux computes with it too, so it must be the same.
const maxHeaders = 80

// activeMTU returns the largest InfiniBand MTU that fits an interface MTU. As in the
// kernel it is never less than 256 (rxe_param.h: rxe_set_mtu).
func activeMTU(interfaceMTU int) int {
	for mtu := 4096; mtu > 256; mtu /= 2 {
		if interfaceMTU-maxHeaders >= mtu {
			return mtu
		}
	}
	return 256
}

// linkState follows ib_get_curr_port_state in drivers/infiniband/core/device.c:
// running with a carrier, or down.
func linkState(rawFlags uint32) PortState {
	if rawFlags&unix.IFF_UP != 0 && rawFlags&unix.IFF_LOWER_UP != 0 {
		return PortActive
	}
	return PortDown
}

// linkInfo describes an interface, without the GID table.
func linkInfo(l netlink.Link) PortInfo {
	a := l.Attrs()
	return PortInfo{
		Name:      a.Name,
		Index:     a.Index,
		State:     linkState(a.RawFlags),
		MTU:       a.MTU,
		ActiveMTU: activeMTU(a.MTU),
		MAC:       slices.Clone(a.HardwareAddr),
		SpeedMbps: linkSpeed(l),
	}
}

// linkAddrs lists an interface's usable addresses, IPv4 first. An IPv6 address cannot
// be bound until duplicate address detection is done.
func linkAddrs(h *netlink.Handle, l netlink.Link) ([]netip.Addr, error) {
	list, err := h.AddrList(l, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range list {
		if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0 {
			continue
		}
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			addrs = append(addrs, ip.Unmap())
		}
	}
	return addrs, nil
}

// Interfaces describes every network interface as the port it would make, in
// the order of the interface index.
func Interfaces() ([]PortInfo, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, &PortError{Op: "list", Object: "network interfaces", Kind: permissionKind(err), Cause: err}
	}
	defer h.Close()
	links, err := listLinks(h)
	if err != nil {
		return nil, err
	}
	var out []PortInfo
	for _, l := range links {
		addrs, err := linkAddrs(h, l)
		if err != nil {
			return nil, &PortError{Op: "list", Object: "addresses of interface " + l.Attrs().Name, Cause: err}
		}
		info := linkInfo(l)
		if len(addrs) > 0 {
			def, err := defaultGID(h, l)
			if err != nil {
				return nil, &PortError{Op: "list", Object: "addresses of interface " + l.Attrs().Name, Cause: err}
			}
			info.GIDs = newGIDTable(def, addrs).gids()
		}
		out = append(out, info)
	}
	return out, nil
}

func listLinks(h *netlink.Handle) ([]netlink.Link, error) {
	links, err := h.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, &PortError{Op: "list", Object: "network interfaces", Kind: permissionKind(err), Cause: err}
	}
	slices.SortFunc(links, func(a, b netlink.Link) int { return a.Attrs().Index - b.Attrs().Index })
	return links, nil
}

// DefaultInterface names the interface of the default route, or the loopback
// interface of a host that has none.
func DefaultInterface() (string, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return "", &PortError{Op: "list", Object: "routes", Kind: permissionKind(err), Cause: err}
	}
	defer h.Close()
	links, err := listLinks(h)
	if err != nil {
		return "", err
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := h.RouteList(nil, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			continue // the kernel may lack this family
		}
		if name := defaultRouteLink(links, routes); name != "" {
			return name, nil
		}
	}
	if l := loopback(links); l != nil {
		return l.Attrs().Name, nil
	}
	return "", &PortError{Op: "find", Object: "a network interface", Kind: ErrNoInterface,
		Hint: "there is no default route and no loopback interface; name one of " + linkNames(links)}
}

// defaultRouteLink returns the interface of the default route with the best metric.
func defaultRouteLink(links []netlink.Link, routes []netlink.Route) string {
	name, metric := "", 0
	for _, r := range routes {
		isDefault := r.Dst == nil || r.Dst.IP.IsUnspecified() && isZeroMask(r.Dst.Mask)
		if !isDefault || r.Type != unix.RTN_UNICAST {
			continue
		}
		index := r.LinkIndex
		if index == 0 && len(r.MultiPath) > 0 {
			index = r.MultiPath[0].LinkIndex
		}
		i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == index })
		if i >= 0 && (name == "" || r.Priority < metric) {
			name, metric = links[i].Attrs().Name, r.Priority
		}
	}
	return name
}

func isZeroMask(m net.IPMask) bool {
	ones, bits := m.Size()
	return ones == 0 && bits > 0
}

func loopback(links []netlink.Link) netlink.Link {
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().RawFlags&unix.IFF_LOOPBACK != 0 })
	if i < 0 {
		return nil
	}
	return links[i]
}

func linkNames(links []netlink.Link) string {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.Attrs().Name
	}
	return strings.Join(names, ", ")
}

// findLink resolves a Config to its interface. With an address it is the
// interface that has it; every address of 127.0.0.0/8 belongs to the loopback
// interface even though only 127.0.0.1 is assigned to it.
func findLink(h *netlink.Handle, name string, addr netip.Addr) (netlink.Link, error) {
	links, err := listLinks(h)
	if err != nil {
		return nil, err
	}
	if name != "" {
		i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == name })
		if i < 0 {
			return nil, &PortError{Op: "open", Object: "interface " + name, Kind: ErrNoInterface,
				Hint: "the ones here are " + linkNames(links)}
		}
		links = links[i : i+1]
	}
	if !addr.IsValid() {
		return links[0], nil
	}
	var have []string
	for _, l := range links {
		addrs, err := linkAddrs(h, l)
		if err != nil {
			return nil, &PortError{Op: "list", Object: "addresses of interface " + l.Attrs().Name, Cause: err}
		}
		if slices.Contains(addrs, addr) {
			return l, nil
		}
		for _, a := range addrs {
			have = append(have, fmt.Sprintf("%v (%s)", a, l.Attrs().Name))
		}
	}
	if l := loopback(links); l != nil && addr.Is4() && addr.IsLoopback() {
		return l, nil
	}
	where := "this host"
	if name != "" {
		where = "interface " + name
	}
	return nil, &PortError{Op: "open", Object: "address " + addr.String(), Kind: ErrNoAddress,
		Hint: fmt.Sprintf("%s does not have it; it has %s", where, strings.Join(have, ", "))}
}

func permissionKind(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return ErrPermission
	}
	return nil
}

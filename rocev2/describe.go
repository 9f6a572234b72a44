package rocev2

import (
	"net"
	"net/netip"
	"slices"

	"github.com/gorxe/gorxe/wire"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Describe returns what Info of a port says that Open opens with cfg. It opens no socket for
// packets, so it also describes a port that another process has open. Of cfg it uses
// Interface and Address.
func Describe(cfg Config) (PortInfo, error) {
	cfg.Receiver = func([]wire.Datagram) {}
	if err := cfg.complete(); err != nil {
		return PortInfo{}, err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return PortInfo{}, &PortError{Op: "open", Object: "netlink socket", Kind: permissionKind(err), Cause: err}
	}
	defer h.Close()
	link, err := findLink(h, cfg.Interface, cfg.Address)
	if err != nil {
		return PortInfo{}, err
	}
	_, table, err := firstTable(h, link, cfg.Address)
	if err != nil {
		return PortInfo{}, err
	}
	info := linkInfo(link)
	info.GIDs = table.gids()
	return info, nil
}

// firstTable returns the addresses that a port has when it is opened, at least one, and
// its GID table.
func firstTable(h *netlink.Handle, link netlink.Link, want netip.Addr) ([]netip.Addr, *gidTable, error) {
	addrs, err := currentAddrs(h, link, want)
	if err != nil {
		return nil, nil, err
	}
	if len(addrs) == 0 {
		return nil, nil, &PortError{Op: "open", Object: "interface " + link.Attrs().Name, Kind: ErrNoAddress, Hint: addressHint(link)}
	}
	var def netip.Addr
	if !want.IsValid() {
		if def, err = defaultGID(h, link); err != nil {
			return nil, nil, addrsError(link, err)
		}
	}
	return addrs, newGIDTable(def, addrs), nil
}

// addressHint says why the interface has no address for the port, and what to do.
func addressHint(link netlink.Link) string {
	name := link.Attrs().Name
	assign := "assign one with `ip address add … dev " + name + "`"
	if link.Attrs().Flags&net.FlagUp == 0 {
		return "it is down; set it up with `ip link set " + name + " up`, and if it has no IP address then, " + assign
	}
	return "it has no usable IP address; " + assign
}

// currentAddrs lists the addresses that a port on link should have: want, or all if want is
// not valid.
func currentAddrs(h *netlink.Handle, link netlink.Link, want netip.Addr) ([]netip.Addr, error) {
	addrs, err := linkAddrs(h, link)
	if err != nil {
		return nil, addrsError(link, err)
	}
	if want.IsValid() {
		local127 := want.Is4() && want.IsLoopback() && link.Attrs().RawFlags&unix.IFF_LOOPBACK != 0
		if slices.Contains(addrs, want) || local127 {
			return []netip.Addr{want}, nil
		}
		return nil, nil
	}
	return addrs[:min(len(addrs), maxGIDs)], nil
}

func addrsError(link netlink.Link, err error) error {
	return &PortError{Op: "list", Object: "addresses of interface " + link.Attrs().Name, Kind: permissionKind(err), Cause: err}
}

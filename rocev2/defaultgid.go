package rocev2

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// defaultGID returns the address of an interface's default GID, or the zero Addr if it
// has none. As in the kernel it does not depend on duplicate address detection, which
// takes seconds after the link comes up, while programs may already read the table.
//
// It is the link-local address that the kernel makes from the MAC. If the interface has
// only other link-local addresses, it is the first of these. If it has none and the
// kernel will not make one, there is no default GID: the kernel's could not be used.
func defaultGID(h *netlink.Handle, l netlink.Link) (netip.Addr, error) {
	a := l.Attrs()
	if a.RawFlags&unix.IFF_LOOPBACK != 0 {
		return netip.Addr{}, nil
	}
	list, err := h.AddrList(l, netlink.FAMILY_V6)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return netip.Addr{}, err
	}
	var present, failed []netip.Addr
	for _, entry := range list {
		addr, _ := netip.AddrFromSlice(entry.IP)
		switch {
		case !isLinkLocal(addr):
		case entry.Flags&unix.IFA_F_DADFAILED != 0:
			failed = append(failed, addr)
		default:
			present = append(present, addr)
		}
	}
	fromMAC := linkLocalFrom(a.HardwareAddr)
	switch {
	case slices.Contains(present, fromMAC):
		return fromMAC, nil
	case len(present) > 0:
		return present[0], nil
	case a.EncapType == "ether" && makesLinkLocal(a.Name) && !slices.Contains(failed, fromMAC):
		return fromMAC, nil
	}
	return netip.Addr{}, nil
}

// linkLocalFrom returns the link-local address with the modified EUI-64 of a MAC (RFC
// 4291, appendix A), or the zero Addr for a hardware address of another length.
func linkLocalFrom(mac net.HardwareAddr) netip.Addr {
	if len(mac) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}

// makesLinkLocal reports whether the kernel gives the interface a link-local address
// made from its MAC when the link comes up. The files are those of the reading thread's
// network namespace, as the netlink socket is.
func makesLinkLocal(name string) bool {
	conf := "/proc/sys/net/ipv6/conf/" + name + "/"
	const modeEUI64 = "0" // IN6_ADDR_GEN_MODE_EUI64
	return readsAs(conf+"disable_ipv6", "0") && readsAs(conf+"addr_gen_mode", modeEUI64)
}

func readsAs(file, value string) bool {
	b, err := os.ReadFile(file)
	return err == nil && string(bytes.TrimSpace(b)) == value
}

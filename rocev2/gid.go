package rocev2

import (
	"net/netip"
	"slices"
)

// maxGIDs bounds the GID table; each entry costs the port its sockets.
const maxGIDs = 64

// gidTable orders an interface's addresses as the kernel's RoCEv2 GID table does
// (drivers/infiniband/core/roce_gid_mgmt.c): index 0 is the link-local address,
// index 1 the first IPv4 address, then come the rest. If there is no address of one
// of these kinds, another takes its index, so that indices 0 and 1 always work.
//
// prev is the table so far. An address keeps its index, a removed one leaves a hole
// (the zero Addr), and a new one takes the first hole from index 2 on. So the meaning
// of a GID index does not change while its address exists.
func gidTable(prev, addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return nil
	}
	table := make([]netip.Addr, 2, max(2, len(prev)))
	table[0] = fillRole(prev, 0, addrs, isLinkLocal, netip.Addr.Is4)
	table[1] = fillRole(prev, 1, addrs, netip.Addr.Is4, isGlobal6)
	for _, a := range prev[min(2, len(prev)):] {
		if !slices.Contains(addrs, a) {
			a = netip.Addr{}
		}
		table = append(table, a)
	}
	for _, a := range addrs {
		if slices.Contains(table, a) {
			continue
		}
		if hole := slices.Index(table[2:], netip.Addr{}); hole >= 0 {
			table[2+hole] = a
		} else if len(table) < maxGIDs {
			table = append(table, a)
		}
	}
	for len(table) > 2 && !table[len(table)-1].IsValid() {
		table = table[:len(table)-1]
	}
	return table
}

// fillRole chooses the address of one of the first two indices: the present one if it
// is of the best kind, else the first one that suits, else any.
func fillRole(prev []netip.Addr, index int, addrs []netip.Addr, best, second func(netip.Addr) bool) netip.Addr {
	for _, suits := range []func(netip.Addr) bool{best, second} {
		if index < len(prev) && suits(prev[index]) && slices.Contains(addrs, prev[index]) {
			return prev[index]
		}
		if i := slices.IndexFunc(addrs, suits); i >= 0 {
			return addrs[i]
		}
	}
	return addrs[0]
}

func isLinkLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
func isGlobal6(a netip.Addr) bool   { return a.Is6() && !a.IsLinkLocalUnicast() }

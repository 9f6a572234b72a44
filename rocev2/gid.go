package rocev2

import (
	"net/netip"
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// gidTable is the GID table of a port. Programs read it once and then use indices, so
// an address never moves to another index. An address that is removed leaves a hole,
// and gets the same index when it comes back. An index gets another address only after
// its own was removed, and after all indices that never had one are used.
//
// Indices 0 and 1 have roles, as in the kernel (drivers/infiniband/core/cache.c:
// ib_cache_gid_set_default_gid, and the first address that follows).
type gidTable struct {
	slots []gidSlot
	// hasDefault: index 0 is the default GID. It stays in the table even while the
	// interface does not have the address.
	hasDefault bool
}

type gidSlot struct {
	addr netip.Addr // the address, or the last one that was here; invalid if none was
	used bool
}

// newGIDTable makes the table of a port with these addresses, at least one. def is the
// default GID's address, or invalid. Index 0 is the default GID; without one it is the
// first link-local address, else the first IPv4 address. Index 1 is the first IPv4
// address, else the first global IPv6 address. A port without a default GID repeats an
// address there if it has no other, so that both indices work.
func newGIDTable(def netip.Addr, addrs []netip.Addr) *gidTable {
	t := &gidTable{slots: make([]gidSlot, 2), hasDefault: def.IsValid()}
	if t.hasDefault {
		t.slots[0].addr = def
		t.slots[1].addr = first(addrs, netip.Addr.Is4, isGlobal6)
	} else {
		t.slots[0].addr = first(addrs, isLinkLocal, netip.Addr.Is4, netip.Addr.IsValid)
		t.slots[1].addr = first(addrs, netip.Addr.Is4, isGlobal6, netip.Addr.IsValid)
	}
	t.update(addrs)
	return t
}

// update brings the table in line with the addresses that the port has now.
func (t *gidTable) update(addrs []netip.Addr) {
	for i := range t.slots {
		s := &t.slots[i]
		s.used = slices.Contains(addrs, s.addr) || i == 0 && t.hasDefault
	}
	for _, a := range addrs {
		if !slices.ContainsFunc(t.slots, func(s gidSlot) bool { return s.addr == a }) {
			t.add(gidSlot{a, true})
		}
	}
}

// setDefault sets the default GID of an interface that took the place of another. An invalid
// one leaves the table without.
func (t *gidTable) setDefault(def netip.Addr) {
	if t.hasDefault = def.IsValid(); !t.hasDefault || t.slots[0].addr == def {
		return
	}
	for i := range t.slots {
		if t.slots[i].addr == def {
			t.slots[i] = gidSlot{}
		}
	}
	t.slots[0] = gidSlot{def, true}
}

// add finds an index for an address that never had one. If index 1 is free, an IPv4
// address gets it, so that index 1 keeps its role when the interface's IPv4 address
// changes. If index 0 had that address too, it follows.
func (t *gidTable) add(s gidSlot) {
	if s.addr.Is4() && !t.slots[1].used {
		t.slots[1] = s
		if !t.slots[0].used {
			t.slots[0] = s
		}
		return
	}
	if len(t.slots) < maxGIDs {
		t.slots = append(t.slots, s)
		return
	}
	if i := slices.IndexFunc(t.slots[2:], func(s gidSlot) bool { return !s.used }); i >= 0 {
		t.slots[2+i] = s
	}
}

// gids returns the table up to its last used index; the zero GID marks a hole.
func (t *gidTable) gids() []wire.GID {
	var out []wire.GID
	for i, s := range t.slots {
		if s.used {
			out = append(out, make([]wire.GID, i-len(out))...)
			out = append(out, wire.GIDFromAddr(s.addr))
		}
	}
	return out
}

// first returns the first address that one of the kinds suits, earlier kinds first.
func first(addrs []netip.Addr, kinds ...func(netip.Addr) bool) netip.Addr {
	for _, suits := range kinds {
		if i := slices.IndexFunc(addrs, suits); i >= 0 {
			return addrs[i]
		}
	}
	return netip.Addr{}
}

func isLinkLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
func isGlobal6(a netip.Addr) bool   { return a.Is6() && !a.IsLinkLocalUnicast() }

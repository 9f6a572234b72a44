package rdmacm

import (
	"io"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Multicast is an ID's membership of a group.
type Multicast struct {
	id   *ID
	addr Addr
	// member keeps the host in the group on the network; nil for a sender only, or
	// after Leave.
	member io.Closer
	left   bool
}

// groupCost is an estimate of what a membership takes.
var groupCost = quota.Cost{Memory: 512, Files: 1}

// enotsupp is the kernel's ENOTSUPP, which C programs have no name for.
const enotsupp unix.Errno = 524

// Join makes the ID's host a member of a multicast group, and MulticastJoin follows with
// the address to send to (rdma_join_multicast). Switches learn of the membership through
// IGMP, unless the ID only sends. The program attaches its queue pair to the group
// itself. EINVAL unless the ID is one of UD, bound to a device, and not yet connected.
// RoCE has no IPv6 groups (ENOTSUPP).
func (id *ID) Join(addr Addr, sendOnly bool) (*Multicast, error) {
	index, err := id.joinable(addr)
	if err == nil {
		err = id.owner.take(groupCost)
	}
	if err != nil {
		return nil, err
	}
	mc := &Multicast{id: id, addr: addr}
	if !sendOnly {
		mc.member, err = id.m.resolver.Join(index, addr.Addr())
	}
	if err == nil {
		err = id.joined(mc)
	}
	if err != nil {
		if mc.member != nil {
			mc.member.Close() //nolint:errcheck // nothing was written
		}
		id.owner.give(groupCost)
		return nil, err
	}
	return mc, nil
}

// joinable reports why an ID cannot join a group, or returns the number of the network
// interface.
func (id *ID) joinable(addr Addr) (index int, err error) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	switch {
	case id.dev == nil:
		return 0, errNoDevice
	case id.qpType != rxe.QPUD:
		return 0, refuse(unix.EINVAL, "id", "is not for UD", "create it with RDMA_PS_UDP")
	case id.state != StateAddrBound && id.state != StateAddrResolved:
		return 0, id.wrongState("join after ADDR_RESOLVED, or when the id is bound")
	case addr.isZero():
		return 0, refuse(unix.EINVAL, "addr", "is 0", "name a group")
	case addr.family() != famIPv4:
		return 0, refuse(enotsupp, "addr", "is no IPv4 address", "join an IPv4 group")
	}
	info := id.dev.Net()
	if info.MTU == 0 {
		return 0, errNoLink
	}
	if _, err := id.groupAH(addr.Addr()); err != nil {
		return 0, err
	}
	if mtuCode(info.MTU) == 0 {
		return 0, errSmallMTU
	}
	return info.Index, nil
}

// joined makes a membership the ID's. ENODEV if the ID or its device has gone meanwhile.
func (id *ID) joined(mc *Multicast) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.dead || id.dev == nil {
		return unix.ENODEV
	}
	ah, err := id.groupAH(mc.addr.Addr())
	if err != nil {
		return err
	}
	if id.groups == nil {
		id.groups = make(map[*Multicast]struct{})
	}
	id.groups[mc] = struct{}{}
	id.setQKey(0) //nolint:errcheck // never fails without a key
	ev := &Event{Kind: MulticastJoin, Multicast: mc, UD: &UDEvent{AH: ah, QPN: wire.MulticastQPN, QKey: id.qkey}}
	id.m.later(id, func() {
		if !mc.left {
			id.event(ev)
		}
	})
	return nil
}

// groupAH returns the address of a group (cma_iboe_set_mgid, ib_init_ah_from_mcmember).
func (id *ID) groupAH(group netip.Addr) (rxe.AHAttr, error) {
	info := id.dev.Net()
	i, ok := id.dev.gidIndex(&info, id.src.Addr())
	if !ok {
		return rxe.AHAttr{}, refuse(unix.ENODEV, "id", "has an address that its device has lost", "bind another id to an address of the device")
	}
	return rxe.AHAttr{DGID: wire.GIDFromAddr(group), SGIDIndex: i, HopLimit: rxe.DefaultHopLimit, TrafficClass: id.tos, PortNum: 1}, nil
}

// Leave ends the membership. Its event, if it has not been handled yet, is dropped.
func (mc *Multicast) Leave() {
	mc.id.m.mu.Lock()
	defer mc.id.m.unlock()
	mc.leave()
}

// leave is Leave; Manager.mu is held.
func (mc *Multicast) leave() {
	if mc.left {
		return
	}
	mc.left = true
	if mc.member != nil {
		mc.member.Close() //nolint:errcheck // nothing was written
	}
	delete(mc.id.groups, mc)
	mc.id.owner.give(groupCost)
}

// Addr returns the group's address that Join was called with.
func (mc *Multicast) Addr() Addr { return mc.addr }

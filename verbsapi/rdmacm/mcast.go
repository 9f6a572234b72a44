package rdmacm

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
)

// Multicast is an ID's membership of a group.
type Multicast struct {
	id *ID
	cm *rdmacm.Multicast
}

// JoinMulticast makes the ID a member of an IPv4 group (rdma_join_multicast), or only a
// sender (RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER). MulticastJoin follows, with AH and QKey
// for sending. A queue pair of CreateQP receives what is sent to the group after
// AttachMcast with AH.DGID.
func (id *ID) JoinMulticast(group netip.Addr, sendOnly bool) (*Multicast, error) {
	mc, err := id.cm.Join(internalAddr(netip.AddrPortFrom(group, 0)), sendOnly)
	if err != nil {
		return nil, opError("JoinMulticast", group.String(), err)
	}
	return &Multicast{id: id, cm: mc}, nil
}

// Leave ends the membership (rdma_leave_multicast).
func (mc *Multicast) Leave() { mc.cm.Leave() }

// Group returns the group's address.
func (mc *Multicast) Group() netip.Addr { return mc.cm.Addr().Addr() }

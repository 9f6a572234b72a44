package rocev2

import (
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// group is a multicast group that the port has joined. It has its own socket, bound
// to the group's address.
type group struct {
	rx   *receiver // nil: the interface is gone, or it refused
	uses int
}

// JoinGroup starts to receive the packets to a multicast group on the port's
// interface. The address of a multicast GID is GID.Addr: IPv6, or IPv4 for an
// IPv4-mapped one. Each call needs one call of LeaveGroup.
//
// The port does not receive packets that it sent to the group itself: the engine
// copies these to its own queue pairs. It does receive those of the host's other
// ports.
func (p *Port) JoinGroup(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if !addr.IsMulticast() {
		return &PortError{Op: "join", Object: "group " + addr.String(), Kind: ErrConfig, Hint: "not a multicast address"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return &PortError{Op: "join", Object: "group " + addr.String(), Kind: ErrClosed}
	}
	if g := p.groups[addr]; g != nil {
		g.uses++
		return nil
	}
	if p.at.Load().index == 0 { // Linux would take the index 0 for any interface
		p.groups[addr] = &group{uses: 1}
		return nil
	}
	rx, err := p.joinOn(addr)
	if err != nil {
		return err
	}
	p.groups[addr] = &group{rx: rx, uses: 1}
	rx.start()
	return nil
}

// joinOn opens the socket of a group on the port's interface.
func (p *Port) joinOn(addr netip.Addr) (*receiver, error) {
	rx, err := p.openReceiver(addr)
	if err != nil {
		return nil, err
	}
	if err := rx.join(p.at.Load().index); err != nil {
		rx.close()
		return nil, &PortError{Op: "join", Object: "group " + addr.String() + " on interface " + p.at.Load().name,
			Kind: permissionKind(err), Cause: err,
			Hint: "the interface must be up and do multicast; net.ipv4.igmp_max_memberships bounds the groups of a host"}
	}
	return rx, nil
}

// LeaveGroup undoes one JoinGroup. The last one for a group waits until Receiver has
// returned from its last call, unless that call is blocked (see Close).
func (p *Port) LeaveGroup(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	p.mu.Lock()
	g := p.groups[addr]
	if g == nil {
		closed := p.closed
		p.mu.Unlock()
		e := &PortError{Op: "leave", Object: "group " + addr.String(), Kind: ErrConfig, Hint: "it was not joined"}
		if closed {
			e.Kind, e.Hint = ErrClosed, ""
		}
		return e
	}
	g.uses--
	last, rx := g.uses == 0, g.rx
	if last {
		delete(p.groups, addr)
	}
	p.mu.Unlock()
	if last && rx != nil {
		rx.stop(time.Now().Add(p.closeTimeout)) // the membership ends with the socket
	}
	return nil
}

func (r *receiver) join(index int) (err error) {
	control := r.control(func(fd int) {
		if r.addr.Is4() {
			mreq := &unix.IPMreqn{Multiaddr: r.addr.As4(), Ifindex: int32(index)}
			err = os.NewSyscallError("IP_ADD_MEMBERSHIP", unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq))
			return
		}
		mreq := &unix.IPv6Mreq{Multiaddr: r.addr.As16(), Interface: uint32(index)}
		err = os.NewSyscallError("IPV6_JOIN_GROUP", unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, mreq))
	})
	if err == nil {
		err = control
	}
	return err
}

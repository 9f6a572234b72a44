package engine

import (
	"net/netip"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// Port carries the packets of a device, and says what its network is like. A *rocev2.Port is one.
// It calls the Receiver and the OnPort of the rocev2.Config that it was opened with. Several
// threads may call its methods at once. A Port may be a rxe.Framer, too.
type Port interface {
	// Send sends packets whose ICRC is empty. A packet that cannot be sent is lost.
	Send(bursts []wire.Burst) error
	// SourcePort returns the UDP source port of the packets of a route; 0: the port does not have
	// its source address.
	SourcePort(r *wire.Route) uint16
	// JoinGroup and LeaveGroup add and remove a multicast address.
	JoinGroup(addr netip.Addr) error
	LeaveGroup(addr netip.Addr) error
	// SetMark, AddPeer and RemovePeer are those of rxe.Filter. A port may ignore them.
	SetMark(m wire.QPNMark)
	AddPeer(addr netip.Addr)
	RemovePeer(addr netip.Addr)
	// Info returns the state of the port. It does not block.
	Info() rocev2.PortInfo
	Counters() *rocev2.Counters
	// Close ends the port. When it returns, nothing more is received.
	Close() error
}

func openPort(cfg rocev2.Config) (Port, error) {
	p, err := rocev2.Open(cfg)
	if err != nil {
		return nil, err // not a nil *rocev2.Port
	}
	return p, nil
}

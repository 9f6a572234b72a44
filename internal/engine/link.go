package engine

import (
	"net/netip"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// portLink is the port as the device's link.
type portLink struct {
	port atomic.Pointer[Port]
	mtu  atomic.Int64 // of the network interface
}

// open returns the port, or nil if it is not open.
func (l *portLink) open() Port {
	if p := l.port.Load(); p != nil {
		return *p
	}
	return nil
}

// Framer implements rxe.FrameLink.
func (l *portLink) Framer() rxe.Framer {
	f, _ := l.open().(rxe.Framer)
	return f
}

// TooLong implements rxe.LimitedLink.
func (l *portLink) TooLong() (mtu int, lost uint64) {
	if p, ok := l.open().(interface{ SendDropTooBig() uint64 }); ok {
		lost = p.SendDropTooBig()
	}
	return int(l.mtu.Load()), lost
}

// Send loses packets while the port is not open.
func (l *portLink) Send(bursts []wire.Burst) {
	raceSend()
	if p := l.open(); p != nil {
		p.Send(bursts) //nolint:errcheck // the transport repairs a loss
	}
}

func (l *portLink) Join(mgid wire.GID) error {
	if p := l.open(); p != nil {
		return p.JoinGroup(mgid.Addr())
	}
	return rxe.ErrClosed
}

func (l *portLink) Leave(mgid wire.GID) error {
	if p := l.open(); p != nil {
		return p.LeaveGroup(mgid.Addr())
	}
	return rxe.ErrClosed
}

// SetMark, AddPeer and RemovePeer make portLink a rxe.Filter. A device without a port has no
// queue pairs.
func (l *portLink) SetMark(m wire.QPNMark) {
	if p := l.open(); p != nil {
		p.SetMark(m)
	}
}

func (l *portLink) AddPeer(addr netip.Addr) {
	if p := l.open(); p != nil {
		p.AddPeer(addr)
	}
}

func (l *portLink) RemovePeer(addr netip.Addr) {
	if p := l.open(); p != nil {
		p.RemovePeer(addr)
	}
}

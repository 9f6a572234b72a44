package daemon

import (
	"cmp"
	"errors"
	"net/netip"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

// startDevice starts a device, and completes spec with its address if that is a free one.
//
// A private daemon takes a free address, too, if UDP port 4791 of lo is taken, as by the gorxe of
// another user. A device of lo is for this host only, so its programs meet at any address. The run
// says so.
func (s *Server) startDevice(spec *proto.Spec, index int, c common) (d *device, err error) {
	if _, ok := spec.ConnectX(); ok {
		spec.Like = cmp.Or(spec.Like, proto.DefaultLike)
	}
	if !spec.Free {
		d, err = startDevice(*spec, index, c)
		if !s.cfg.Private || !spec.Loopback() || !errors.Is(err, rocev2.ErrPortTaken) {
			return d, err
		}
	}
	return d, rocev2.OnFreeLoopback(func(a netip.Addr) (err error) {
		at := *spec
		at.Interface, at.Address, at.Free = "", a, true
		if d, err = startDevice(at, index, c); err == nil {
			*spec = at
		}
		return err
	})
}

// address is that of the first device, by which programs on this host reach it: an IPv4 address if
// it has one.
func (s *Server) address() (best netip.Addr) {
	if len(s.devices) == 0 {
		return best
	}
	info := s.devices[0].engine.PortInfo()
	for _, g := range info.GIDs {
		a := g.Addr()
		switch {
		case g.IsZero():
		case a.Is4():
			return a
		case !best.IsValid(), best.IsLinkLocalUnicast():
			best = a
		}
	}
	return best
}

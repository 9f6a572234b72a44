package rdmacm

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// A request is taken only if the route to its sender leaves through the device that it came
// to. The kernel is asked before the Manager is locked: the answer may take its time, and
// other connections go on.

// wayBack is what the kernel said of the way to the sender of a request.
type wayBack struct {
	query route.Query // the zero Query: nothing was asked
	way   route.Route
	err   error
}

// wayBack asks the kernel for the way to the sender of a request to a listener, unless it
// is on this host. Manager.mu is not held.
func (d *Device) wayBack(mad *wire.MAD) (w wayBack) {
	service, data := requested(mad)
	h, err := wire.ParseIPCM(data)
	if err != nil {
		return w
	}
	info := d.Net()
	local, remote := route.WithZone(h.Dst, info.Index), route.WithZone(h.Src, info.Index)
	if !connects(local) || !connects(remote) || local.IsLoopback() || remote.IsLoopback() || !d.needsWay(service, remote) {
		return w
	}
	w.query = backQuery(&info, local, remote)
	w.way, w.err = d.manager.resolver.Route(w.query)
	return w
}

// needsWay reports whether a request to a service needs a route to its sender.
func (d *Device) needsWay(service uint64, sender netip.Addr) bool {
	d.manager.mu.Lock()
	defer d.manager.mu.Unlock()
	return d.services[service] != nil && d.manager.withAddress(sender, 0) == nil
}

func backQuery(info *rocev2.PortInfo, local, remote netip.Addr) route.Query {
	return route.Query{Src: local, Dst: remote, Interface: info.Index}
}

// requested returns the service and the private data of a REQ or SIDR_REQ; no data for
// other datagrams.
func requested(mad *wire.MAD) (service uint64, data []byte) {
	msg, err := wire.ParseCM(mad[:])
	if err != nil {
		return 0, nil
	}
	switch msg := msg.(type) {
	case wire.CMREQ:
		return msg.ServiceID(), msg.PrivateData()
	case wire.CMSIDRREQ:
		return msg.ServiceID(), msg.PrivateData()
	default:
		return 0, nil
	}
}

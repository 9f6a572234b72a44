package rdmacm

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// request is a REQ or SIDR_REQ. Its addresses are those in the header of the RDMA IP CM
// service, not those of its packet.
type request struct {
	*cm.Request
	key           portKey
	local, remote Addr
	fromHere      bool   // the peer is on this host
	data          []byte // the consumer's private data
}

// readRequest checks the addresses of a request. Without a result, the verdict says what
// happens with it (cma_save_req_info, cma_get_net_dev, validate_net_dev).
func (d *Device) readRequest(req *cm.Request) (*request, cm.Verdict) {
	info := d.Net()
	if !req.Lookup {
		if _, ok := d.gidIndex(&info, req.Path.RemoteGID.Addr()); !ok {
			gid := req.Path.RemoteGID
			return nil, cm.Refuse{Reason: wire.RejectPrimaryGID, ARI: gid[:]}
		}
	}
	space, port, ok := wire.SplitServiceID(req.Service)
	if !ok {
		return nil, consumerReject
	}
	r := &request{Request: req, key: portKey{space, port}}
	h, err := wire.ParseIPCM(req.PrivateData)
	if err != nil {
		// A header without an IP version: AF_IB has no header.
		if req.PrivateData[0] != 0 || !isAFIB(req.PrivateData) {
			return nil, consumerReject
		}
		r.data = req.PrivateData
		r.local = Addr{AFIB: &SockaddrIB{GID: req.Path.RemoteGID, ServiceID: req.Service, Mask: ^uint64(0), PKey: req.PKey}}
		r.remote = Addr{AFIB: &SockaddrIB{GID: req.From.DGID, PKey: req.PKey}}
		return r, nil
	}
	r.data = req.PrivateData[wire.IPCMHeaderLen:]
	r.local = Addr{AddrPort: netip.AddrPortFrom(route.WithZone(h.Dst, info.Index), port)}
	r.remote = Addr{AddrPort: netip.AddrPortFrom(route.WithZone(h.Src, info.Index), h.SrcPort)}
	if verdict := d.reaches(&info, r); verdict != nil {
		return nil, verdict
	}
	return r, nil
}

// isAFIB reports whether private data does not begin with a header of IPv4 or IPv6.
func isAFIB(data []byte) bool {
	version := data[1] >> 4
	return version != 4 && version != 6
}

// reaches decides whether the peer that a request names can be reached from the address
// that it names, through the device that it came to. A loopback address must be the
// address of the packet too, because any host can write the header. Nil means that it
// can. Manager.mu is held.
func (d *Device) reaches(info *rocev2.PortInfo, r *request) cm.Verdict {
	local, remote := r.local.Addr(), r.remote.Addr()
	switch {
	case !connects(local) || !connects(remote):
		return consumerReject
	case local.IsLoopback() || remote.IsLoopback():
		r.fromHere = true
		if _, ours := d.gidIndex(info, local); !ours || r.From.DGID != wire.GIDFromAddr(remote) {
			return consumerReject
		}
		return nil
	case d.manager.withAddress(remote, 0) != nil:
		r.fromHere = true
		return nil
	case d.back.query != backQuery(info, local, remote):
		// The listener has come, or a device has gone, since the kernel was asked.
		return cm.Ignore // the peer asks again
	case d.back.err != nil:
		return consumerReject
	}
	r.fromHere = d.back.way.Local
	if !r.fromHere && d.back.way.Interface != info.Index {
		return consumerReject
	}
	return nil
}

// connects reports whether an address may be one end of a connection.
func connects(ip netip.Addr) bool {
	return ip.IsValid() && !ip.Is4In6() && !ip.IsUnspecified() && !ip.IsMulticast() && (!ip.Is4() || ip.As4()[0] != 0 && ip != broadcast)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// accepting makes a new ID the passive end of a connection. Manager.mu is held.
func (id *ID) accepting(d *Device, c *cm.Conn, r *request) {
	id.state = StateConnect
	id.dev, id.src, id.dst, id.conn = d, r.local, r.remote, c
	if r.Lookup {
		return // a SIDR_REQ has no path
	}
	// The peer's path, from this side (cm_format_paths_from_req).
	path := &r.Path
	id.paths = []PathRecord{{
		SGID: path.RemoteGID, DGID: path.LocalGID, FlowLabel: path.FlowLabel, HopLimit: path.HopLimit,
		TrafficClass: path.TrafficClass, SL: path.ServiceLevel, PKey: r.PKey, MTU: r.PathMTU.Enum(), Rate: path.Rate,
		PacketLifetime: max(path.LocalACKTimeout, 1) - 1, Reversible: true, ServiceID: r.Service,
	}}
}

// event returns the ConnectRequest of a request to the listener l.
func (r *request) event(l *ID) *Event {
	data := r.data
	if l.src.family() == famIB {
		data = r.PrivateData
	}
	data = append([]byte(nil), data...)
	if r.Lookup {
		return &Event{Kind: ConnectRequest, UD: &UDEvent{PrivateData: data}}
	}
	return &Event{Kind: ConnectRequest, Conn: &ConnEvent{
		PrivateData: data, ResponderResources: r.InitiatorDepth, InitiatorDepth: r.ResponderResources,
		FlowControl: r.FlowControl, RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount, SRQ: r.SRQ, QPN: r.RemoteQPN,
	}}
}

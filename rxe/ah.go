package rxe

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// DefaultHopLimit is what the hop limit 0 of an AHAttr means (IPV6_DEFAULT_HOPLIMIT of
// include/net/ipv6.h). It also stands for that of IPv4.
const DefaultHopLimit = 64

// AH is an address handle: the destination of UD messages.
type AH struct {
	pd   *PD
	attr AHAttr
	num  uint32
	path *wire.Route
	dead atomic.Bool
}

// CreateAH makes an address handle (ibv_create_ah). It returns ErrInvalid for a GID
// index without a GID, for a zero destination, and if source and destination are of
// different IP versions.
func (pd *PD) CreateAH(attr AHAttr) (*AH, error) {
	const op = "CreateAH"
	d := pd.dev
	path, err := d.route(op, &attr, 0, 0)
	if err != nil {
		return nil, err
	}
	if err := pd.sub.claim(op, LimitAH, pd); err != nil {
		return nil, err
	}
	a := &AH{pd: pd, attr: attr, path: path}
	a.num = d.ahs.insert(a, d.random.index)
	return a, nil
}

// Query returns what the handle was made from (ibv_query_ah).
func (a *AH) Query() AHAttr { return a.attr }

// Num returns the handle's number on its device, which fits 24 bits.
func (a *AH) Num() uint32 { return a.num }

// PD returns the handle's protection domain.
func (a *AH) PD() *PD { return a.pd }

// AH returns the address handle with that number, or nil.
func (d *Device) AH(num uint32) *AH { return d.ahs.lookup(num) }

// Destroy frees the handle (ibv_destroy_ah). Messages that were posted before are
// sent.
func (a *AH) Destroy() error {
	if a.dead.Swap(true) {
		return opErr("DestroyAH", "ah", ErrClosed)
	}
	d := a.pd.dev
	d.ahs.remove(a.num)
	a.pd.sub.unclaim(LimitAH, a.pd)
	return nil
}

// route returns the route of packets to the handle.
func (a *AH) route() *wire.Route { return a.path }

// makeRoute returns the route of the flow from QP lqpn to QP rqpn.
func (d *Device) makeRoute(a *AHAttr, lqpn, rqpn wire.QPN) (*wire.Route, error) {
	r, err := d.route("ModifyQP", a, lqpn, rqpn)
	if err == nil {
		r.TrafficClass = d.connectedClass(r.TrafficClass)
	}
	return r, err
}

func (d *Device) route(op string, a *AHAttr, lqpn, rqpn wire.QPN) (*wire.Route, error) {
	src, err := d.QueryGID(int(a.SGIDIndex))
	switch {
	case a.PortNum != thePort:
		return nil, invalid(op, "ah.port_num", "is not 1", "use port 1, the only one")
	case err != nil || src.IsZero():
		return nil, invalid(op, "ah.sgid_index", "has no GID", "choose an index that ibv_devinfo -v lists")
	case a.DGID.IsZero():
		return nil, invalid(op, "ah.dgid", "is zero", "set grh.dgid to the peer's GID")
	case a.FlowLabel >= 1<<20: // IBA 8.3
		return nil, invalid(op, "ah.flow_label", "exceeds 20 bits", "use at most 0xfffff")
	}
	r := &wire.Route{
		Src:          src.Addr(),
		Dst:          a.DGID.Addr(),
		SrcPort:      wire.UDPSourcePort(a.FlowLabel, lqpn, rqpn),
		TrafficClass: a.TrafficClass,
		HopLimit:     a.HopLimit,
		FlowLabel:    a.FlowLabel,
		SrcQP:        lqpn,
	}
	if r.Src.Is4() != r.Dst.Is4() {
		return nil, invalid(op, "ah.dgid", "is of another IP version than the source GID", "choose another sgid_index")
	}
	if r.HopLimit == 0 {
		r.HopLimit = DefaultHopLimit
	}
	return r, nil
}

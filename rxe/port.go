package rxe

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// PortState is enum ibv_port_state.
type PortState uint8

const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

const (
	physDisabled  = 3       // phys_state of struct ibv_port_attr
	physLinkUp    = 5       // of struct ibv_port_attr, too
	linkEthernet  = 2       // IBV_LINK_LAYER_ETHERNET
	portCapCM     = 1 << 16 // IB_PORT_CM_SUP (include/rdma/ib_verbs.h)
	gidTableLen   = 1024    // rxe_param.h
	thePort       = 1
	minMTU        = MTU(256)  // enum ibv_mtu
	firstMTU      = MTU(1024) // enum ibv_mtu; until the port is set
	maxMTU        = MTU(4096) // enum ibv_mtu
	maxTimeout    = 31        // IBA 9.7.6.1.3: 5 bits
	maxRetryCount = 7         // IBA 11.2.4.2: 3 bits
	maxRNRTimer   = 31        // IBA 9.7.5.2.8: 5 bits
)

// PortAttr is struct ibv_port_attr; MTUs are in bytes. RoCE ports have no LID,
// subnet manager or virtual lanes.
type PortAttr struct {
	State        PortState
	MaxMTU       MTU
	ActiveMTU    MTU
	GIDTblLen    int
	PKeyTblLen   uint16
	PortCapFlags uint32
	MaxMsgSize   uint32 // bytes
	BadPKeyCntr  uint32
	QKeyViolCntr uint32
	MaxVLNum     uint8
	ActiveWidth  uint8 // enum ib_port_width
	ActiveSpeed  uint8 // enum ib_port_speed, as far as 8 bits go
	PhysState    uint8
	LinkLayer    uint8 // 2: Ethernet
	// ActiveSpeedEx is enum ib_port_speed, with the values that ActiveSpeed has no
	// room for (XDR). Mbps is the rate that it makes with ActiveWidth.
	ActiveSpeedEx uint32
	Mbps          int
}

type port struct {
	mu    sync.Mutex // SetPort
	state atomic.Uint32
	mtu   atomic.Uint32
	speed atomic.Pointer[LinkSpeed]
	gids  int // entries of the table
}

func (p *port) init(gids int) {
	p.gids = cmp.Or(gids, gidTableLen)
	p.state.Store(uint32(PortDown))
	p.mtu.Store(uint32(firstMTU))
	p.speed.Store(&linkSpeeds[0])
}

// activeMTU is the largest path MTU that the link carries.
func (d *Device) activeMTU() MTU { return MTU(d.port.mtu.Load()) }

// gidTable is replaced as a whole when the port's addresses change.
type gidTable struct {
	gids  []wire.GID              // by index; zero: empty entry
	addrs []netip.Addr            // those in gids, if they are few
	many  map[netip.Addr]struct{} // if they are not
}

func newGIDTable(gids []wire.GID) *gidTable {
	t := &gidTable{gids: gids}
	many := make(map[netip.Addr]struct{}, len(gids))
	for _, g := range gids {
		if !g.IsZero() {
			many[g.Addr()] = struct{}{}
		}
	}
	if len(many) <= fewAddrs {
		t.addrs = slices.Collect(maps.Keys(many))
	} else {
		t.many = many
	}
	return t
}

// Valid says whether m is one of the five path MTUs (enum ibv_mtu).
func (m MTU) Valid() bool {
	switch m {
	case 256, 512, 1024, 2048, 4096:
		return true
	default:
		return false
	}
}

// SetPort says whether the port's link is up and which path MTU it carries. A
// change of state raises a port event.
func (d *Device) SetPort(state PortState, activeMTU MTU) error {
	const op = "SetPort"
	if state > PortActiveDefer {
		return invalid(op, "state", "unknown", "use a port state")
	}
	if !activeMTU.Valid() {
		return invalid(op, "active_mtu", "is no path MTU", "use 256, 512, 1024, 2048 or 4096")
	}
	d.port.mu.Lock()
	defer d.port.mu.Unlock()
	was := PortState(d.port.state.Swap(uint32(state)))
	d.port.mtu.Store(uint32(activeMTU))
	switch {
	case was != PortActive && state == PortActive:
		d.event(Event{Type: EventPortActive, Port: thePort})
	case was == PortActive && state != PortActive:
		d.counters.LinkDowned.Add(1)
		d.event(Event{Type: EventPortErr, Port: thePort})
	}
	return nil
}

// SetSpeed says how fast the port's link is. The device is not slowed down to it. A change raises
// EventDeviceSpeedChange, except the first one: until then the port has no speed.
func (d *Device) SetSpeed(s LinkSpeed) {
	if old := d.port.speed.Swap(&s); old != &linkSpeeds[0] && old.Mbps != s.Mbps {
		d.event(Event{Type: EventDeviceSpeedChange, Port: thePort})
	}
}

// SetGIDs replaces the GID table; zero entries are empty ones. A change raises
// EventGIDChange. Routes made before keep their source address.
func (d *Device) SetGIDs(gids []wire.GID) error {
	const op = "SetGIDs"
	if len(gids) > d.port.gids {
		return invalid(op, "gids", "more than the table holds", "set fewer")
	}
	for _, g := range gids {
		if g.IsMulticast() {
			return invalid(op, "gids", "multicast address", "set unicast addresses")
		}
	}
	next := newGIDTable(append([]wire.GID(nil), gids...))
	old := d.gids.Swap(next)
	if !slices.Equal(old.gids, next.gids) {
		d.event(Event{Type: EventGIDChange, Port: thePort})
	}
	return nil
}

// QueryPort returns the port's attributes (ibv_query_port).
func (d *Device) QueryPort() PortAttr {
	speed := *d.port.speed.Load()
	a := PortAttr{
		State:         PortState(d.port.state.Load()),
		MaxMTU:        maxMTU,
		ActiveMTU:     d.activeMTU(),
		GIDTblLen:     d.port.gids,
		PKeyTblLen:    uint16(len(pkeyTable)),
		PortCapFlags:  portCapCM,
		MaxMsgSize:    d.whole.attr.MaxMsgSize,
		BadPKeyCntr:   uint32(d.counters.BadPKey.Load()),
		QKeyViolCntr:  uint32(d.counters.BadQKey.Load()),
		MaxVLNum:      1,
		ActiveWidth:   speed.Width,
		ActiveSpeed:   speed.legacyLane(),
		PhysState:     physDisabled,
		LinkLayer:     linkEthernet,
		ActiveSpeedEx: speed.Lane,
		Mbps:          speed.Mbps,
	}
	if a.State == PortActive {
		a.PhysState = physLinkUp
	}
	return a
}

// QueryGID returns entry i of the GID table, zero when it is empty
// (ibv_query_gid). ErrInvalid beyond the table.
func (d *Device) QueryGID(i int) (wire.GID, error) {
	if i < 0 || i >= d.port.gids {
		return wire.GID{}, invalid("QueryGID", "index", "beyond the GID table", "ask query_port for gid_tbl_len")
	}
	gids := d.gids.Load().gids
	if i >= len(gids) {
		return wire.GID{}, nil
	}
	return gids[i], nil
}

// GIDEntry is one used entry of the GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID   wire.GID
	Index int
	Port  uint8
	Type  uint8 // enum ibv_gid_type; 2: RoCE v2, the only one here
}

const gidTypeRoCEv2 = 2

// GIDEntries returns the used entries of the GID table
// (ibv_query_gid_table).
func (d *Device) GIDEntries() []GIDEntry {
	var entries []GIDEntry
	for i, g := range d.gids.Load().gids {
		if !g.IsZero() {
			entries = append(entries, GIDEntry{GID: g, Index: i, Port: thePort, Type: gidTypeRoCEv2})
		}
	}
	return entries
}

// GIDs returns the GID table up to its last entry.
func (d *Device) GIDs() []wire.GID {
	return append([]wire.GID(nil), d.gids.Load().gids...)
}

// GIDIndex returns the lowest index of a GID in the table; ok is false if it is not there.
func (d *Device) GIDIndex(gid wire.GID) (i int, ok bool) {
	if gid.IsZero() { // marks empty entries
		return 0, false
	}
	i = slices.Index(d.gids.Load().gids, gid)
	return i, i >= 0
}

// HasAddr reports whether addr is an address of this port. It takes no lock.
func (d *Device) HasAddr(addr netip.Addr) bool { return d.localGID(addr) }

// localGID says whether addr is an address of this port. It takes no lock: it
// is asked for every burst.
func (d *Device) localGID(addr netip.Addr) bool {
	return d.gids.Load().has(addr)
}

func (t *gidTable) has(addr netip.Addr) bool {
	if t.many == nil {
		return slices.Contains(t.addrs, addr)
	}
	_, ok := t.many[addr]
	return ok
}

// pkeyTable is the P_Key table: full membership of the default partition, as
// with rdma_rxe.
var pkeyTable = [...]wire.PKey{wire.DefaultPKey}

// QueryPKey returns entry i of the P_Key table (ibv_query_pkey).
func (d *Device) QueryPKey(i int) (wire.PKey, error) {
	if i < 0 || i >= len(pkeyTable) {
		return 0, invalid("QueryPKey", "index", "beyond the P_Key table", "use index 0, the only one")
	}
	return pkeyTable[i], nil
}

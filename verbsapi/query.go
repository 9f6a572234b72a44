package verbsapi

import "github.com/gorxe/gorxe/rxe"

// thePort is the number of the device's only port.
const thePort = 1

func (c *Context) checkPort(op string, port uint8) error {
	switch {
	case c.isClosed():
		return closed(op, "context")
	case port != thePort:
		return invalid(op, "port", "the device has port 1 only")
	}
	return nil
}

// QueryDevice returns the device's capabilities and limits (ibv_query_device).
func (c *Context) QueryDevice() (DeviceAttr, error) {
	if err := c.verb("QueryDevice", "query_device"); err != nil {
		return DeviceAttr{}, err
	}
	if c.isClosed() {
		return DeviceAttr{}, closed("QueryDevice", "context")
	}
	return c.sub.Attr(), nil
}

// DeviceAttrEx are capabilities and limits with what extended verbs add (struct
// ibv_device_attr_ex). Features that this device has not got are zero there and
// not listed here.
type DeviceAttrEx struct {
	DeviceAttr
	PhysPortCntEx           uint32
	CompletionTimestampMask uint64 // 0: completions carry no time
	MaxDMSize               uint64 // 0: no device memory
}

// QueryDeviceEx is QueryDevice with the extended attributes
// (ibv_query_device_ex).
func (c *Context) QueryDeviceEx() (DeviceAttrEx, error) {
	attr, err := c.QueryDevice()
	return DeviceAttrEx{DeviceAttr: attr, PhysPortCntEx: uint32(attr.PhysPortCnt)}, err
}

// QueryPort returns the state of a port (ibv_query_port). Ports count from 1.
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	if err := c.verb("QueryPort", "query_port"); err != nil {
		return PortAttr{}, err
	}
	if err := c.checkPort("QueryPort", port); err != nil {
		return PortAttr{}, err
	}
	return c.sub.QueryPort(), nil
}

// QueryGID returns entry index of a port's GID table; an empty one is zero
// (ibv_query_gid).
func (c *Context) QueryGID(port uint8, index int) (GID, error) {
	if err := c.checkPort("QueryGID", port); err != nil {
		return GID{}, err
	}
	return c.eng.dev.QueryGID(index)
}

// GIDType is enum ibv_gid_type.
type GIDType uint32

// GIDTypeRoCEv2 is the type of every GID here.
const GIDTypeRoCEv2 GIDType = 2

// GIDEntry is an entry of the GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID     GID
	Index   int
	Port    uint8
	Type    GIDType
	IfIndex int // of the network interface
}

// QueryGIDEx returns an entry of the GID table (ibv_query_gid_ex). Flags must be
// 0. ErrInvalid for an empty entry.
func (c *Context) QueryGIDEx(port uint8, index int, flags uint32) (GIDEntry, error) {
	const op = "QueryGIDEx"
	if flags != 0 {
		return GIDEntry{}, invalid(op, "flags", "not 0")
	}
	gid, err := c.QueryGID(port, index)
	if err == nil && gid.IsZero() {
		err = invalid(op, "index", "the entry is empty")
	}
	if err != nil {
		return GIDEntry{}, err
	}
	return c.gidEntry(index, gid), nil
}

// QueryGIDTable returns the entries that are not empty (ibv_query_gid_table).
// Flags must be 0.
func (c *Context) QueryGIDTable(flags uint32) ([]GIDEntry, error) {
	if err := c.verb("QueryGIDTable", "query_gid_table"); err != nil {
		return nil, err
	}
	const op = "QueryGIDTable"
	switch {
	case c.isClosed():
		return nil, closed(op, "context")
	case flags != 0:
		return nil, invalid(op, "flags", "not 0")
	}
	var list []GIDEntry
	for i, g := range c.eng.dev.GIDs() {
		if !g.IsZero() {
			list = append(list, c.gidEntry(i, g))
		}
	}
	return list, nil
}

func (c *Context) gidEntry(index int, gid GID) GIDEntry {
	return GIDEntry{GID: gid, Index: index, Port: thePort, Type: GIDTypeRoCEv2, IfIndex: c.device.Index()}
}

// QueryPKey returns an entry of a port's P_Key table (ibv_query_pkey).
func (c *Context) QueryPKey(port uint8, index int) (PKey, error) {
	if err := c.checkPort("QueryPKey", port); err != nil {
		return 0, err
	}
	return c.eng.dev.QueryPKey(index)
}

// GetPKeyIndex finds a P_Key in a port's table (ibv_get_pkey_index). ErrInvalid
// if it is not there.
func (c *Context) GetPKeyIndex(port uint8, pkey PKey) (int, error) {
	const op = "GetPKeyIndex"
	attr, err := c.QueryPort(port)
	if err != nil {
		return 0, err
	}
	for i := range int(attr.PKeyTblLen) {
		if k, err := c.QueryPKey(port, i); err == nil && k == pkey {
			return i, nil
		}
	}
	return 0, invalid(op, "pkey", "is not in the table")
}

// Counters returns the device's counters, under rdma_rxe's names where it has
// them.
func (c *Context) Counters() []rxe.Counter { return c.eng.dev.Counters() }

// IsQPTSupported tells whether the bit of type t is set in caps
// (ibv_is_qpt_supported).
func IsQPTSupported(caps uint32, t QPType) bool { return caps&(1<<t) != 0 }

// FlowLabelToUDPSport returns the UDP source port that a flow label gives
// (ibv_flow_label_to_udp_sport).
func FlowLabelToUDPSport(label uint32) uint16 {
	return uint16(label&0x3fff^label&0xfc000>>14) | 0xc000
}

// ForkStatus is enum ibv_fork_status.
type ForkStatus int

// ForkUnneeded: the device takes no harm from a fork.
const ForkUnneeded ForkStatus = 2

// ForkInit does nothing: a Go program's fork shares no registered memory with
// the device, which is in the parent (ibv_fork_init).
func ForkInit() error { return nil }

// IsForkInitialized is ForkUnneeded (ibv_is_fork_initialized).
func IsForkInitialized() ForkStatus { return ForkUnneeded }

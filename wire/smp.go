package wire

import (
	"encoding/binary"
	"fmt"
)

// Subnet management (IBA 14): what a port says of itself and of its node, as management
// datagrams to queue pair 0. Each attribute has a type here and in smp_portinfo.go, which is a
// view of the datagram. Offsets count from the data of the attribute, as in the tables of
// IBA 14.2.5.

// The two classes of subnet management (IBA 13.4.4). Datagrams of the first are routed by
// LID, those of the second along a path of port numbers.
const (
	MADClassSubnetLID      MADClass = 0x01
	MADClassSubnetDirected MADClass = 0x81
)

const (
	// SMIQPN is the queue pair of subnet management (IBA 13.5.1).
	SMIQPN QPN = 0
	// SMPClassVersion is the version of both classes.
	SMPClassVersion = 1
	// SMPDataLen is the length of every attribute.
	SMPDataLen = 64
	// LIDPermissive stands for any port (IBA 4.1.3).
	LIDPermissive uint16 = 0xffff
)

// SMPDirection is a bit of the status of a directed-route datagram: it is on its way back
// (IBA 14.2.1.2).
const SMPDirection uint16 = 1 << 15

// SMPAttribute is the attribute of a datagram of subnet management.
type SMPAttribute uint16

// The attributes that a channel adapter's port has (IBA 14.2.5).
const (
	AttrNodeDescription SMPAttribute = 0x0010
	AttrNodeInfo        SMPAttribute = 0x0011
	AttrGUIDInfo        SMPAttribute = 0x0014
	AttrPortInfo        SMPAttribute = 0x0015
	AttrPKeyTable       SMPAttribute = 0x0016
)

func (a SMPAttribute) String() string {
	switch a {
	case AttrNodeDescription:
		return "NodeDescription"
	case AttrNodeInfo:
		return "NodeInfo"
	case AttrGUIDInfo:
		return "GUIDInfo"
	case AttrPortInfo:
		return "PortInfo"
	case AttrPKeyTable:
		return "P_KeyTable"
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// SMP is a datagram of subnet management. The fields of a route are those of a
// directed-route datagram (IBA 14.2.1.2); LID-routed ones have zeros there.
type SMP struct{ *MAD }

// Offsets of what SMPs have beside the header and the attribute.
const (
	smpHopPointer = 6 // in the header
	smpHopCount   = 7
	smpMKey       = 0 // in the data
	smpSLID       = 8
	smpDLID       = 10
	smpData       = 40
	smpInitial    = 104
	smpReturn     = 168
	smpPathLen    = 64
)

// Directed reports whether the datagram has a route.
func (m SMP) Directed() bool { return m.Class() == MADClassSubnetDirected }

// HopPointer returns the position on the route, and HopCount the length of the route.
func (m SMP) HopPointer() uint8     { return m.MAD[smpHopPointer] }
func (m SMP) SetHopPointer(v uint8) { m.MAD[smpHopPointer] = v }
func (m SMP) HopCount() uint8       { return m.MAD[smpHopCount] }
func (m SMP) SetHopCount(v uint8)   { m.MAD[smpHopCount] = v }

// MKey returns the management key.
func (m SMP) MKey() uint64 { return m.u64(smpMKey) }

// SourceLID and DestLID are LIDPermissive if the route begins, or ends, at the end of the
// directed part.
func (m SMP) SourceLID() uint16     { return m.u16(smpSLID) }
func (m SMP) DestLID() uint16       { return m.u16(smpDLID) }
func (m SMP) SetLIDs(src, d uint16) { m.put16(smpSLID, src); m.put16(smpDLID, d) }

// InitialPath has the port numbers of the route, from index 1 on. ReturnPath is filled in on
// the way.
func (m SMP) InitialPath() []byte { return m.data(smpInitial, smpPathLen) }
func (m SMP) ReturnPath() []byte  { return m.data(smpReturn, smpPathLen) }

// Attr returns the data of the attribute.
func (m SMP) Attr() []byte { return m.data(smpData, SMPDataLen) }

// NodeType is the kind of a node (IBA 14.2.5.3).
type NodeType uint8

// NodeCA is a channel adapter.
const NodeCA NodeType = 1

// NodeInfo is the attribute of that name (IBA 14.2.5.3).
type NodeInfo struct {
	BaseVersion, ClassVersion uint8
	Type                      NodeType
	Ports                     uint8
	SystemImageGUID           uint64
	NodeGUID, PortGUID        uint64
	Partitions                uint16 // the number of entries in the P_Key table
	Device                    uint16
	Revision                  uint32
	LocalPort                 uint8
	Vendor                    uint32 // 24 bits
}

// SMPNodeInfo is a datagram with the attribute NodeInfo.
type SMPNodeInfo struct{ *MAD }

// Info returns the attribute.
func (m SMPNodeInfo) Info() NodeInfo {
	b := m.data(smpData, SMPDataLen)
	return NodeInfo{
		BaseVersion: b[0], ClassVersion: b[1], Type: NodeType(b[2]), Ports: b[3],
		SystemImageGUID: binary.BigEndian.Uint64(b[4:]), NodeGUID: binary.BigEndian.Uint64(b[12:]),
		PortGUID: binary.BigEndian.Uint64(b[20:]), Partitions: binary.BigEndian.Uint16(b[28:]),
		Device: binary.BigEndian.Uint16(b[30:]), Revision: binary.BigEndian.Uint32(b[32:]),
		LocalPort: b[36], Vendor: binary.BigEndian.Uint32(b[36:]) & 0xffffff,
	}
}

// SetInfo sets the attribute.
func (m SMPNodeInfo) SetInfo(n *NodeInfo) {
	b := m.data(smpData, SMPDataLen)
	b[0], b[1], b[2], b[3] = n.BaseVersion, n.ClassVersion, uint8(n.Type), n.Ports
	binary.BigEndian.PutUint64(b[4:], n.SystemImageGUID)
	binary.BigEndian.PutUint64(b[12:], n.NodeGUID)
	binary.BigEndian.PutUint64(b[20:], n.PortGUID)
	binary.BigEndian.PutUint16(b[28:], n.Partitions)
	binary.BigEndian.PutUint16(b[30:], n.Device)
	binary.BigEndian.PutUint32(b[32:], n.Revision)
	binary.BigEndian.PutUint32(b[36:], n.Vendor&0xffffff|uint32(n.LocalPort)<<24)
}

const (
	// GUIDsPerBlock is how many GUIDs an attribute GUIDInfo has (IBA 14.2.5.5), and
	// PKeysPerBlock how many P_Keys a P_KeyTable (IBA 14.2.5.7).
	GUIDsPerBlock = 8
	PKeysPerBlock = 32
)

// SMPGUIDInfo is a datagram with the attribute GUIDInfo: a block of the GUIDs of a port.
type SMPGUIDInfo struct{ *MAD }

// GUID returns GUID i of the block.
func (m SMPGUIDInfo) GUID(i int) uint64       { return m.u64(smpData + 8*i) }
func (m SMPGUIDInfo) SetGUID(i int, v uint64) { m.put64(smpData+8*i, v) }

// SMPPKeyTable is a datagram with the attribute P_KeyTable: a block of the P_Keys of a port.
type SMPPKeyTable struct{ *MAD }

// PKey returns P_Key i of the block.
func (m SMPPKeyTable) PKey(i int) PKey       { return PKey(m.u16(smpData + 2*i)) }
func (m SMPPKeyTable) SetPKey(i int, k PKey) { m.put16(smpData+2*i, uint16(k)) }

// Package sma is the subnet management agent of a device's port (IBA 14.3): it answers what
// the node and the port are.
//
// A RoCE port has no queue pair 0, and no cable carries subnet management. The agent is for
// the diagnostic programs of this host, and must not answer another one. It answers requests
// to read only: the network interface decides what the port is like.
package sma

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// thePort is the number of the device's only port.
const thePort = 1

// responseTime is 4.096 µs times 2 to this power, about a second (IBA 14.2.5.6).
const responseTime = 18

// Agent answers for one device.
type Agent struct {
	dev         *rxe.Device
	description string
}

// New makes the agent of dev. Programs read the description of the node in sysfs, too.
func New(dev *rxe.Device, description string) *Agent {
	return &Agent{dev, description}
}

// Answer makes a request its answer. It returns false for what is not a request, which no
// agent answers.
func (a *Agent) Answer(mad *wire.MAD) bool {
	if method := mad.Method(); method != wire.MADGet && method != wire.MADSet {
		return false
	}
	status := a.get(mad)
	m := wire.SMP{MAD: mad}
	if m.Directed() {
		// The answer is at the end of its way back (IBA 14.2.2.4).
		status |= wire.SMPDirection
	}
	mad.Answer(wire.MADGetResp, status)
	return true
}

// get fills in what a request asks for, and returns the status of the answer (IBA 13.4.7).
func (a *Agent) get(mad *wire.MAD) (status uint16) {
	h := mad.Header()
	switch {
	case h.ClassVersion != wire.SMPClassVersion:
		return wire.MADUnsupportedVersion
	case h.Method != wire.MADGet:
		return wire.MADUnsupportedAttribute
	}
	m := wire.SMP{MAD: mad}
	switch wire.SMPAttribute(h.Attribute) {
	case wire.AttrNodeDescription:
		clear(m.Attr())
		copy(m.Attr(), a.description)
	case wire.AttrNodeInfo:
		clear(m.Attr())
		info := a.nodeInfo()
		wire.SMPNodeInfo(m).SetInfo(&info)
	case wire.AttrPortInfo:
		// The low byte is the port. Port 0 of an adapter is the one that the request came to.
		if port := uint8(h.Modifier); port != thePort && port != 0 {
			return wire.MADInvalidField
		}
		clear(m.Attr())
		info := a.portInfo()
		wire.SMPPortInfo(m).SetInfo(&info)
	case wire.AttrGUIDInfo:
		return a.guids(wire.SMPGUIDInfo(m), h.Modifier)
	case wire.AttrPKeyTable:
		return a.pkeys(wire.SMPPKeyTable(m), h.Modifier)
	default:
		return wire.MADUnsupportedAttribute
	}
	return 0
}

func (a *Agent) nodeInfo() wire.NodeInfo {
	attr := a.dev.Attr()
	return wire.NodeInfo{
		BaseVersion: 1, ClassVersion: wire.SMPClassVersion, Type: wire.NodeCA, Ports: 1,
		SystemImageGUID: attr.SysImageGUID, NodeGUID: a.dev.GUID(), PortGUID: portGUID(a.dev.GIDs(), 0),
		Partitions: attr.MaxPKeys, Device: uint16(attr.VendorPartID), Revision: attr.HWVer,
		LocalPort: thePort, Vendor: attr.VendorID,
	}
}

// portGUID returns GUID i of the port, which is the lower half of a GID. Programs that read
// sysfs take it for the port's GUID.
func portGUID(gids []wire.GID, i int) uint64 {
	if i >= len(gids) {
		return 0
	}
	return binary.BigEndian.Uint64(gids[i][8:])
}

func (a *Agent) portInfo() wire.PortInfo {
	attr, gids := a.dev.QueryPort(), a.dev.GIDs()
	p := wire.PortInfo{
		Capabilities: uint64(attr.PortCapFlags), LocalPort: thePort,
		WidthEnabled: widths(attr.ActiveWidth), WidthSupported: widths(attr.ActiveWidth), WidthActive: uint64(attr.ActiveWidth),
		State: uint64(attr.State), PhysState: uint64(attr.PhysState),
		NeighborMTU: uint64(attr.ActiveMTU.Enum()), MTUCap: uint64(attr.MaxMTU.Enum()),
		VLCap: uint64(attr.MaxVLNum), OperationalVLs: uint64(attr.MaxVLNum),
		PKeyViolations: min(uint64(attr.BadPKeyCntr), 1<<16-1), QKeyViolations: min(uint64(attr.QKeyViolCntr), 1<<16-1),
		GUIDCap: uint64(min(attr.GIDTblLen, 1<<8-1)), ResponseTime: responseTime,
	}
	if len(gids) > 0 {
		p.GIDPrefix = binary.BigEndian.Uint64(gids[0][:])
	}
	setSpeed(&p, attr.ActiveSpeedEx)
	return p
}

// widths returns the widths of a port whose link has that one. PortInfo knows no port without
// 1X, nor one with 8X or 12X and without 4X.
func widths(active uint8) uint64 {
	const x1, x4, x8, x12 = 1, 2, 4, 8
	w := uint64(active) | x1
	if active == x8 || active == x12 {
		w |= x4
	}
	return w
}

// Speeds of a lane in enum ibv_port_speed. FDR10 has no place in PortInfo.
const (
	laneQDR   = 4
	laneFDR10 = 8
	laneFDR   = 16
	laneNDR   = 128
)

// setSpeed sets the speed of a lane, which is what the link has and the most that it can do.
// Speeds from FDR on have fields of their own, beside that of the fastest older one.
func setSpeed(p *wire.PortInfo, lane uint32) {
	old := uint64(min(lane, laneQDR))
	p.SpeedSupported, p.SpeedEnabled, p.SpeedActive = 2*old-1, 2*old-1, old
	if lane <= laneFDR10 {
		return
	}
	ext := uint64(min(lane, laneNDR) / laneFDR)
	p.SpeedExtSupported, p.SpeedExtEnabled, p.SpeedExtActive = 2*ext-1, 2*ext-1, ext
	p.Capabilities |= wire.PortCapExtendedSpeeds
}

// guids fills in a block of the GUIDs of the port (IBA 14.2.5.5).
func (a *Agent) guids(m wire.SMPGUIDInfo, block uint32) (status uint16) {
	gids := a.dev.GIDs()
	if int64(block)*wire.GUIDsPerBlock >= int64(a.dev.QueryPort().GIDTblLen) {
		return wire.MADInvalidField
	}
	for i := range wire.GUIDsPerBlock {
		m.SetGUID(i, portGUID(gids, int(block)*wire.GUIDsPerBlock+i))
	}
	return 0
}

// pkeys fills in a block of the partition keys (IBA 14.2.5.7). The upper half of the modifier
// is a switch's port.
func (a *Agent) pkeys(m wire.SMPPKeyTable, modifier uint32) (status uint16) {
	block := modifier & 0xffff
	if block*wire.PKeysPerBlock >= uint32(a.dev.QueryPort().PKeyTblLen) {
		return wire.MADInvalidField
	}
	for i := range wire.PKeysPerBlock {
		key, err := a.dev.QueryPKey(int(block)*wire.PKeysPerBlock + i)
		if err != nil {
			key = 0 // beyond the table
		}
		m.SetPKey(i, key)
	}
	return 0
}

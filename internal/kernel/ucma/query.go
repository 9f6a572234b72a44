package ucma

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/wire"
)

// thePort is the number of the only port of a device.
const thePort = 1

// queryRoute answers QUERY_ROUTE.
func (k *call) queryRoute(req *uapi.UcmaQueryReq) error {
	c, err := k.find(req.ID)
	if err != nil {
		return err
	}
	resp := uapi.UcmaQueryRouteResp{
		SrcAddr: sockaddrIn6(c.id.LocalAddr()),
		DstAddr: sockaddrIn6(c.id.RemoteAddr()),
	}
	if dev := c.id.Device(); dev != nil {
		binary.BigEndian.PutUint64(resp.NodeGUID[:], dev.GUID)
		resp.IBDevIndex, resp.PortNum = uint32(dev.Index), thePort
		paths := c.id.Paths()
		resp.NumPaths = uint32(len(paths))
		for i := range min(len(paths), len(resp.IBRoute)) {
			resp.IBRoute[i] = userPath(&paths[i])
		}
		if len(paths) == 0 { // ucma.c: ucma_copy_iboe_route
			resp.IBRoute[0].DGID = wire.GIDFromAddr(c.id.RemoteAddr().Addr())
			resp.IBRoute[0].SGID = wire.GIDFromAddr(c.id.LocalAddr().Addr())
			resp.IBRoute[0].PKey = [2]byte{0xff, 0xff}
		}
	}
	return respond(k, req.Response, &resp)
}

// query answers QUERY.
func (k *call) query(req *uapi.UcmaQueryReq) error {
	c, err := k.find(req.ID)
	if err != nil {
		return err
	}
	switch req.Option {
	case uapi.UcmaQueryAddr:
		return k.queryAddr(c, req.Response)
	case uapi.UcmaQueryPath:
		return k.queryPath(c, req.Response)
	case uapi.UcmaQueryGID:
		return k.queryGID(c, req.Response)
	case uapi.UcmaQueryIBService:
		return unix.ENODATA // nothing was resolved
	default:
		return unix.ENOSYS
	}
}

// deviceOf is ucma.c's ucma_query_device_addr. The hardware address of a RoCE device has
// no partition key, so pkey stays 0.
func deviceOf(c *cmID) (resp uapi.UcmaQueryAddrResp) {
	if dev := c.id.Device(); dev != nil {
		binary.BigEndian.PutUint64(resp.NodeGUID[:], dev.GUID)
		resp.IBDevIndex, resp.PortNum = uint32(dev.Index), thePort
	}
	return resp
}

func (k *call) queryAddr(c *cmID, addr uint64) error {
	if err := k.room(uapi.UcmaQueryAddrMin); err != nil {
		return err
	}
	resp := deviceOf(c)
	var size int
	resp.SrcAddr, size = sockaddr(c.id.LocalAddr())
	resp.SrcSize = uint16(size)
	resp.DstAddr, size = sockaddr(c.id.RemoteAddr())
	resp.DstSize = uint16(size)
	return respond(k, addr, &resp)
}

// queryGID returns both addresses in the form of AF_IB.
func (k *call) queryGID(c *cmID, addr uint64) error {
	if err := k.room(uapi.UcmaQueryAddrMin); err != nil {
		return err
	}
	resp := deviceOf(c)
	ps := c.id.PortSpace()
	src, dst := c.id.GIDs()
	resp.SrcSize, resp.DstSize = uapi.SizeofSockaddrIB, uapi.SizeofSockaddrIB
	resp.SrcAddr = gidAddr(c.id.LocalAddr(), ps, src)
	resp.DstAddr = gidAddr(c.id.RemoteAddr(), ps, dst)
	return respond(k, addr, &resp)
}

func gidAddr(a rdmacm.Addr, ps wire.PortSpace, gid wire.GID) uapi.SockaddrStorage {
	if a.AFIB != nil {
		return sockaddrIB(a.AFIB)
	}
	return sockaddrIB(&rdmacm.SockaddrIB{GID: gid, ServiceID: wire.ServiceID(ps, a.Port())})
}

// queryPath returns the paths in the format of subnet administration. Like the kernel it
// leaves out a path that fills the room to the last byte (ucma.c: ucma_query_path).
func (k *call) queryPath(c *cmID, addr uint64) error {
	head := uapi.SizeOf[uapi.UcmaQueryPathResp]()
	if err := k.room(head); err != nil {
		return err
	}
	paths := c.id.Paths()
	resp := uapi.UcmaQueryPathResp{NumPaths: uint32(len(paths))}
	b := append([]byte(nil), uapi.BytesOf(&resp)...)
	for i := range paths {
		if k.out-len(b) <= uapi.SizeOf[uapi.PathRecData]() {
			break
		}
		data := uapi.PathRecData{Flags: uapi.PathFlags, PathRec: packPath(&paths[i])}
		b = append(b, uapi.BytesOf(&data)...)
	}
	return k.Write(addr, b)
}

// userPath is ib_copy_path_rec_to_user of a RoCE path, which has no LIDs.
func userPath(p *rdmacm.PathRecord) uapi.UserPathRec {
	u := uapi.UserPathRec{
		DGID: p.DGID, SGID: p.SGID, HopLimit: p.HopLimit, TrafficClass: p.TrafficClass,
		Reversible: uint32(uapi.BoolByte(p.Reversible)), SL: p.SL,
		MTUSelector: selectExactly, MTU: uint32(p.MTU),
		RateSelector: selectExactly, Rate: p.Rate,
		PacketLifeTimeSelector: selectExactly, PacketLifeTime: p.PacketLifetime,
	}
	binary.BigEndian.PutUint32(u.FlowLabel[:], p.FlowLabel)
	binary.BigEndian.PutUint16(u.PKey[:], uint16(p.PKey))
	return u
}

// selectExactly says that a value must match exactly (IB_SA_EQ).
const selectExactly = 2

// packPath is a PathRecord of subnet administration (IBA 15.2.5.16). The RoCE path's number
// of paths is 0, and its LIDs are.
func packPath(p *rdmacm.PathRecord) (b [64]byte) {
	binary.BigEndian.PutUint64(b[0:], p.ServiceID)
	copy(b[8:], p.DGID[:])
	copy(b[24:], p.SGID[:])
	binary.BigEndian.PutUint32(b[44:], p.FlowLabel<<8|uint32(p.HopLimit)) // raw traffic 0
	b[48] = p.TrafficClass
	b[49] = uapi.BoolByte(p.Reversible) << 7
	binary.BigEndian.PutUint16(b[50:], uint16(p.PKey))
	binary.BigEndian.PutUint16(b[52:], uint16(p.SL&15))
	b[54] = selectExactly<<6 | p.MTU&63
	b[55] = selectExactly<<6 | p.Rate&63
	b[56] = selectExactly<<6 | p.PacketLifetime&63
	return b
}

// unpackPath is the reverse of packPath.
func unpackPath(b *[64]byte) rdmacm.PathRecord {
	hop := binary.BigEndian.Uint32(b[44:])
	return rdmacm.PathRecord{
		ServiceID: binary.BigEndian.Uint64(b[0:]),
		DGID:      wire.GID(b[8:24]), SGID: wire.GID(b[24:40]),
		FlowLabel: hop >> 8 & 0xfffff, HopLimit: uint8(hop),
		TrafficClass: b[48], Reversible: b[49]&0x80 != 0,
		PKey: wire.PKey(binary.BigEndian.Uint16(b[50:])), SL: b[53] & 15,
		MTU: b[54] & 63, Rate: b[55] & 63, PacketLifetime: b[56] & 63,
	}
}

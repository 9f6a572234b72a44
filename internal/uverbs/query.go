package uverbs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

func writeGetContext(k *call) error {
	if _, err := request[getContextReq](k); err != nil {
		return err
	}
	if err := k.f.mayInitContext(); err != nil {
		return err
	}
	if err := k.probe(&k.out, sizeOf[getContextResp]()); err != nil {
		return err
	}
	fd, err := k.newAsync()
	if err != nil {
		return err
	}
	if err := k.f.initContext(); err != nil {
		return err
	}
	return respond(k, getContextResp{AsyncFD: uint32(fd), NumCompVectors: k.f.dev.compVectors})
}

func ioctlGetContext(k *call) error {
	if err := k.f.mayInitContext(); err != nil {
		return err
	}
	if err := k.putContext(); err != nil {
		return err
	}
	return k.f.initContext()
}

func (k *call) putContext() error {
	if err := put(k, attrContextNumCompVectors, k.f.dev.compVectors); err != nil {
		return err
	}
	return put(k, attrContextCoreSupport, uint64(coreSupportOptionalMRAccess))
}

func (f *File) mayInitContext() error {
	switch {
	case f.dev.gone.Load():
		return unix.EIO
	case f.context.Load():
		return unix.EINVAL
	}
	return nil
}

// initContext is for the first of several that ask at once.
func (f *File) initContext() error {
	if f.context.Swap(true) {
		return unix.EINVAL
	}
	return nil
}

// ioctlQueryContext is refused by drivers that rdma-core cannot import a
// context for.
func ioctlQueryContext(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	return unix.EOPNOTSUPP
}

func writeQueryDevice(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	if _, err := request[queryDeviceReq](k); err != nil {
		return err
	}
	return respond(k, k.f.dev.query())
}

func writeExQueryDevice(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	req, err := request[exQueryDeviceReq](k)
	if err != nil {
		return err
	}
	if req.CompMask != 0 || req.Reserved != 0 || len(k.uhwIn) > 0 || k.uhwOut.size > 0 {
		return unix.EINVAL
	}
	return respond(k, exQueryDeviceResp{
		Base:           k.f.dev.query(),
		ResponseLength: responseLength[exQueryDeviceResp](k),
		// Nothing is pinned, so that every region is in effect on demand.
		ODPCaps: odpCaps{
			GeneralCaps: odpSupport | odpSupportImplicit,
			RCODPCaps: odpSend | odpRecv | odpWrite | odpRead | odpAtomic | odpSRQRecv |
				odpFlush | odpAtomicWrite,
			UCODPCaps: odpSend | odpRecv | odpWrite | odpSRQRecv,
			UDODPCaps: odpSend | odpRecv | odpSRQRecv,
		},
		DeviceCapFlagsEx: uint64(k.f.dev.rxe.Attr().Cap),
	})
}

// query is copy_query_dev_fields of uverbs_cmd.c.
func (d *Device) query() queryDeviceResp {
	a := d.rxe.Attr()
	r := queryDeviceResp{
		FWVer:                 d.fwVer,
		MaxMRSize:             a.MaxMRSize,
		PageSizeCap:           a.PageSizeCap,
		VendorID:              a.VendorID,
		VendorPartID:          a.VendorPartID,
		HWVer:                 a.HWVer,
		MaxQP:                 a.MaxQP,
		MaxQPWR:               a.MaxQPWR,
		DeviceCapFlags:        uint32(a.Cap),
		MaxSGE:                a.MaxSGE,
		MaxSGERd:              a.MaxSGERd,
		MaxCQ:                 a.MaxCQ,
		MaxCQE:                a.MaxCQE,
		MaxMR:                 a.MaxMR,
		MaxPD:                 a.MaxPD,
		MaxQPRdAtom:           a.MaxQPRdAtom,
		MaxResRdAtom:          a.MaxResRdAtom,
		MaxQPInitRdAtom:       a.MaxQPInitRdAtom,
		AtomicCap:             uint32(a.AtomicCap),
		MaxMW:                 a.MaxMW,
		MaxMcastGrp:           a.MaxMcastGrp,
		MaxMcastQPAttach:      a.MaxMcastQPAttach,
		MaxTotalMcastQPAttach: a.MaxTotalMcastQPAttach,
		MaxAH:                 a.MaxAH,
		MaxSRQ:                a.MaxSRQ,
		MaxSRQWR:              a.MaxSRQWR,
		MaxSRQSGE:             a.MaxSRQSGE,
		MaxPKeys:              a.MaxPKeys,
		LocalCAAckDelay:       a.LocalCAAckDelay,
		PhysPortCnt:           a.PhysPortCnt,
	}
	binary.BigEndian.PutUint64(r.NodeGUID[:], a.NodeGUID)
	binary.BigEndian.PutUint64(r.SysImageGUID[:], a.SysImageGUID)
	return r
}

func writeQueryPort(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	req, err := request[queryPortReq](k)
	if err != nil {
		return err
	}
	if req.PortNum != thePort {
		return unix.EINVAL
	}
	return respond(k, k.f.dev.queryPort())
}

func ioctlQueryPort(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	num, err := k.attrs.constant(attrQueryPortNum, 1<<8-1)
	if err != nil {
		return err
	}
	if num != thePort {
		return unix.EINVAL
	}
	return putStruct(k, attrQueryPortResp, queryPortRespEx{LegacyResp: k.f.dev.queryPort()})
}

// queryPort is copy_port_attr_to_resp.
func (d *Device) queryPort() queryPortResp {
	a := d.rxe.QueryPort()
	return queryPortResp{
		PortCapFlags: a.PortCapFlags,
		MaxMsgSz:     a.MaxMsgSize,
		BadPKeyCntr:  a.BadPKeyCntr,
		QKeyViolCntr: a.QKeyViolCntr,
		GIDTblLen:    uint32(a.GIDTblLen),
		PKeyTblLen:   a.PKeyTblLen,
		State:        uint8(a.State),
		MaxMTU:       mtuEnum(a.MaxMTU),
		ActiveMTU:    mtuEnum(a.ActiveMTU),
		MaxVLNum:     a.MaxVLNum,
		ActiveWidth:  a.ActiveWidth,
		ActiveSpeed:  a.ActiveSpeed,
		PhysState:    a.PhysState,
		LinkLayer:    a.LinkLayer,
	}
}

func (d *Device) gidEntryOf(e *rxe.GIDEntry) gidEntry {
	return gidEntry{GID: e.GID, GIDIndex: uint32(e.Index), PortNum: uint32(e.Port),
		GIDType: uint32(e.Type), NetdevIfindex: d.netIndex()}
}

func ioctlQueryGIDTable(k *call) error {
	if _, err := k.attrs.flags(attrGIDTableFlags, 0); err != nil {
		return err
	}
	size := k.attrs.u64(attrGIDTableEntrySize)
	out := k.attrs.output(attrGIDTableEntries)
	switch {
	case size == 0 || uint64(out.size)%size != 0 || out.size == 0:
		return unix.EINVAL
	}
	if err := k.f.needContext(); err != nil {
		return err
	}
	entries := k.f.dev.rxe.GIDEntries()
	if uint64(len(entries)) > uint64(out.size)/size {
		return unix.EINVAL
	}
	// The program's entries may be shorter or longer than this ABI's.
	b := make([]byte, uint64(len(entries))*size)
	for i := range entries {
		e := k.f.dev.gidEntryOf(&entries[i])
		copy(b[uint64(i)*size:uint64(i+1)*size], bytesOf(&e))
	}
	if err := k.answer(&out, b); err != nil {
		return err
	}
	return put(k, attrGIDTableNumEntries, uint64(len(entries)))
}

func ioctlQueryGIDEntry(k *call) error {
	if _, err := k.attrs.flags(attrGIDEntryFlags, 0); err != nil {
		return err
	}
	port, err := k.attrs.constant(attrGIDEntryPort, 1<<32-1)
	if err != nil {
		return err
	}
	index, err := k.attrs.constant(attrGIDEntryIndex, 1<<32-1)
	if err != nil {
		return err
	}
	if err := k.f.needContext(); err != nil {
		return err
	}
	if port != thePort || index > 1<<31-1 {
		return unix.EINVAL
	}
	if _, err := k.f.dev.rxe.QueryGID(int(index)); err != nil {
		return err
	}
	for _, e := range k.f.dev.rxe.GIDEntries() {
		if e.Index == int(index) {
			return putStruct(k, attrGIDEntryResp, k.f.dev.gidEntryOf(&e))
		}
	}
	return unix.ENODATA // an empty entry (rdma_get_gid_attr)
}

// ioctlInfoHandles lists the handles of one type, the newest first.
func ioctlInfoHandles(k *call) error {
	out := k.attrs.output(attrInfoHandlesList)
	if out.attr == nil {
		return unix.EINVAL
	}
	if out.size == 0 || out.size%4 != 0 {
		return unix.EINVAL
	}
	typ, err := k.attrs.constant(attrInfoObjectID, 1<<16-1)
	if err != nil {
		return err
	}
	if typ > uint64(objAsyncEvent) || absent[objectType(typ)] {
		return unix.ENOENT
	}
	var list []byte
	k.f.objects.each(func(o *object) {
		if o.typ == objectType(typ) && len(list) < out.size {
			list = binary.NativeEndian.AppendUint32(list, o.handle)
		}
	})
	if err := k.answer(&out, list); err != nil {
		return err
	}
	return put(k, attrInfoTotalHandles, uint32(len(list)/4))
}

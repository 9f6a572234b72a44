package uverbs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

func writeGetContext(k *call, _ *uapi.GetContextReq) error {
	if err := k.f.mayInitContext(); err != nil {
		return err
	}
	if err := k.Probe(&k.Out, uapi.SizeOf[uapi.GetContextResp]()); err != nil {
		return err
	}
	var fd int32
	err := k.makeContext(func() (err error) {
		fd, err = k.newAsync() // last: the program keeps it, whatever happens
		return err
	})
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.GetContextResp{AsyncFD: uint32(fd), NumCompVectors: k.f.dev.compVectors})
}

func ioctlGetContext(k *call) error {
	if err := k.f.mayInitContext(); err != nil {
		return err
	}
	if err := k.putContext(); err != nil {
		return err
	}
	return k.makeContext(nil)
}

func (k *call) putContext() error {
	if err := dispatch.Put(&k.Call, uapi.AttrContextNumCompVectors, k.f.dev.compVectors); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrContextCoreSupport, uint64(uapi.CoreSupportOptionalMRAccess))
}

func (f *File) mayInitContext() error {
	switch {
	case f.gone():
		return unix.EIO
	case f.context.Load() != contextNone:
		return errSecondContext()
	}
	return nil
}

// makeContext makes the context, for the first of several calls that ask at once. last, if it is
// not nil, is the last step.
func (k *call) makeContext(last func() error) error {
	if !k.f.context.CompareAndSwap(contextNone, contextBegins) {
		return errSecondContext()
	}
	err := k.f.ctx.Begin(udata{k})
	if err == nil && last != nil {
		err = last()
	}
	if err != nil {
		k.f.context.Store(contextNone)
		return err
	}
	k.f.context.Store(contextMade)
	return nil
}

func errSecondContext() error {
	return kernel.Refuse(unix.EINVAL, "context", "exists already", "open the device again for another")
}

var queryContext = dispatch.MethodKey{Object: uapi.ObjDevice, Method: uapi.MethodQueryContext}

// queryContextWith is for drivers that rdma-core can import a context for: they add to the answer.
func queryContextWith(m provider.Method) func(*call) error {
	return func(k *call) error {
		if err := k.f.NeedContext(); err != nil {
			return err
		}
		if err := k.putContext(); err != nil {
			return err
		}
		return m.Handle(k.f.ctx, &k.Call)
	}
}

// ioctlQueryContext is refused by drivers that rdma-core cannot import a
// context for.
func ioctlQueryContext(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	return unix.EOPNOTSUPP
}

func writeQueryDevice(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	if _, err := dispatch.Request[uapi.QueryDeviceReq](&k.Call); err != nil {
		return err
	}
	a, err := k.deviceAttr()
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, k.f.query(&a))
}

// deviceAttr returns what the program is told of the device.
func (k *call) deviceAttr() (provider.DeviceAttr, error) {
	a := provider.DeviceAttr{DeviceAttr: k.f.sub.Attr()}
	if k.f.dev.xrc {
		a.Cap |= rxe.CapXRC
	}
	if k.f.dev.steers {
		a.Cap |= rxe.CapManagedFlowSteering
	}
	return a, k.f.ctx.QueryDevice(udata{k}, &a)
}

func writeExQueryDevice(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	req, err := dispatch.Request[uapi.ExQueryDeviceReq](&k.Call)
	if err != nil {
		return err
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return kernel.Refuse(unix.EINVAL, "comp_mask", "has unknown bits", "use headers and libraries that belong together")
	}
	a, err := k.deviceAttr()
	if err != nil {
		return err
	}
	xrcODP := uint32(0)
	if k.f.dev.xrc { // as mlx5_ib has it
		xrcODP = uapi.ODPSend | uapi.ODPWrite | uapi.ODPRead | uapi.ODPAtomic | uapi.ODPSRQRecv
	}
	rcODP := uint32(uapi.ODPSend | uapi.ODPRecv | uapi.ODPWrite | uapi.ODPRead | uapi.ODPAtomic | uapi.ODPSRQRecv)
	if a.Cap&rxe.CapFlushGlobal != 0 {
		rcODP |= uapi.ODPFlush
	}
	if a.Cap&rxe.CapAtomicWrite != 0 {
		rcODP |= uapi.ODPAtomicWrite
	}
	return dispatch.Respond(&k.Call, uapi.ExQueryDeviceResp{
		Base:           k.f.query(&a),
		ResponseLength: dispatch.ResponseLength[uapi.ExQueryDeviceResp](&k.Call),
		// Nothing is pinned, so that every region is in effect on demand.
		ODPCaps: uapi.ODPCaps{
			GeneralCaps: uapi.ODPSupport | uapi.ODPSupportImplicit,
			RCODPCaps:   rcODP,
			UCODPCaps:   uapi.ODPSend | uapi.ODPRecv | uapi.ODPWrite | uapi.ODPSRQRecv,
			UDODPCaps:   uapi.ODPSend | uapi.ODPRecv | uapi.ODPSRQRecv,
		},
		XRCODPCaps:       xrcODP,
		TimestampMask:    a.TimestampMask,
		HCACoreClock:     a.ClockKHz,
		DeviceCapFlagsEx: uint64(a.Cap),
		CQModerationCaps: uapi.CQModerationCaps{MaxCount: a.MaxCQCount, MaxPeriod: a.MaxCQPeriod},
		MaxDMSize:        a.MaxDMSize,
		RawPacketCaps:    a.RawPacketCaps,
		RSSCaps:          rssCaps(&a),
		MaxWQTypeRQ:      a.MaxWQ,
	})
}

func rssCaps(a *provider.DeviceAttr) uapi.RSSCaps {
	if a.MaxTables == 0 {
		return uapi.RSSCaps{}
	}
	return uapi.RSSCaps{SupportedQPTypes: 1 << uapi.QPTypeRawPacket, MaxRWQIndirectionTables: a.MaxTables, MaxRWQIndirectionTblSize: a.MaxTable}
}

// query is copy_query_dev_fields of uverbs_cmd.c.
func (f *File) query(a *provider.DeviceAttr) uapi.QueryDeviceResp {
	r := uapi.QueryDeviceResp{
		FWVer:                 f.dev.fwVer,
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
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	req, err := dispatch.Request[uapi.QueryPortReq](&k.Call)
	if err != nil {
		return err
	}
	if req.PortNum != thePort {
		return kernel.Refuse(unix.EINVAL, "port_num", "is not 1", "use port 1, the only one")
	}
	a := k.f.sub.QueryPort()
	return dispatch.Respond(&k.Call, portResp(&a))
}

func ioctlQueryPort(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	num, err := k.Attrs.Constant(uapi.AttrQueryPortNum, 1<<8-1)
	if err != nil {
		return err
	}
	if num != thePort {
		return kernel.Refuse(unix.EINVAL, "port_num", "is not 1", "use port 1, the only one")
	}
	a := k.f.sub.QueryPort()
	return dispatch.PutStruct(&k.Call, uapi.AttrQueryPortResp, uapi.QueryPortRespEx{LegacyResp: portResp(&a), ActiveSpeedEx: a.ActiveSpeedEx})
}

// portResp is copy_port_attr_to_resp.
func portResp(a *rxe.PortAttr) uapi.QueryPortResp {
	return uapi.QueryPortResp{
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
		Flags:        uapi.PortGRHRequired, // as of every RoCE port (rdma_is_grh_required)
	}
}

func (d *Device) gidEntryOf(e *rxe.GIDEntry) uapi.GIDEntry {
	return uapi.GIDEntry{GID: e.GID, GIDIndex: uint32(e.Index), PortNum: uint32(e.Port),
		GIDType: uint32(e.Type), NetdevIfindex: d.netIndex()}
}

func ioctlQueryGIDTable(k *call) error {
	if _, err := k.Attrs.Flags(uapi.AttrGIDTableFlags, 0); err != nil {
		return err
	}
	size := k.Attrs.U64(uapi.AttrGIDTableEntrySize)
	out := k.Attrs.Output(uapi.AttrGIDTableEntries)
	switch {
	case size == 0 || uint64(out.Size)%size != 0 || out.Size == 0:
		return kernel.Refuse(unix.EINVAL, "entry_size", "does not divide the table", "use headers and libraries that belong together")
	}
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	entries := k.f.dev.rxe.GIDEntries()
	if uint64(len(entries)) > uint64(out.Size)/size {
		return kernel.Refuse(unix.EINVAL, "max_entries", "is less than the table has", "give room for all entries")
	}
	// The program's entries may be shorter or longer than this ABI's.
	b := make([]byte, uint64(len(entries))*size)
	for i := range entries {
		e := k.f.dev.gidEntryOf(&entries[i])
		copy(b[uint64(i)*size:uint64(i+1)*size], uapi.BytesOf(&e))
	}
	if err := k.Answer(&out, b); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrGIDTableNumEntries, uint64(len(entries)))
}

func ioctlQueryGIDEntry(k *call) error {
	if _, err := k.Attrs.Flags(uapi.AttrGIDEntryFlags, 0); err != nil {
		return err
	}
	port, err := k.Attrs.Constant(uapi.AttrGIDEntryPort, 1<<32-1)
	if err != nil {
		return err
	}
	index, err := k.Attrs.Constant(uapi.AttrGIDEntryIndex, 1<<32-1)
	if err != nil {
		return err
	}
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	if port != thePort || index > 1<<31-1 {
		return kernel.Refuse(unix.EINVAL, "port_num or gid_index", "is out of range", "ask query_port for gid_tbl_len")
	}
	if _, err := k.f.dev.rxe.QueryGID(int(index)); err != nil {
		return err
	}
	for _, e := range k.f.dev.rxe.GIDEntries() {
		if e.Index == int(index) {
			return dispatch.PutStruct(&k.Call, uapi.AttrGIDEntryResp, k.f.dev.gidEntryOf(&e))
		}
	}
	// an empty entry (rdma_get_gid_attr)
	return kernel.Refuse(unix.ENODATA, "gid_index", "has no GID", "choose an index that ibv_devinfo -v lists")
}

// ioctlInfoHandles lists the handles of one type, the newest first.
func ioctlInfoHandles(k *call) error {
	out := k.Attrs.Output(uapi.AttrInfoHandlesList)
	if out.Attr == nil {
		return kernel.Refuse(unix.EINVAL, "handles_list", "is missing", "give room for the handles")
	}
	if out.Size == 0 || out.Size%4 != 0 {
		return kernel.Refuse(unix.EINVAL, "handles_list", "has no whole number of handles", "give 4 bytes for each")
	}
	typ, err := k.Attrs.Constant(uapi.AttrInfoObjectID, 1<<16-1)
	if err != nil {
		return err
	}
	if typ > uint64(uapi.ObjAsyncEvent) || k.f.dev.tables.Absent[uapi.ObjectType(typ)] {
		return unix.ENOENT
	}
	var list []byte
	k.f.objects.Each(func(o *dispatch.Object) {
		if o.Type == uapi.ObjectType(typ) && len(list) < out.Size {
			list = binary.NativeEndian.AppendUint32(list, o.Handle)
		}
	})
	if err := k.Answer(&out, list); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrInfoTotalHandles, uint32(len(list)/4))
}

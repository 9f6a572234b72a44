package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// TestIoctlHeader: what is wrong with a header, and the errno for it. Those that
// make rdma-core use write() instead are ENOTTY and EPROTONOSUPPORT, and nothing
// else may be (uverbs_ioctl.c, libibverbs/cmd_fallback.c).
func TestIoctlHeader(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	good := uapi.IoctlHdr{Length: 40, ObjectID: uint16(uapi.ObjPD), MethodID: uapi.MethodPDDestroy, NumAttrs: 1, DriverID: uapi.DriverRXE}
	tests := []struct {
		name string
		edit func(h *uapi.IoctlHdr)
		want unix.Errno
	}{
		{"as it should be", func(h *uapi.IoctlHdr) {}, unix.ENOENT}, // there is no PD 0
		{"length too small", func(h *uapi.IoctlHdr) { h.Length = 39 }, unix.EINVAL},
		{"length too large", func(h *uapi.IoctlHdr) { h.Length = 41 }, unix.EINVAL},
		{"more attributes than length", func(h *uapi.IoctlHdr) { h.NumAttrs = 2 }, unix.EINVAL},
		{"more than a page", func(h *uapi.IoctlHdr) { h.Length, h.NumAttrs = 24+256*16, 256 }, unix.EINVAL},
		{"reserved 1", func(h *uapi.IoctlHdr) { h.Reserved1 = 1 }, unix.EPROTONOSUPPORT},
		{"reserved 2", func(h *uapi.IoctlHdr) { h.Reserved2 = 1 }, unix.EPROTONOSUPPORT},
		{"another driver", func(h *uapi.IoctlHdr) { h.DriverID = 1 }, unix.EINVAL},
		{"no such object", func(h *uapi.IoctlHdr) { h.ObjectID = 17 }, unix.EPROTONOSUPPORT},
		{"a driver's object", func(h *uapi.IoctlHdr) { h.ObjectID = 0x1000 }, unix.EPROTONOSUPPORT},
		{"no such method", func(h *uapi.IoctlHdr) { h.MethodID = 1 }, unix.EPROTONOSUPPORT},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.reset()
			h := good
			tc.edit(&h)
			b := append(bytesFrom(h), bytesFrom(obj(uapi.AttrDestroyHandle, 0))...)
			_, err := p.f.Ioctl(p, uapi.RDMAVerbsIoctl, p.alloc(b))
			p.want(err, tc.want)
		})
	}
	_, err := p.f.Ioctl(p, 0x5401 /* TCGETS */, 0)
	p.want(err, unix.ENOTTY)
	_, err = p.f.Ioctl(p, uapi.RDMAVerbsIoctl, 8)
	p.want(err, unix.EFAULT)
	// A header at the end of memory, its attributes beyond.
	copy(p.mem.Data[programSize-uapi.IoctlHdrSize:], uapi.BytesOf(&good))
	_, err = p.f.Ioctl(p, uapi.RDMAVerbsIoctl, programBase+programSize-uapi.IoctlHdrSize)
	p.want(err, unix.EFAULT)
}

// TestIoctlReads: a request is read at once as far as its page goes. Another page may not exist, or
// not answer, and most requests do not need it.
func TestIoctlReads(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	const page = 4096
	h := uapi.IoctlHdr{Length: 40, ObjectID: uint16(uapi.ObjPD), MethodID: uapi.MethodPDDestroy, NumAttrs: 1, DriverID: uapi.DriverRXE}
	b := append(bytesFrom(h), bytesFrom(obj(uapi.AttrDestroyHandle, 0))...)
	for before, want := range map[int]int{len(b): 1, 2 * len(b): 1, page: 1, uapi.IoctlHdrSize: 2, len(b) - 1: 2, 10: 2} {
		at := programSize - page - before
		copy(p.mem.Data[at:], b)
		p.reads = 0
		_, err := p.f.Ioctl(p, uapi.RDMAVerbsIoctl, programBase+uint64(at))
		p.want(err, unix.ENOENT) // there is no PD 0
		if p.reads != want {
			t.Errorf("%d bytes before the end of a page: %d reads, want %d", before, p.reads, want)
		}
	}
	// The last page, with nothing behind it.
	copy(p.mem.Data[programSize-len(b):], b)
	_, err := p.f.Ioctl(p, uapi.RDMAVerbsIoctl, programBase+programSize-uint64(len(b)))
	p.want(err, unix.ENOENT)
}

// TestAbsentMethods: what rdma_rxe does not have must look as if the kernel did
// not know it, so that rdma-core falls back or says EOPNOTSUPP.
func TestAbsentMethods(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	for _, m := range []struct {
		name   string
		object uapi.ObjectType
		method uint16
	}{
		{"FLOW_DESTROY", uapi.ObjFlow, 0}, {"XRCD_DESTROY", uapi.ObjXRCD, 0}, {"RWQ_IND_TBL_DESTROY", uapi.ObjRWQIndTbl, 0},
		{"WQ_CREATE", uapi.ObjWQ, 0}, {"WQ_DESTROY", uapi.ObjWQ, 1},
		{"FLOW_ACTION_ESP_CREATE", uapi.ObjFlowAction, 0}, {"FLOW_ACTION_DESTROY", uapi.ObjFlowAction, 1},
		{"DM_ALLOC", uapi.ObjDM, 0}, {"DM_FREE", uapi.ObjDM, 1}, {"DM_MR_REG", uapi.ObjMR, uapi.MethodDMMRReg},
		{"COUNTERS_CREATE", uapi.ObjCounters, 0}, {"COUNTERS_DESTROY", uapi.ObjCounters, 1}, {"COUNTERS_READ", uapi.ObjCounters, 2},
		{"REG_MR of Linux 6.17", uapi.ObjMR, 5}, {"QUERY_COMP_CNTR_CAPS", uapi.ObjDevice, 8},
		{"DMAH_ALLOC", 17, 0}, {"DMABUF_ALLOC", 18, 0}, {"COMP_CNTR_CREATE", 19, 0}, {"QP_ATTACH_COMP_CNTR", uapi.ObjQP, 2},
	} {
		p.reset()
		if err := p.ioctl(m.object, m.method); err != unix.EPROTONOSUPPORT {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for _, m := range []struct {
		name  string
		call  func() error
		errno unix.Errno
	}{
		{"QUERY_CONTEXT", func() error { return p.ioctl(uapi.ObjDevice, uapi.MethodQueryContext) }, unix.EOPNOTSUPP},
	} {
		p.reset()
		if err := m.call(); err != m.errno {
			t.Errorf("%s: %v, not %v", m.name, err, m.errno)
		}
	}
}

// TestAttributes: the checks on attribute lists (uverbs_process_attr).
func TestAttributes(t *testing.T) {
	d, engine := newDevice(t)
	p := opened(t, d)
	u := &user{p, forms[0]}
	pd := u.allocPD()
	cq, _ := u.createCQ(4, -1, 0)
	list := func() []uapi.IoctlAttr { // CQ_CREATE
		p.reset()
		return []uapi.IoctlAttr{newObj(uapi.AttrCreateCQHandle), num32(uapi.AttrCreateCQCQE, 10), num(uapi.AttrCreateCQUserHandle, 5),
			num32(uapi.AttrCreateCQCompVector, 0), p.out(uapi.AttrCreateCQRespCQE, 4), p.out(uapi.AttrUHWOut, 16)}
	}
	tests := []struct {
		name string
		edit func(l []uapi.IoctlAttr) []uapi.IoctlAttr
		want error
	}{
		{"as it should be", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l }, nil},
		{"unknown and mandatory", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: 31, Flags: uapi.AttrFMandatory})
		}, unix.EPROTONOSUPPORT},
		{"unknown of a driver", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: 0x1002, Flags: uapi.AttrFMandatory})
		}, unix.EPROTONOSUPPORT},
		{"unknown and optional", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, uapi.IoctlAttr{AttrID: 31}) }, nil},
		{"twice", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, l[1]) }, unix.EINVAL},
		{"mandatory one missing", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l[1:] }, unix.EINVAL},
		{"bad descriptor, and one missing", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l[1:], fdAttr(uapi.AttrCreateCQCompChannel, 1))
		}, unix.EBADF},
		{"value too short", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Len = 3; return l }, unix.EINVAL},
		{"value too long", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Len = 8; return l }, unix.EINVAL},
		{"reserved", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Reserved = 1; return l }, unix.EINVAL},
		{"reserved of a handle", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[0].Reserved = 1; return l }, unix.EINVAL},
		{"handle with a length", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[0].Len = 4; return l }, unix.EINVAL},
		{"output of another size", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[4].Len = 5; return l }, unix.EINVAL},
		{"output nowhere", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[4].Data = 1; return l }, unix.EFAULT},
		{"provider's part nowhere", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[5].Data = 1; return l }, unix.EFAULT},
		{"provider's part too small", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[5].Len = 15; return l }, unix.EINVAL},
		{"no provider's part", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l[:5] }, unix.EINVAL},
		{"flags of 8 bytes", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num(uapi.AttrCreateCQFlags, 0)) }, nil},
		{"flags of 6 bytes", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: uapi.AttrCreateCQFlags, Len: 6})
		}, unix.EINVAL},
		{"unknown flag", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num32(uapi.AttrCreateCQFlags, 4)) }, unix.EINVAL},
		{"known flag", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num32(uapi.AttrCreateCQFlags, 1)) }, unix.EOPNOTSUPP},
		{"no channel", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, fdAttr(uapi.AttrCreateCQCompChannel, 1)) }, unix.EBADF},
		{"channel beyond int", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: uapi.AttrCreateCQCompChannel, Data: 1 << 40})
		}, unix.EINVAL},
		{"comp vector", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[3].Data = 1 << 20; return l }, unix.EINVAL},
		{"no entries", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Data = 0; return l }, unix.EINVAL},
		{"too many entries", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Data = 1 << 15; return l }, unix.EINVAL},
		{"negative entries", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Data = 1<<32 - 1; return l }, unix.EINVAL},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			before := engine.Objects()
			l := tc.edit(list())
			err := p.ioctlList(uapi.ObjCQ, uapi.MethodCQCreate, l)
			if tc.want != nil {
				p.want(err, tc.want)
				if after := engine.Objects(); after != before {
					t.Errorf("objects %+v became %+v", before, after)
				}
				return
			}
			p.ok(err)
			if n := get[uint32](p, l[4]); n != 15 {
				t.Errorf("cqe %d, not 15", n)
			}
			if l[5].Flags&uapi.AttrFValidOutput == 0 {
				t.Error("provider's part is not marked as written")
			}
			u.call(destroyVerb(uapi.CmdDestroyCQ, uint32(l[0].Data)))
		})
	}
	p.t = t

	destroy := func(h uint64) error {
		p.reset()
		return p.ioctl(uapi.ObjPD, uapi.MethodPDDestroy, uapi.IoctlAttr{AttrID: uapi.AttrDestroyHandle, Flags: uapi.AttrFMandatory, Data: h})
	}
	p.want(destroy(1<<63), unix.EINVAL)
	p.want(destroy(1<<32), unix.ENOENT)
	p.want(destroy(uint64(pd)+1<<32), unix.ENOENT)
	p.want(destroy(1000), unix.ENOENT)
	p.want(destroy(uint64(cq.CQHandle)), unix.EINVAL) // is a CQ
	p.ok(destroy(uint64(pd)))
	p.want(destroy(uint64(pd)), unix.ENOENT)
}

// TestIoctlOnly: the methods that have no write() command.
func TestIoctlOnly(t *testing.T) {
	d, engine := newDevice(t)
	p := newProgram(t, d)
	p.reset()

	// Nothing goes before there is a context.
	p.want(p.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)), unix.EINVAL)
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodQueryPort, num(uapi.AttrQueryPortNum, 1), p.out(uapi.AttrQueryPortResp, 40)), unix.EINVAL)

	list := []uapi.IoctlAttr{p.out(uapi.AttrContextNumCompVectors, 4), p.out(uapi.AttrContextCoreSupport, 8), p.out(uapi.AttrUHWOut, 8)}
	p.ok(p.ioctlList(uapi.ObjDevice, uapi.MethodGetContext, list))
	get[uint64](p, list[2]) // the provider's part counts as written
	if n := get[uint32](p, list[0]); n != d.compVectors || n == 0 {
		t.Errorf("%d completion vectors", n)
	}
	if s := get[uint64](p, list[1]); s != uapi.CoreSupportOptionalMRAccess {
		t.Errorf("core support %#x", s)
	}
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodGetContext), unix.EINVAL) // once is enough

	list = []uapi.IoctlAttr{newFD(uapi.AttrAsyncEventFD)}
	p.ok(p.ioctlList(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, list))
	if p.real(int32(list[0].Data)) < 0 {
		t.Errorf("no descriptor %d", list[0].Data)
	}

	engine.SetSpeed(rxe.LinkSpeedFor(800_000))
	list = []uapi.IoctlAttr{num(uapi.AttrQueryPortNum, 1), p.out(uapi.AttrQueryPortResp, 48)}
	p.ok(p.ioctlList(uapi.ObjDevice, uapi.MethodQueryPort, list))
	ex := get[uapi.QueryPortRespEx](p, list[1])
	port := ex.LegacyResp
	if port.State != 4 || port.ActiveMTU != 5 || port.MaxMTU != 5 || port.LinkLayer != 2 || port.GIDTblLen != 1024 || port.PhysState != 5 {
		t.Errorf("port %+v", port)
	}
	if port.Flags != uapi.PortGRHRequired {
		t.Errorf("flags %#x: a RoCE port requires a GRH", port.Flags)
	}
	if port.ActiveWidth != 2 || port.ActiveSpeed != 128 || ex.ActiveSpeedEx != 256 {
		t.Errorf("800 Gb/s are width %d, speed %d, in full %d", port.ActiveWidth, port.ActiveSpeed, ex.ActiveSpeedEx)
	}
	if b := p.mem.Bytes(list[1].Data, 48); !dispatch.IsZero(b[40:44]) {
		t.Error("port_cap_flags2 or the reserved bytes are not zero")
	}
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodQueryPort, num(uapi.AttrQueryPortNum, 2), p.out(uapi.AttrQueryPortResp, 40)), unix.EINVAL)
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodQueryPort, num(uapi.AttrQueryPortNum, 257), p.out(uapi.AttrQueryPortResp, 40)), unix.EINVAL)
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodQueryPort, num(uapi.AttrQueryPortNum, 1), p.out(uapi.AttrQueryPortResp, 39)), unix.EINVAL)

	testGIDs(t, p, engine)

	u := &user{p, forms[1]}
	pd := u.allocPD()
	mr := u.regMR(pd, programData, 5000, rxe.AccessLocalWrite|rxe.AccessRemoteRead)
	p.reset()
	list = []uapi.IoctlAttr{obj(uapi.AttrQueryMRHandle, mr.MRHandle), p.out(uapi.AttrQueryMRLKey, 4), p.out(uapi.AttrQueryMRRKey, 4),
		p.out(uapi.AttrQueryMRLength, 8), p.out(uapi.AttrQueryMRIOVA, 8)}
	p.ok(p.ioctlList(uapi.ObjMR, uapi.MethodQueryMR, list))
	if get[uint32](p, list[1]) != mr.LKey || get[uint32](p, list[2]) != mr.RKey ||
		get[uint64](p, list[3]) != 5000 || get[uint64](p, list[4]) != programData {
		t.Errorf("QUERY_MR %+v", list)
	}
	testAdvise(t, p, pd, mr)

	p.reset()
	list = []uapi.IoctlAttr{num(uapi.AttrInfoObjectID, uint64(uapi.ObjMR)), p.out(uapi.AttrInfoTotalHandles, 4), p.out(uapi.AttrInfoHandlesList, 16)}
	p.ok(p.ioctlList(uapi.ObjDevice, uapi.MethodInfoHandles, list))
	if get[uint32](p, list[1]) != 1 || get[uint32](p, list[2]) != mr.MRHandle {
		t.Errorf("handles %+v", list)
	}
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodInfoHandles, num(uapi.AttrInfoObjectID, 1)), unix.EINVAL)
	p.want(p.ioctl(uapi.ObjDevice, uapi.MethodInfoHandles, num(uapi.AttrInfoObjectID, uint64(uapi.ObjWQ)), p.out(uapi.AttrInfoHandlesList, 4)), unix.ENOENT)
}

func testGIDs(t *testing.T, p *program, engine *rxe.Device) {
	gid := engine.GIDs()[0]
	p.reset()
	list := []uapi.IoctlAttr{num(uapi.AttrGIDEntryPort, 1), num(uapi.AttrGIDEntryIndex, 0), num32(uapi.AttrGIDEntryFlags, 0), p.out(uapi.AttrGIDEntryResp, 40)}
	p.ok(p.ioctlList(uapi.ObjDevice, uapi.MethodQueryGIDEntry, list))
	e := get[uapi.GIDEntry](p, list[3])
	if e.GID != gid || e.PortNum != 1 || e.GIDType != uapi.GIDTypeRoCEv2 || e.NetdevIfindex != 7 {
		t.Errorf("GID entry %+v", e)
	}
	for _, tc := range []struct {
		port, index, flags uint64
		want               unix.Errno
	}{{1, 1, 0, unix.ENODATA}, {1, 1023, 0, unix.ENODATA}, {1, 1024, 0, unix.EINVAL}, {2, 0, 0, unix.EINVAL},
		{1, 0, 1, unix.EINVAL}, {1, 1 << 31, 0, unix.EINVAL}, {1, 1 << 32, 0, unix.EINVAL}} {
		p.reset()
		err := p.ioctl(uapi.ObjDevice, uapi.MethodQueryGIDEntry, num(uapi.AttrGIDEntryPort, tc.port), num(uapi.AttrGIDEntryIndex, tc.index),
			num(uapi.AttrGIDEntryFlags, tc.flags), p.out(uapi.AttrGIDEntryResp, 32))
		if err != tc.want {
			t.Errorf("port %d, index %d, flags %d: %v, not %v", tc.port, tc.index, tc.flags, err, tc.want)
		}
	}
	table := func(entrySize uint64, room int) ([]uapi.IoctlAttr, error) {
		p.reset()
		l := []uapi.IoctlAttr{num(uapi.AttrGIDTableEntrySize, entrySize), num32(uapi.AttrGIDTableFlags, 0), p.out(uapi.AttrGIDTableEntries, room), p.out(uapi.AttrGIDTableNumEntries, 8)}
		return l, p.ioctlList(uapi.ObjDevice, uapi.MethodQueryGIDTable, l)
	}
	for _, size := range []uint64{16, 32, 48} { // an older, this, and a newer program
		l, err := table(size, int(size)*4)
		p.ok(err)
		if get[uint64](p, l[3]) != 1 || get[uapi.GIDEntry](p, l[2]).GID != gid {
			t.Errorf("GID table with entries of %d: %+v", size, l)
		}
	}
	for _, tc := range []struct {
		size uint64
		room int
	}{{0, 32}, {32, 0}, {32, 33}, {64, 32}, {1 << 63, 32}} {
		if _, err := table(tc.size, tc.room); err != unix.EINVAL {
			t.Errorf("entries of %d in %d bytes: %v", tc.size, tc.room, err)
		}
	}
}

func testAdvise(t *testing.T, p *program, pd uint32, mr uapi.RegMRResp) {
	for _, tc := range []struct {
		name   string
		advice uint64
		flags  uint32
		s      uapi.SGE
		want   error
	}{
		{"prefetch", uapi.AdvisePrefetch, uapi.AdviseFlagFlush, uapi.SGE{Addr: programData, Length: 5000, LKey: mr.LKey}, nil},
		{"no fault", uapi.AdvisePrefetchNoFault, 0, uapi.SGE{Addr: programData + 10, Length: 100, LKey: mr.LKey}, nil},
		{"to write", uapi.AdvisePrefetchWrite, 0, uapi.SGE{Addr: programData, Length: 1, LKey: mr.LKey}, nil},
		{"unknown advice", 3, 0, uapi.SGE{Addr: programData, Length: 1, LKey: mr.LKey}, unix.EOPNOTSUPP},
		{"unknown flag", 0, 2, uapi.SGE{Addr: programData, Length: 1, LKey: mr.LKey}, unix.EINVAL},
		{"key", 0, 0, uapi.SGE{Addr: programData, Length: 1, LKey: mr.LKey + 1}, unix.EINVAL},
		{"range", 0, 0, uapi.SGE{Addr: programData, Length: 5001, LKey: mr.LKey}, unix.EINVAL},
		{"before", 0, 0, uapi.SGE{Addr: programData - 1, Length: 1, LKey: mr.LKey}, unix.EINVAL},
	} {
		p.reset()
		err := p.ioctl(uapi.ObjMR, uapi.MethodAdviseMR, obj(uapi.AttrAdvisePD, pd), num(uapi.AttrAdviseAdvice, tc.advice),
			num32(uapi.AttrAdviseFlags, tc.flags), p.in(uapi.AttrAdviseSGList, uapi.BytesOf(&tc.s)))
		if err != tc.want {
			t.Errorf("%s: %v, not %v", tc.name, err, tc.want)
		}
	}
}

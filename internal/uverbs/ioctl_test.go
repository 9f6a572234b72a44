package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// TestIoctlHeader: what is wrong with a header, and the errno for it. Those that
// make rdma-core use write() instead are ENOTTY and EPROTONOSUPPORT, and nothing
// else may be (uverbs_ioctl.c, libibverbs/cmd_fallback.c).
func TestIoctlHeader(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	good := ioctlHdr{Length: 40, ObjectID: uint16(objPD), MethodID: methodPDDestroy, NumAttrs: 1, DriverID: driverRXE}
	tests := []struct {
		name string
		edit func(h *ioctlHdr)
		want unix.Errno
	}{
		{"as it should be", func(h *ioctlHdr) {}, unix.ENOENT}, // there is no PD 0
		{"length too small", func(h *ioctlHdr) { h.Length = 39 }, unix.EINVAL},
		{"length too large", func(h *ioctlHdr) { h.Length = 41 }, unix.EINVAL},
		{"more attributes than length", func(h *ioctlHdr) { h.NumAttrs = 2 }, unix.EINVAL},
		{"more than a page", func(h *ioctlHdr) { h.Length, h.NumAttrs = 24+256*16, 256 }, unix.EINVAL},
		{"reserved 1", func(h *ioctlHdr) { h.Reserved1 = 1 }, unix.EPROTONOSUPPORT},
		{"reserved 2", func(h *ioctlHdr) { h.Reserved2 = 1 }, unix.EPROTONOSUPPORT},
		{"another driver", func(h *ioctlHdr) { h.DriverID = 1 }, unix.EINVAL},
		{"no such object", func(h *ioctlHdr) { h.ObjectID = 17 }, unix.EPROTONOSUPPORT},
		{"a driver's object", func(h *ioctlHdr) { h.ObjectID = 0x1000 }, unix.EPROTONOSUPPORT},
		{"no such method", func(h *ioctlHdr) { h.MethodID = 1 }, unix.EPROTONOSUPPORT},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.reset()
			h := good
			tc.edit(&h)
			b := append(bytesFrom(h), bytesFrom(obj(attrDestroyHandle, 0))...)
			_, err := p.f.Ioctl(p, rdmaVerbsIoctl, p.alloc(b))
			p.want(err, tc.want)
		})
	}
	_, err := p.f.Ioctl(p, 0x5401 /* TCGETS */, 0)
	p.want(err, unix.ENOTTY)
	_, err = p.f.Ioctl(p, rdmaVerbsIoctl, 8)
	p.want(err, unix.EFAULT)
	// A header at the end of memory, its attributes beyond.
	copy(p.mem.Data[programSize-ioctlHdrSize:], bytesOf(&good))
	_, err = p.f.Ioctl(p, rdmaVerbsIoctl, programBase+programSize-ioctlHdrSize)
	p.want(err, unix.EFAULT)
}

// TestAbsentMethods: what rdma_rxe does not have must look as if the kernel did
// not know it, so that rdma-core falls back or says EOPNOTSUPP.
func TestAbsentMethods(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	for _, m := range []struct {
		name   string
		object objectType
		method uint16
	}{
		{"FLOW_DESTROY", objFlow, 0}, {"XRCD_DESTROY", objXRCD, 0}, {"RWQ_IND_TBL_DESTROY", objRWQIndTbl, 0},
		{"WQ_CREATE", objWQ, 0}, {"WQ_DESTROY", objWQ, 1},
		{"FLOW_ACTION_ESP_CREATE", objFlowAction, 0}, {"FLOW_ACTION_DESTROY", objFlowAction, 1},
		{"DM_ALLOC", objDM, 0}, {"DM_FREE", objDM, 1}, {"DM_MR_REG", objMR, methodDMMRReg},
		{"COUNTERS_CREATE", objCounters, 0}, {"COUNTERS_DESTROY", objCounters, 1}, {"COUNTERS_READ", objCounters, 2},
		{"REG_MR of Linux 6.17", objMR, 5}, {"QUERY_PORT_SPEED", objDevice, 7}, {"QUERY_COMP_CNTR_CAPS", objDevice, 8},
		{"DMAH_ALLOC", 17, 0}, {"DMABUF_ALLOC", 18, 0}, {"COMP_CNTR_CREATE", 19, 0}, {"QP_ATTACH_COMP_CNTR", objQP, 2},
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
		{"QUERY_CONTEXT", func() error { return p.ioctl(objDevice, methodQueryContext) }, unix.EOPNOTSUPP},
		{"REG_DMABUF_MR", func() error {
			u := &user{p, forms[0]}
			pd := u.allocPD()
			p.reset()
			return p.ioctl(objMR, methodRegDMABufMR, newObj(attrRegDMABufHandle), obj(attrRegDMABufPD, pd),
				num(attrRegDMABufOffset, 0), num(attrRegDMABufLength, 1), num(attrRegDMABufIOVA, 0), num32(attrRegDMABufFD, 3),
				p.out(attrRegDMABufLKey, 4), p.out(attrRegDMABufRKey, 4))
		}, unix.EOPNOTSUPP},
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
	list := func() []ioctlAttr { // CQ_CREATE
		p.reset()
		return []ioctlAttr{newObj(attrCreateCQHandle), num32(attrCreateCQCQE, 10), num(attrCreateCQUserHandle, 5),
			num32(attrCreateCQCompVector, 0), p.out(attrCreateCQRespCQE, 4), p.out(attrUHWOut, 16)}
	}
	tests := []struct {
		name string
		edit func(l []ioctlAttr) []ioctlAttr
		want error
	}{
		{"as it should be", func(l []ioctlAttr) []ioctlAttr { return l }, nil},
		{"unknown and mandatory", func(l []ioctlAttr) []ioctlAttr {
			return append(l, ioctlAttr{AttrID: 31, Flags: attrFMandatory})
		}, unix.EPROTONOSUPPORT},
		{"unknown of a driver", func(l []ioctlAttr) []ioctlAttr {
			return append(l, ioctlAttr{AttrID: 0x1002, Flags: attrFMandatory})
		}, unix.EPROTONOSUPPORT},
		{"unknown and optional", func(l []ioctlAttr) []ioctlAttr { return append(l, ioctlAttr{AttrID: 31}) }, nil},
		{"twice", func(l []ioctlAttr) []ioctlAttr { return append(l, l[1]) }, unix.EINVAL},
		{"mandatory one missing", func(l []ioctlAttr) []ioctlAttr { return l[1:] }, unix.EINVAL},
		{"bad descriptor, and one missing", func(l []ioctlAttr) []ioctlAttr {
			return append(l[1:], fdAttr(attrCreateCQCompChannel, 1))
		}, unix.EBADF},
		{"value too short", func(l []ioctlAttr) []ioctlAttr { l[1].Len = 3; return l }, unix.EINVAL},
		{"value too long", func(l []ioctlAttr) []ioctlAttr { l[1].Len = 8; return l }, unix.EINVAL},
		{"reserved", func(l []ioctlAttr) []ioctlAttr { l[1].Reserved = 1; return l }, unix.EINVAL},
		{"reserved of a handle", func(l []ioctlAttr) []ioctlAttr { l[0].Reserved = 1; return l }, unix.EINVAL},
		{"handle with a length", func(l []ioctlAttr) []ioctlAttr { l[0].Len = 4; return l }, unix.EINVAL},
		{"output of another size", func(l []ioctlAttr) []ioctlAttr { l[4].Len = 5; return l }, unix.EINVAL},
		{"output nowhere", func(l []ioctlAttr) []ioctlAttr { l[4].Data = 1; return l }, unix.EFAULT},
		{"provider's part nowhere", func(l []ioctlAttr) []ioctlAttr { l[5].Data = 1; return l }, unix.EFAULT},
		{"provider's part too small", func(l []ioctlAttr) []ioctlAttr { l[5].Len = 15; return l }, unix.EINVAL},
		{"no provider's part", func(l []ioctlAttr) []ioctlAttr { return l[:5] }, unix.EINVAL},
		{"flags of 8 bytes", func(l []ioctlAttr) []ioctlAttr { return append(l, num(attrCreateCQFlags, 0)) }, nil},
		{"flags of 6 bytes", func(l []ioctlAttr) []ioctlAttr {
			return append(l, ioctlAttr{AttrID: attrCreateCQFlags, Len: 6})
		}, unix.EINVAL},
		{"unknown flag", func(l []ioctlAttr) []ioctlAttr { return append(l, num32(attrCreateCQFlags, 4)) }, unix.EINVAL},
		{"known flag", func(l []ioctlAttr) []ioctlAttr { return append(l, num32(attrCreateCQFlags, 1)) }, unix.EOPNOTSUPP},
		{"no channel", func(l []ioctlAttr) []ioctlAttr { return append(l, fdAttr(attrCreateCQCompChannel, 1)) }, unix.EBADF},
		{"channel beyond int", func(l []ioctlAttr) []ioctlAttr {
			return append(l, ioctlAttr{AttrID: attrCreateCQCompChannel, Data: 1 << 40})
		}, unix.EINVAL},
		{"comp vector", func(l []ioctlAttr) []ioctlAttr { l[3].Data = 1 << 20; return l }, unix.EINVAL},
		{"no entries", func(l []ioctlAttr) []ioctlAttr { l[1].Data = 0; return l }, unix.EINVAL},
		{"too many entries", func(l []ioctlAttr) []ioctlAttr { l[1].Data = 1 << 15; return l }, unix.EINVAL},
		{"negative entries", func(l []ioctlAttr) []ioctlAttr { l[1].Data = 1<<32 - 1; return l }, unix.EINVAL},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			before := engine.Objects()
			l := tc.edit(list())
			err := p.ioctlList(objCQ, methodCQCreate, l)
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
			if l[5].Flags&attrFValidOutput == 0 {
				t.Error("provider's part is not marked as written")
			}
			u.call(destroyVerb(cmdDestroyCQ, uint32(l[0].Data)))
		})
	}
	p.t = t

	destroy := func(h uint64) error {
		p.reset()
		return p.ioctl(objPD, methodPDDestroy, ioctlAttr{AttrID: attrDestroyHandle, Flags: attrFMandatory, Data: h})
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
	p.want(p.ioctl(objAsyncEvent, methodAsyncEventAlloc, newFD(attrAsyncEventFD)), unix.EINVAL)
	p.want(p.ioctl(objDevice, methodQueryPort, num(attrQueryPortNum, 1), p.out(attrQueryPortResp, 40)), unix.EINVAL)

	list := []ioctlAttr{p.out(attrContextNumCompVectors, 4), p.out(attrContextCoreSupport, 8), p.out(attrUHWOut, 8)}
	p.ok(p.ioctlList(objDevice, methodGetContext, list))
	get[uint64](p, list[2]) // the provider's part counts as written
	if n := get[uint32](p, list[0]); n != d.compVectors || n == 0 {
		t.Errorf("%d completion vectors", n)
	}
	if s := get[uint64](p, list[1]); s != coreSupportOptionalMRAccess {
		t.Errorf("core support %#x", s)
	}
	p.want(p.ioctl(objDevice, methodGetContext), unix.EINVAL) // once is enough

	list = []ioctlAttr{newFD(attrAsyncEventFD)}
	p.ok(p.ioctlList(objAsyncEvent, methodAsyncEventAlloc, list))
	if p.real(int32(list[0].Data)) < 0 {
		t.Errorf("no descriptor %d", list[0].Data)
	}

	list = []ioctlAttr{num(attrQueryPortNum, 1), p.out(attrQueryPortResp, 48)}
	p.ok(p.ioctlList(objDevice, methodQueryPort, list))
	port := get[queryPortRespEx](p, list[1]).LegacyResp
	if port.State != 4 || port.ActiveMTU != 5 || port.MaxMTU != 5 || port.LinkLayer != 2 || port.GIDTblLen != 1024 || port.PhysState != 5 {
		t.Errorf("port %+v", port)
	}
	if b := p.mem.Bytes(list[1].Data, 48); !isZero(b[40:]) {
		t.Error("what is beyond the struct is not zeroed")
	}
	p.want(p.ioctl(objDevice, methodQueryPort, num(attrQueryPortNum, 2), p.out(attrQueryPortResp, 40)), unix.EINVAL)
	p.want(p.ioctl(objDevice, methodQueryPort, num(attrQueryPortNum, 257), p.out(attrQueryPortResp, 40)), unix.EINVAL)
	p.want(p.ioctl(objDevice, methodQueryPort, num(attrQueryPortNum, 1), p.out(attrQueryPortResp, 39)), unix.EINVAL)

	testGIDs(t, p, engine)

	u := &user{p, forms[1]}
	pd := u.allocPD()
	mr := u.regMR(pd, programData, 5000, rxe.AccessLocalWrite|rxe.AccessRemoteRead)
	p.reset()
	list = []ioctlAttr{obj(attrQueryMRHandle, mr.MRHandle), p.out(attrQueryMRLKey, 4), p.out(attrQueryMRRKey, 4),
		p.out(attrQueryMRLength, 8), p.out(attrQueryMRIOVA, 8)}
	p.ok(p.ioctlList(objMR, methodQueryMR, list))
	if get[uint32](p, list[1]) != mr.LKey || get[uint32](p, list[2]) != mr.RKey ||
		get[uint64](p, list[3]) != 5000 || get[uint64](p, list[4]) != programData {
		t.Errorf("QUERY_MR %+v", list)
	}
	testAdvise(t, p, pd, mr)

	p.reset()
	list = []ioctlAttr{num(attrInfoObjectID, uint64(objMR)), p.out(attrInfoTotalHandles, 4), p.out(attrInfoHandlesList, 16)}
	p.ok(p.ioctlList(objDevice, methodInfoHandles, list))
	if get[uint32](p, list[1]) != 1 || get[uint32](p, list[2]) != mr.MRHandle {
		t.Errorf("handles %+v", list)
	}
	p.want(p.ioctl(objDevice, methodInfoHandles, num(attrInfoObjectID, 1)), unix.EINVAL)
	p.want(p.ioctl(objDevice, methodInfoHandles, num(attrInfoObjectID, uint64(objWQ)), p.out(attrInfoHandlesList, 4)), unix.ENOENT)
}

func testGIDs(t *testing.T, p *program, engine *rxe.Device) {
	gid := engine.GIDs()[0]
	p.reset()
	list := []ioctlAttr{num(attrGIDEntryPort, 1), num(attrGIDEntryIndex, 0), num32(attrGIDEntryFlags, 0), p.out(attrGIDEntryResp, 40)}
	p.ok(p.ioctlList(objDevice, methodQueryGIDEntry, list))
	e := get[gidEntry](p, list[3])
	if e.GID != gid || e.PortNum != 1 || e.GIDType != gidTypeRoCEv2 || e.NetdevIfindex != 7 {
		t.Errorf("GID entry %+v", e)
	}
	for _, tc := range []struct {
		port, index, flags uint64
		want               unix.Errno
	}{{1, 1, 0, unix.ENODATA}, {1, 1023, 0, unix.ENODATA}, {1, 1024, 0, unix.EINVAL}, {2, 0, 0, unix.EINVAL},
		{1, 0, 1, unix.EINVAL}, {1, 1 << 31, 0, unix.EINVAL}, {1, 1 << 32, 0, unix.EINVAL}} {
		p.reset()
		err := p.ioctl(objDevice, methodQueryGIDEntry, num(attrGIDEntryPort, tc.port), num(attrGIDEntryIndex, tc.index),
			num(attrGIDEntryFlags, tc.flags), p.out(attrGIDEntryResp, 32))
		if err != tc.want {
			t.Errorf("port %d, index %d, flags %d: %v, not %v", tc.port, tc.index, tc.flags, err, tc.want)
		}
	}
	table := func(entrySize uint64, room int) ([]ioctlAttr, error) {
		p.reset()
		l := []ioctlAttr{num(attrGIDTableEntrySize, entrySize), num32(attrGIDTableFlags, 0), p.out(attrGIDTableEntries, room), p.out(attrGIDTableNumEntries, 8)}
		return l, p.ioctlList(objDevice, methodQueryGIDTable, l)
	}
	for _, size := range []uint64{16, 32, 48} { // an older, this, and a newer program
		l, err := table(size, int(size)*4)
		p.ok(err)
		if get[uint64](p, l[3]) != 1 || get[gidEntry](p, l[2]).GID != gid {
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

func testAdvise(t *testing.T, p *program, pd uint32, mr regMRResp) {
	for _, tc := range []struct {
		name   string
		advice uint64
		flags  uint32
		s      wireSGE
		want   error
	}{
		{"prefetch", advisePrefetch, adviseFlagFlush, wireSGE{programData, 5000, mr.LKey}, nil},
		{"no fault", advisePrefetchNoFault, 0, wireSGE{programData + 10, 100, mr.LKey}, nil},
		{"to write", advisePrefetchWrite, 0, wireSGE{programData, 1, mr.LKey}, nil},
		{"unknown advice", 3, 0, wireSGE{programData, 1, mr.LKey}, unix.EOPNOTSUPP},
		{"unknown flag", 0, 2, wireSGE{programData, 1, mr.LKey}, unix.EINVAL},
		{"key", 0, 0, wireSGE{programData, 1, mr.LKey + 1}, unix.EINVAL},
		{"range", 0, 0, wireSGE{programData, 5001, mr.LKey}, unix.EINVAL},
		{"before", 0, 0, wireSGE{programData - 1, 1, mr.LKey}, unix.EINVAL},
	} {
		p.reset()
		err := p.ioctl(objMR, methodAdviseMR, obj(attrAdvisePD, pd), num(attrAdviseAdvice, tc.advice),
			num32(attrAdviseFlags, tc.flags), p.in(attrAdviseSGList, bytesOf(&tc.s)))
		if err != tc.want {
			t.Errorf("%s: %v, not %v", tc.name, err, tc.want)
		}
	}
}

package uverbs

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const bufferSize = 64 << 10

// standIn takes any file for a dma-buf. TestDMABuf of package bufmem has a true one.
func standIn(fd int) (bufmem.Info, error) {
	return bufmem.Info{Size: bufferSize, Exporter: "standin"}, nil
}

// opens gives the program a descriptor of its own.
func (p *program) opens(fd int, err error) int32 {
	p.t.Helper()
	must.OK(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextFD++
	p.fds[p.nextFD] = fd
	return p.nextFD
}

// buffer is a memfd of the program that stands for a dma-buf.
func (p *program) buffer() int32 {
	p.t.Helper()
	fd := p.opens(unix.MemfdCreate("buffer", unix.MFD_CLOEXEC))
	must.OK(p.t, unix.Ftruncate(p.real(fd), bufferSize))
	return fd
}

// dmabufReq is what REG_DMABUF_MR takes.
type dmabufReq struct {
	offset, length, iova uint64
	fd                   int32
	access               rxe.Access
}

func (u *user) regDMABuf(pd uint32, r dmabufReq) (mr uapi.RegMRResp, err error) {
	u.reset()
	list := []uapi.IoctlAttr{newObj(uapi.AttrRegDMABufHandle), obj(uapi.AttrRegDMABufPD, pd),
		num(uapi.AttrRegDMABufOffset, r.offset), num(uapi.AttrRegDMABufLength, r.length), num(uapi.AttrRegDMABufIOVA, r.iova),
		num32(uapi.AttrRegDMABufFD, uint32(r.fd)), num32(uapi.AttrRegDMABufAccess, uint32(r.access)),
		u.out(uapi.AttrRegDMABufLKey, 4), u.out(uapi.AttrRegDMABufRKey, 4)}
	if err := u.ioctlList(uapi.ObjMR, uapi.MethodRegDMABufMR, list); err != nil {
		return mr, err
	}
	return uapi.RegMRResp{MRHandle: uint32(list[0].Data), LKey: get[uint32](u.program, list[7]), RKey: get[uint32](u.program, list[8])}, nil
}

// why keeps the last refusal.
type why struct {
	errno unix.Errno
	err   error
}

func (w *why) Moved(wire.QPN, string) {}

func (w *why) Refused(_ string, errno unix.Errno, err error) { w.errno, w.err = errno, err }
func (w *why) Failed(*rxe.QP, *rxe.Failure)                  {}

// describe takes a file that is not empty for a dma-buf.
func describe(fd int) (bufmem.Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 {
		return bufmem.Describe(fd)
	}
	return standIn(fd)
}

// refusedDMABuf is a registration that fails.
type refusedDMABuf struct {
	what string
	dmabufReq
	want unix.Errno
	says string
}

// refusedDMABufs are registrations that fail.
func (u *user) refusedDMABufs() []refusedDMABuf {
	const local = rxe.AccessLocalWrite
	fd := u.buffer()
	ro := u.opens(unix.Open("/proc/self/fd/"+strconv.Itoa(u.real(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0))
	empty := u.opens(unix.MemfdCreate("no dma-buf", unix.MFD_CLOEXEC))
	dir := u.opens(unix.Open(u.t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0))
	return []refusedDMABuf{
		{"no descriptor", dmabufReq{0, 0, 0, -1, 0}, unix.EBADF, "is not open"},
		{"a closed one", dmabufReq{0, 4096, 0, 9999, local}, unix.EBADF, "is not open"},
		{"not a dma-buf", dmabufReq{0, 4096, 0, empty, local}, unix.EINVAL, "is not a dma-buf"},
		{"cannot be mapped", dmabufReq{0, 4096, 0, dir, 0}, unix.EOPNOTSUPP, "exporter standin does not let a processor map"},
		{"nothing", dmabufReq{0, 0, 0, fd, local}, unix.EINVAL, "is empty"},
		{"beyond the end", dmabufReq{0, bufferSize + 1, 0, fd, local}, unix.EINVAL, "ends behind the buffer"},
		{"offset beyond the end", dmabufReq{bufferSize + 4096, 4096, 0, fd, local}, unix.EINVAL, "ends behind the buffer"},
		{"wraps", dmabufReq{1<<64 - 4096, 8192, 0, fd, local}, unix.EINVAL, "wraps"},
		{"iova elsewhere in its page", dmabufReq{0, 4096, 8, fd, local}, unix.EINVAL, "offsets within a page differ"},
		{"remote without local write", dmabufReq{0, 4096, 0, fd, rxe.AccessRemoteWrite}, unix.EINVAL, "without local write"},
		{"windows", dmabufReq{0, 4096, 0, fd, local | rxe.AccessMWBind}, unix.EINVAL, "flags"},
		{"on demand", dmabufReq{0, 4096, 0, fd, local | rxe.AccessOnDemand}, unix.EINVAL, "flags"},
		{"may only be read", dmabufReq{0, 4096, 0, ro, local}, unix.EACCES, "may only be read"},
	}
}

// dmabufs is a part of TestRefusals.
func (w *refusalWalk) dmabufs(u *user, pd uint32) {
	for _, r := range u.refusedDMABufs() {
		_, err := u.regDMABuf(pd, r.dmabufReq)
		w.refusedWith(r.what, err, r.want)
	}
}

// TestRefusedDMABufs: what cannot be registered, with the kernel's errno and a sentence. Nothing is
// left of it.
func TestRefusedDMABufs(t *testing.T) {
	d, engine := newDevice(t)
	d.describe = describe
	var w why
	p := newProgram(t, d)
	p.f.SetReports(&w)
	u := &user{p.begin(), forms[0]}
	pd := u.allocPD()
	before := engine.Objects()
	for _, r := range u.refusedDMABufs() {
		w = why{}
		_, err := u.regDMABuf(pd, r.dmabufReq)
		if !errors.Is(err, r.want) || w.err == nil || !strings.Contains(w.err.Error(), r.says) {
			t.Errorf("%s: %v, not %v: %v", r.what, err, r.want, w.err)
		}
	}
	if after := engine.Objects(); after != before || mapped(t) != 0 {
		t.Errorf("objects %+v became %+v; %d mappings", before, after, mapped(t))
	}
	fd := u.buffer()
	ro := u.opens(unix.Open("/proc/self/fd/"+strconv.Itoa(u.real(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0))
	for what, r := range map[string]dmabufReq{
		"all": {0, bufferSize, 0, fd, rxe.AccessLocalWrite | rxe.AccessRelaxed}, "a part": {4096 + 8, 100, 1<<40 + 8, fd, 0},
		"to read": {0, 4096, 0, ro, rxe.AccessRemoteRead},
	} {
		if _, err := u.regDMABuf(pd, r); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestDMABufTraffic: work requests write and read a buffer of which the program has closed all
// descriptors. When the exporter takes it back, a work request fails, and the daemon lives.
func TestDMABufTraffic(t *testing.T) {
	d, _ := newDevice(t)
	d.describe = standIn
	e := newEndpoint(t, &user{opened(t, d), forms[0]}, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, e.qpn)
	fd := e.buffer()
	file := must.Get[int](t)(unix.FcntlInt(uintptr(e.real(fd)), unix.F_DUPFD_CLOEXEC, 0))
	defer unix.Close(file)
	mr := must.Get[uapi.RegMRResp](t)(e.regDMABuf(e.pd, dmabufReq{4096, 8192, 1 << 40, fd, dmabufAccess}))
	e.closeFD(fd)
	const at = 1<<40 + 4094 // two pages meet behind it

	post := func(op rxe.WROpcode, local rxe.SGE, addr uint64, rkey uint32) rxe.WCStatus {
		t.Helper()
		e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: op, Flags: rxe.SendSignaled,
			SGL: []rxe.SGE{local}, RemoteAddr: addr, RKey: wire.RKey(rkey)}})
		e.call(doorbellVerb(e.qp))
		wc, ok := e.comp.Poll()
		if !ok {
			t.Fatal("no completion")
		}
		return rxe.WCStatus(wc.Status)
	}
	copy(e.bytes(0, 5), "hello")
	if s := post(rxe.WRWrite, e.sge(0, 5), at, mr.RKey); s != rxe.WCSuccess {
		t.Fatalf("write: %v", s)
	}
	got := make([]byte, 5)
	if _, err := unix.Pread(file, got, 4096+4094); err != nil || string(got) != "hello" {
		t.Errorf("the buffer has %q, %v", got, err)
	}
	if s := post(rxe.WRRead, e.sge(100, 5), at, mr.RKey); s != rxe.WCSuccess || string(e.bytes(100, 5)) != "hello" {
		t.Errorf("read: %v, %q", s, e.bytes(100, 5))
	}
	var have nldev.Resources
	e.f.AddResources(&have, 7)
	if i := len(have.MRs); i != 2 || have.MRs[0].LKey != mr.LKey && have.MRs[1].LKey != mr.LKey {
		t.Errorf("NETLINK_RDMA shows %+v", have.MRs)
	}
	must.OK(t, unix.Ftruncate(file, 4096))
	gone := rxe.SGE{Addr: at, Length: 5, LKey: wire.LKey(mr.LKey)}
	if s := post(rxe.WRWrite, gone, programData, e.mr.RKey); s != rxe.WCLocProtErr {
		t.Errorf("write from a buffer that was taken back: %v", s)
	}
}

// TestManyDMABufs: registrations of one buffer are bounded by what their owner may take, and leave
// nothing, whether the program destroys them or ends.
func TestManyDMABufs(t *testing.T) {
	d, _ := newDevice(t)
	d.describe = standIn
	b := quota.New(quota.Cost{Memory: 16 << 20})
	u := &user{openedOf(t, d, b), forms[0]}
	pd, fd := u.allocPD(), u.buffer()
	before := b.Used()
	var all []uapi.RegMRResp
	for range 10_000 {
		mr, err := u.regDMABuf(pd, dmabufReq{0, 4096, 0, fd, dmabufAccess})
		if errors.Is(err, unix.ENOMEM) {
			break
		}
		all = append(all, must.Get[uapi.RegMRResp](t)(mr, err))
	}
	if most := (16 << 20) / dmabufMemory; len(all) == 0 || len(all) > most {
		t.Errorf("%d regions, at most %d should fit", len(all), most)
	}
	if n := mapped(t); n != 1 {
		t.Errorf("%d mappings of the buffer", n)
	}
	for _, mr := range all[1:] {
		u.call(destroyVerb(uapi.CmdDeregMR, mr.MRHandle))
	}
	u.call(destroyVerb(uapi.CmdDeregMR, all[0].MRHandle))
	if b.Used() != before || mapped(t) != 0 {
		t.Errorf("%+v after all are gone, %+v before; %d mappings", b.Used(), before, mapped(t))
	}
	must.Get[uapi.RegMRResp](t)(u.regDMABuf(pd, dmabufReq{0, 4096, 0, fd, dmabufAccess}))
	// The translation changes to the program's own memory.
	mr := must.Get[uapi.RegMRResp](t)(u.regDMABuf(pd, dmabufReq{0, 4096, 0, fd, dmabufAccess}))
	u.call(verb{cmd: uapi.CmdReregMR, resp: uapi.SizeOf[uapi.ReregMRResp](), req: bytesFrom(uapi.ReregMRReq{
		MRHandle: mr.MRHandle, Flags: uint32(rxe.ReregTranslation), Start: programData, Length: 100, HCAVA: programData})})
	u.f.Close()
	quotatest.WantGiven(t, b)
	if n := mapped(t); n != 0 {
		t.Errorf("%d mappings after the end of the program", n)
	}
}

// mapped counts the mappings of stand-ins in this process.
func mapped(t *testing.T) int {
	t.Helper()
	return strings.Count(string(must.Get[[]byte](t)(os.ReadFile("/proc/self/maps"))), "/memfd:buffer")
}

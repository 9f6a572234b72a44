package uverbs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// xrcDriver is a plainDriver with XRC. A doorbell of an initiator sends a message to the SRQ whose
// number the program has written at programData.
type xrcDriver struct{ plainDriver }

func (xrcDriver) HasXRC() bool { return true }

func (d xrcDriver) Open(o provider.Open) (provider.Context, error) {
	c, err := d.plainDriver.Open(o)
	if err != nil {
		return nil, err
	}
	return &xrcContext{c.(*plainContext)}, nil
}

type xrcContext struct{ *plainContext }

func (c *xrcContext) NewCQ(u provider.UData, req provider.CQRequest) (provider.CQ, error) {
	c.live++
	return &xrcCQ{plainCQ{c: c.plainContext, number: req.Handle, depth: req.Entries}}, nil
}

type xrcCQ struct{ plainCQ }

func (q *xrcCQ) Ring() rxe.CQRing                      { return &q.plainCQ }
func (q *xrcCQ) Created(provider.UData, *rxe.CQ) error { return nil }

func (c *xrcContext) NewSRQ(_ provider.UData, req provider.SRQRequest) (provider.SRQ, error) {
	if (req.Type == uapi.SRQTypeXRC) != (req.CQ != nil) {
		return nil, unix.EFAULT
	}
	c.live++
	return &xrcSRQ{plainQP{c: c.plainContext}, req}, nil
}

// xrcSRQ always has a receive request.
type xrcSRQ struct {
	plainQP
	req provider.SRQRequest
}

func (q *xrcSRQ) Ring() rxe.RecvRing                     { return &q.plainQP }
func (q *xrcSRQ) Attr() rxe.SRQAttr                      { return rxe.SRQAttr{MaxWR: q.req.MaxWR, MaxSGE: q.req.MaxSGE} }
func (q *xrcSRQ) Entries() int                           { return int(q.req.MaxWR) }
func (q *xrcSRQ) Waiting() int                           { return 0 }
func (q *xrcSRQ) Created(provider.UData, *rxe.SRQ) error { return nil }
func (q *xrcSRQ) Modify(provider.UData, rxe.SRQAttr, rxe.SRQAttrMask) error {
	return unix.EOPNOTSUPP
}

func (c *xrcContext) NewQP(_ provider.UData, req provider.QPRequest) (provider.QP, error) {
	target := req.Type == uapi.QPTypeXRCTgt
	if target != (req.SendCQ == nil) || req.RecvCQ != nil || target != (req.Keys.PD() == nil) {
		return nil, unix.EFAULT
	}
	c.live++
	return &xrcQP{plainQP{c: c.plainContext}}, nil
}

type xrcQP struct{ plainQP }

func (q *xrcQP) Init(*rxe.QPInitAttr) {}

func (q *xrcQP) Created(_ provider.UData, qp *rxe.QP) error {
	q.qp = qp
	return nil
}

func (q *xrcQP) Modify(_ provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	return q.qp.Modify(attr, mask)
}

func (q *xrcQP) Doorbell() error {
	var num [4]byte
	if err := q.c.space.ReadV([]rxe.Span{{VA: programData, Buf: num[:]}}); err != nil {
		return err
	}
	_, err := q.qp.PostSend([]rxe.SendWR{{ID: 5, Op: rxe.WRSend, Flags: rxe.SendSignaled, XRCSRQN: uapi.Load[uint32](num[:])}})
	return err
}

func openXRCDVerb(fd int32, flags uint32) verb {
	return verb{cmd: uapi.CmdOpenXRCD, req: bytesFrom(uapi.OpenXRCDReq{FD: uint32(fd), OFlags: flags}), resp: uapi.SizeOf[uapi.OpenXRCDResp]()}
}

func (u *user) openXRCD(fd int32, flags uint32) uint32 {
	u.t.Helper()
	return core[uapi.OpenXRCDResp](u.call(openXRCDVerb(fd, flags))).XRCDHandle
}

func (u *user) wantErr(what string, v verb, want error) {
	u.t.Helper()
	if err := u.try(v); err != want {
		u.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// xrcProgram is a program of a device with XRC.
type xrcProgram struct {
	*user
	fd           int32 // of the file of the domain
	async        int32
	xrcd, pd, cq uint32
	srq, srqn    uint32
}

func newXRCProgram(t *testing.T, d *Device, fm form, file *os.File) *xrcProgram {
	t.Helper()
	p := &xrcProgram{user: &user{opened(t, d), fm}}
	p.async = firstFD(p.program)
	p.fd = must.Get[int32](t)(p.InstallFD(int(file.Fd())))
	p.pd = p.allocPD()
	p.cq = core[uapi.CreateCQResp](p.call(verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 9, CompChannel: -1}),
		resp: uapi.SizeOf[uapi.CreateCQResp]()})).CQHandle
	return p
}

func (p *xrcProgram) xsrqVerb(xrcd, cq uint32) verb {
	return verb{cmd: uapi.CmdCreateXSRQ, resp: uapi.SizeOf[uapi.CreateSRQResp](),
		req: bytesFrom(uapi.CreateXSRQReq{SRQType: uapi.SRQTypeXRC, PDHandle: p.pd, MaxWR: 4, MaxSGE: 1, XRCDHandle: xrcd, CQHandle: cq})}
}

func (p *xrcProgram) createSRQ() {
	p.t.Helper()
	a := core[uapi.CreateSRQResp](p.call(p.xsrqVerb(p.xrcd, p.cq)))
	p.srq, p.srqn = a.SRQHandle, a.SRQN
}

func openQPVerb(xrcd, qpn uint32, typ uint8) verb {
	return verb{cmd: uapi.CmdOpenQP, resp: uapi.SizeOf[uapi.CreateQPResp](),
		req: bytesFrom(uapi.OpenQPReq{PDHandle: xrcd, QPN: qpn, QPType: typ, UserHandle: 0x77})}
}

func (p *xrcProgram) received() []rxe.WC {
	return p.f.objects.Lookup(p.cq).Res.(*cqRes).mem.(*xrcCQ).wcs
}

// newXRCDevice returns a device with XRC, its engine, and a file for a domain.
func newXRCDevice(t *testing.T) (*Device, *rxe.Device, *os.File) {
	t.Helper()
	engine := rxedev.New(t)
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: xrcDriver{}}))
	t.Cleanup(d.Close)
	file := must.Get[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "domain")))
	t.Cleanup(func() { file.Close() })
	return d, engine, file
}

// TestXRC: programs share a domain by its file, and a target, which lives as long as one of them.
func TestXRC(t *testing.T) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			d, engine, file := newXRCDevice(t)
			first, second, third := newXRCProgram(t, d, fm, file), newXRCProgram(t, d, fm, file), newXRCProgram(t, d, fm, file)
			first.wantErr("there is no domain yet", openXRCDVerb(first.fd, 0), unix.EAGAIN)
			first.wantErr("no descriptor", openXRCDVerb(999, unix.O_CREAT), unix.EBADF)
			first.xrcd = first.openXRCD(first.fd, unix.O_CREAT|unix.O_EXCL)
			second.wantErr("O_EXCL", openXRCDVerb(second.fd, unix.O_CREAT|unix.O_EXCL), unix.EINVAL)
			second.xrcd = second.openXRCD(second.fd, 0)
			third.xrcd = third.openXRCD(-1, 0)
			first.createSRQ()
			second.createSRQ()

			target := core[uapi.CreateQPResp](first.call(createQPVerb(qpReq(rxe.QPXRCTgt, first.xrcd, 0))))
			ini := core[uapi.CreateQPResp](third.call(createQPVerb(qpReq(rxe.QPXRCIni, third.pd, third.cq))))
			first.connect(target.QPHandle, rxe.QPXRCTgt, ini.QPN)
			third.connect(ini.QPHandle, rxe.QPXRCIni, target.QPN)
			second.wantErr("no target", openQPVerb(second.xrcd, ini.QPN, uapi.QPTypeXRCTgt), unix.EINVAL)
			second.wantErr("no type of targets", openQPVerb(second.xrcd, target.QPN, uapi.QPTypeRC), unix.EINVAL)
			third.wantErr("a target of another domain", openQPVerb(third.xrcd, target.QPN, uapi.QPTypeXRCTgt), unix.EINVAL)
			shared := core[uapi.CreateQPResp](second.call(openQPVerb(second.xrcd, target.QPN, uapi.QPTypeXRCTgt)))
			if shared.QPN != target.QPN || second.queryQP(shared.QPHandle).QPState != uint8(rxe.QPRTS) {
				t.Errorf("the shared target: %+v", shared)
			}
			first.wantErr("the domain is in use", verb{cmd: uapi.CmdCloseXRCD, req: bytesFrom(uapi.HandleReq{Handle: first.xrcd})}, unix.EBUSY)

			d.Event(rxe.Event{Type: rxe.EventQPAccessErr, QP: engine.QP(wire.QPN(target.QPN))})
			for _, p := range []*xrcProgram{first, second} {
				if got := p.takeEvents(); len(got) != 1 || got[0] != rxe.EventQPAccessErr {
					t.Errorf("a program of the target gets %v", got)
				}
			}
			var list nldev.Resources
			second.f.AddResources(&list, 7)
			if s := list.SRQs; len(s) != 1 || s[0].Type != uapi.SRQTypeXRC || s[0].CQ != list.CQs[0].ID || second.f.Status(9).XRCDs != 1 {
				t.Errorf("SRQs %+v, CQs %+v", s, list.CQs)
			}
			if s := second.f.Status(9).SRQs; len(s) != 1 || s[0].Num != second.srqn {
				t.Errorf("status of SRQs: %+v, want number %#x", s, second.srqn)
			}
			if len(list.QPs) != 1 || !list.QPs[0].XRC || list.QPs[0].Type != uint8(rxe.QPXRCTgt) || list.QPs[0].Num != target.QPN {
				t.Errorf("resources %+v", list.QPs)
			}

			send := func(to *xrcProgram) {
				t.Helper()
				copy(third.mem.Bytes(programData, 4), uapi.BytesOf(&to.srqn))
				third.call(doorbellVerb(ini.QPHandle))
				wcs := to.received()
				if n := len(wcs); n == 0 || wcs[n-1].Status != rxe.WCSuccess || wcs[n-1].SRQN != to.srqn || uint32(wcs[n-1].QPN) != target.QPN {
					t.Errorf("received %+v for SRQ %#x", wcs, to.srqn)
				}
			}
			send(first)
			send(second)
			first.exit()
			send(second)
			second.call(destroyVerb(uapi.CmdDestroyQP, shared.QPHandle))
			second.call(destroyVerb(uapi.CmdDestroySRQ, second.srq))
			second.call(verb{cmd: uapi.CmdCloseXRCD, req: bytesFrom(uapi.HandleReq{Handle: second.xrcd})})
			if n := engine.Objects(); n.XRCD != 1 || n.QP != 1 || n.SRQ != 0 {
				t.Errorf("what is left, beside the third program's: %+v", n)
			}
			second.exit()
			third.exit()
			if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
				t.Errorf("what is left at the end: %+v", n)
			}
		})
	}
}

// TestXRCByIoctl: QP_CREATE and SRQ_CREATE name the domain by an attribute.
func TestXRCByIoctl(t *testing.T) {
	d, engine, file := newXRCDevice(t)
	p := newXRCProgram(t, d, forms[1], file)
	p.xrcd = p.openXRCD(-1, 0)
	create := func(more ...uapi.IoctlAttr) error {
		p.reset()
		list := append([]uapi.IoctlAttr{newObj(uapi.AttrCreateQPHandle), p.in(uapi.AttrCreateQPUserHandle, make([]byte, 8)),
			p.in(uapi.AttrCreateQPCap, make([]byte, uapi.SizeOf[uapi.QPCap]())), num(uapi.AttrCreateQPType, uapi.QPTypeXRCTgt),
			p.out(uapi.AttrCreateQPRespCap, uapi.SizeOf[uapi.QPCap]()), p.out(uapi.AttrCreateQPRespQPNum, 4)}, more...)
		return p.ioctl(uapi.ObjQP, uapi.MethodQPCreate, list...)
	}
	p.want(create(), unix.ENOENT)
	p.want(create(obj(uapi.AttrCreateQPXRCD, p.xrcd), obj(uapi.AttrCreateQPPD, p.pd)), unix.EINVAL)
	p.ok(create(obj(uapi.AttrCreateQPXRCD, p.xrcd)))
	srq := func(more ...uapi.IoctlAttr) error {
		p.reset()
		u32 := func(id uint16, v uint32) uapi.IoctlAttr { return num32(id, v) }
		list := append([]uapi.IoctlAttr{newObj(uapi.AttrCreateSRQHandle), obj(uapi.AttrCreateSRQPD, p.pd), num(uapi.AttrCreateSRQType, uapi.SRQTypeXRC),
			p.in(uapi.AttrCreateSRQUserHandle, make([]byte, 8)), u32(uapi.AttrCreateSRQMaxWR, 4), u32(uapi.AttrCreateSRQMaxSGE, 1),
			u32(uapi.AttrCreateSRQLimit, 0), p.out(uapi.AttrCreateSRQRespMaxWR, 4), p.out(uapi.AttrCreateSRQRespMaxSGE, 4),
			p.out(uapi.AttrCreateSRQRespSRQNum, 4)}, more...)
		return p.ioctl(uapi.ObjSRQ, uapi.MethodSRQCreate, list...)
	}
	p.want(srq(obj(uapi.AttrCreateSRQXRCD, p.xrcd)), unix.ENOENT)
	p.want(srq(obj(uapi.AttrCreateSRQCQ, p.cq)), unix.ENOENT)
	p.ok(srq(obj(uapi.AttrCreateSRQXRCD, p.xrcd), obj(uapi.AttrCreateSRQCQ, p.cq)))
	if n := engine.Objects(); n.QP != 1 || n.SRQ != 1 || n.XRCD != 1 {
		t.Errorf("objects %+v", n)
	}
	p.reset()
	p.want(p.ioctl(uapi.ObjXRCD, uapi.MethodXRCDDestroy, obj(uapi.AttrDestroyHandle, p.xrcd)), unix.EBUSY)
	free := p.openXRCD(-1, 0)
	p.reset()
	p.ok(p.ioctl(uapi.ObjXRCD, uapi.MethodXRCDDestroy, obj(uapi.AttrDestroyHandle, free)))
}

// TestXRCAnnounced: a device tells of XRC if its driver has it.
func TestXRCAnnounced(t *testing.T) {
	d, _, file := newXRCDevice(t)
	with := newXRCProgram(t, d, forms[0], file)
	rxeDevice, _ := newDevice(t)
	without := &user{opened(t, rxeDevice), forms[0]}
	for u, want := range map[*user]rxe.DeviceCap{with.user: rxe.CapXRC, without: 0} {
		a := core[uapi.QueryDeviceResp](u.call(verb{cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()}))
		if got := rxe.DeviceCap(a.DeviceCapFlags) & rxe.CapXRC; got != want {
			t.Errorf("capability %#x, want %#x", got, want)
		}
	}
}

// TestXRCDFiles: a domain keeps the inode of its file, so that another file is not taken for it,
// and its descriptor is paid for.
func TestXRCDFiles(t *testing.T) {
	d, _, file := newXRCDevice(t)
	p := newXRCProgram(t, d, forms[0], file)
	before := p.f.budget.Used()
	p.xrcd = p.openXRCD(p.fd, unix.O_CREAT)
	if used := p.f.budget.Used(); used.Files != before.Files+1 {
		t.Errorf("%d descriptors are paid for, want %d", used.Files, before.Files+1)
	}
	p.closeFD(p.fd)
	name := file.Name()
	must.OK(t, file.Close())
	for range 50 { // a file system may use the number of a file again at once
		must.OK(t, os.Remove(name))
		other := must.Get[*os.File](t)(os.Create(name))
		fd := must.Get[int32](t)(p.InstallFD(int(other.Fd())))
		must.OK(t, other.Close())
		p.wantErr("another file", openXRCDVerb(fd, 0), unix.EAGAIN)
		p.closeFD(fd)
	}
	p.call(verb{cmd: uapi.CmdCloseXRCD, req: bytesFrom(uapi.HandleReq{Handle: p.xrcd})})
	if used := p.f.budget.Used(); used.Files != before.Files {
		t.Errorf("%d descriptors are paid for at the end, want %d", used.Files, before.Files)
	}
}

// takeEvents reads the asynchronous events of a program.
func (p *xrcProgram) takeEvents() (types []rxe.EventType) {
	p.t.Helper()
	fd := p.real(p.async)
	must.OK(p.t, unix.SetNonblock(fd, true))
	for {
		var b [16]byte
		if n, err := unix.Read(fd, b[:]); n != len(b) || err != nil {
			return types
		}
		types = append(types, rxe.EventType(uapi.Load[uint32](b[8:])))
	}
}

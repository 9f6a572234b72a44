package ucma

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const (
	timeout = must.Limit // only ends a test that would otherwise hang

	programBase = 0x7f0000000000
	programSize = 64 << 10
	answerAt    = programBase + 32<<10 // answers are written here

	nodeGUID = 0x0200_00ff_fe00_0001
	devIndex = 3
)

// host is one device, whose connections come back to itself, with its Manager.
type host struct {
	t      testing.TB
	cm     *rdmacm.Manager
	dev    *Device
	rdma   *rdmacm.Device
	budget *quota.Budget
}

func newHost(t testing.TB) *host {
	t.Helper()
	mux := gsi.New(gsi.Config{})
	engine := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: rxedev.Nowhere{}, Clock: rxedev.Nowhere{}, GSI: mux}))
	if err := engine.SetGIDs([]wire.GID{wire.GIDFromAddr(rxedev.Addr)}); err != nil {
		t.Fatal(err)
	}
	if err := engine.SetPort(rxe.PortActive, 1024); err != nil {
		t.Fatal(err)
	}
	mux.Start(engine)
	h := &host{t: t, budget: quota.New(quota.Cost{})}
	h.cm = rdmacm.New(rdmacm.Config{Resolver: resolver{}})
	h.rdma = &rdmacm.Device{Index: devIndex, Name: "rxe0", GUID: nodeGUID, Mux: mux, Net: func() rocev2.PortInfo {
		return rocev2.PortInfo{Name: "eth0", Index: 2, MTU: 1500, State: rocev2.PortActive, GIDs: []wire.GID{wire.GIDFromAddr(rxedev.Addr)}}
	}}
	if err := h.cm.AddDevice(h.rdma); err != nil {
		t.Fatal(err)
	}
	h.dev = New(Config{Manager: h.cm, Budget: h.budget})
	t.Cleanup(func() {
		h.cm.Close()
		mux.Close()
		_ = engine.Close()
	})
	return h
}

// resolver knows one interface with one address.
type resolver struct{}

func (r resolver) Route(q route.Query) (route.Route, error) {
	if !r.Local(q.Dst) {
		return route.Route{}, unix.ENETUNREACH
	}
	return route.Route{Src: q.Dst, NextHop: q.Dst, Interface: 2, Local: true, Direct: true}, nil
}
func (resolver) Neighbor(route.Route, func()) (bool, func())   { return true, func() {} }
func (resolver) Follow(route.Route, netip.Addr, func()) func() { return func() {} }
func (resolver) Local(ip netip.Addr) bool                      { return ip == rxedev.Addr || ip.IsLoopback() }
func (resolver) Join(int, netip.Addr) (io.Closer, error)       { return io.NopCloser(nil), nil }
func (resolver) PortRange() (low, high uint16)                 { return 32768, 60999 }
func (resolver) IPv6Only() bool                                { return false }

// program is the other side of the ABI: it has memory and descriptors, and makes requests
// as librdmacm does. It is the Caller too.
type program struct {
	h   *host
	t   testing.TB
	f   *File
	mem simnet.Memory

	fds       map[int32]*File
	connects  uint32 // how many requests it has sent: each of another queue pair
	delivered int
	reads     int  // of its memory
	gone      bool // Deliver finds nobody
	torn      bool // answers cannot be written

	ready chan struct{} // what waiting calls wait for
}

// open is a program with a descriptor of its own.
func (h *host) open() *program {
	h.t.Helper()
	p := &program{h: h, t: h.t, fds: make(map[int32]*File), ready: make(chan struct{}, 1),
		mem: simnet.Memory{Base: programBase, Data: make([]byte, programSize)}}
	p.f = must.Get[*File](h.t)(h.dev.Open(&rdmacm.Owner{}))
	p.f.SetRefusals(reasons{h.t})
	p.f.OnReady(func() {
		select {
		case p.ready <- struct{}{}:
		default:
		}
	})
	h.t.Cleanup(p.exit)
	return p
}

func (p *program) exit() {
	if p.f != nil {
		p.f.Close()
		p.f = nil
	}
}

// Read implements kernel.Caller.
func (p *program) Read(addr uint64, b []byte) error {
	p.reads++
	from := p.mem.Bytes(addr, len(b))
	if from == nil {
		return unix.EFAULT
	}
	copy(b, from)
	return nil
}

// Write implements kernel.Caller.
func (p *program) Write(addr uint64, b []byte) error {
	to := p.mem.Bytes(addr, len(b))
	if to == nil || p.torn {
		return unix.EFAULT
	}
	copy(to, b)
	return nil
}

func (p *program) Space() (kernel.Space, error) { panic("ucma needs no address space") }
func (p *program) InstallFD(int) (int32, error) { panic("ucma installs nothing") }
func (p *program) Answer(int64)                 { panic("no call of ucma's goes on after its answer") }

// NetRaw is for uverbs only.
func (p *program) NetRaw() bool { return false }

func (p *program) Deliver(int64) error {
	if p.gone {
		return unix.ESRCH
	}
	p.delivered++
	return nil
}

// FileID implements kernel.Caller. Descriptor 0 is something else.
func (p *program) FileID(fd int32) (fdid.ID, error) {
	if fd == 0 {
		return fdid.ID{Dev: 1, Ino: 1}, nil
	}
	if f := p.fds[fd]; f != nil {
		return f.ID(), nil
	}
	return fdid.ID{}, unix.EBADF
}

func (p *program) TakeFD(int32) (int, error) { panic("ucma takes nothing") }

// raw writes a command with a body.
func (p *program) raw(cmd int, body []byte, in, out int) error {
	hdr := uapi.UcmaHdr{Cmd: uint32(cmd), In: uint16(in), Out: uint16(out)}
	b := append(append([]byte(nil), uapi.BytesOf(&hdr)...), body...)
	copy(p.mem.Data, b)
	n, err := p.f.Write(p, programBase, uint64(len(b)))
	if err == nil && n != int64(len(b)) {
		p.t.Errorf("command %d: %d of %d bytes", cmd, n, len(b))
	}
	return err
}

// do writes a command.
func do[T any](p *program, cmd int, req T, out int) error {
	b := uapi.BytesOf(&req)
	return p.raw(cmd, b, len(b), out)
}

// answer returns what a command has answered.
func answer[T any](p *program) T { return uapi.Load[T](p.mem.Bytes(answerAt, uapi.SizeOf[T]())) }

func (p *program) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) want(err error, want error) {
	p.t.Helper()
	if !errors.Is(err, want) {
		p.t.Errorf("%v, want %v", err, want)
	}
}

// create makes an id.
func (p *program) create(uid uint64, ps wire.PortSpace) uint32 {
	p.t.Helper()
	p.ok(do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{UID: uid, Response: answerAt, PS: uint16(ps)}, 4))
	return answer[uapi.UcmaID](p).ID
}

// destroy returns how many events of the id have been read.
func (p *program) destroy(id uint32) uint32 {
	p.t.Helper()
	p.ok(do(p, uapi.UcmaDestroyID, uapi.UcmaIDReq{Response: answerAt, ID: id}, 4))
	return answer[uapi.UcmaReported](p).EventsReported
}

// event waits for the next event.
func (p *program) event() uapi.UcmaEventResp {
	p.t.Helper()
	for deadline := time.After(timeout); ; {
		err := do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, uapi.SizeOf[uapi.UcmaEventResp]())
		if err != kernel.ErrWait {
			p.ok(err)
			return answer[uapi.UcmaEventResp](p)
		}
		select {
		case <-p.ready:
		case <-deadline:
			p.t.Fatal("no event")
		}
	}
}

// expect waits for an event of an id.
func (p *program) expect(kind rdmacm.EventKind, id uint32, uid uint64) uapi.UcmaEventResp {
	p.t.Helper()
	e := p.event()
	if rdmacm.EventKind(e.Event) != kind || e.ID != id || e.UID != uid || e.Status != 0 {
		p.t.Fatalf("%v of id %d, uid %#x, status %d; want %v of id %d, uid %#x",
			rdmacm.EventKind(e.Event), e.ID, e.UID, e.Status, kind, id, uid)
	}
	return e
}

// quiet checks that no event waits.
func (p *program) quiet() {
	p.t.Helper()
	p.want(do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, 336), kernel.ErrWait)
}

// given checks that the programs have left nothing.
func (h *host) given() {
	h.t.Helper()
	quotatest.WantGiven(h.t, h.budget)
}

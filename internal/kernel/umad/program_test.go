package umad

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/internal/mgmt/sma"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const (
	wait = time.Minute // only ends a test that would otherwise hang

	programBase = 0x7f0000000000
	programSize = 16 << 10
	answerAt    = programBase + 8<<10 // datagrams are read to here
)

// host is one device, whose datagrams reach itself only.
type host struct {
	t      testing.TB
	dev    *Device
	port   *mad.Port
	budget *quota.Budget
}

func newHost(t testing.TB) *host {
	t.Helper()
	mux := gsi.New(gsi.Config{Counters: gsi.NewPortCounters(func() (none wire.PortCounters) { return none })})
	engine := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: rxedev.Nowhere{}, Clock: rxedev.Nowhere{}, GSI: mux}))
	if err := engine.SetGIDs([]wire.GID{wire.GIDFromAddr(rxedev.Addr)}); err != nil {
		t.Fatal(err)
	}
	if err := engine.SetPort(rxe.PortActive, 1024); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, budget: quota.New(quota.Cost{}), port: mad.New(mux, sma.New(engine, "a node"))}
	h.dev = New(h.port)
	mux.Start(engine)
	t.Cleanup(func() {
		mux.Close()
		_ = engine.Close()
	})
	return h
}

// program is the other side of the ABI: it has memory, and makes requests as libibumad does.
// It is the Caller too.
type program struct {
	h    *host
	t    testing.TB
	f    *File
	mem  simnet.Memory
	gone bool // Deliver finds nobody
	torn bool // answers cannot be written

	ready chan struct{} // what waiting calls wait for
}

func (h *host) open() *program {
	h.t.Helper()
	p := &program{h: h, t: h.t, ready: make(chan struct{}, 1),
		mem: simnet.Memory{Base: programBase, Data: make([]byte, programSize)}}
	p.f = must.Get[*File](h.t)(h.dev.Open(h.budget))
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

// given waits until everything is given back.
func (h *host) given() {
	h.t.Helper()
	quotatest.WantGiven(h.t, h.budget)
	if n := h.port.Agents(); n != 0 {
		h.t.Errorf("%d agents are left", n)
	}
}

// Read implements kernel.Caller.
func (p *program) Read(addr uint64, b []byte) error {
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

func (p *program) Space() (kernel.Space, error)  { panic("umad needs no address space") }
func (p *program) InstallFD(int) (int32, error)  { panic("umad installs nothing") }
func (p *program) FileID(int32) (fdid.ID, error) { panic("umad asks for no file") }
func (p *program) Answer(int64)                  { panic("no call of umad's goes on after its answer") }

func (p *program) TakeFD(int32) (int, error) { panic("umad takes nothing") }

// NetRaw is for uverbs only.
func (p *program) NetRaw() bool { return false }

func (p *program) Deliver(int64) error {
	if p.gone {
		return unix.ESRCH
	}
	return nil
}

// ioctl makes a request with an argument in the program's memory.
func ioctl[T any](p *program, cmd uint32, arg *T) error {
	copy(p.mem.Data, uapi.BytesOf(arg))
	_, err := p.f.Ioctl(p, cmd, programBase)
	*arg = uapi.Load[T](p.mem.Data)
	return err
}

// register registers an agent and returns its number.
func (p *program) register(r uapi.MADRegReq) uint32 {
	p.t.Helper()
	p.want(ioctl(p, uapi.MADRegisterAgent, &r), nil)
	return r.ID
}

func (p *program) want(err error, want error) {
	p.t.Helper()
	if !errors.Is(err, want) {
		p.t.Errorf("%v, want %v", err, want)
	}
}

// send writes a header and the first n bytes of a datagram.
func (p *program) send(h *uapi.MADHdr, m []byte) error {
	size := p.f.headerSize()
	b := append(append([]byte(nil), uapi.BytesOf(h)[:size]...), m...)
	copy(p.mem.Data, b)
	n, err := p.f.Write(p, programBase, uint64(len(b)))
	if err == nil && n != int64(len(b)) {
		p.t.Errorf("write returns %d of %d", n, len(b))
	}
	return err
}

// ask sends a question that the subnet management agent of the port answers.
func (p *program) ask(agent uint32) {
	p.t.Helper()
	m := request(wire.MADClassSubnetLID, wire.MADGet, uint16(wire.AttrNodeInfo))
	p.want(p.send(&uapi.MADHdr{ID: agent, TimeoutMS: 1 << 31}, m[:]), nil)
}

// read reads into n bytes, and waits if there is nothing.
func (p *program) read(n uint64) (h uapi.MADHdr, m []byte, err error) {
	p.t.Helper()
	for {
		got, err := p.f.Read(p, answerAt, n)
		if err == kernel.ErrWait {
			select {
			case <-p.ready:
				continue
			case <-time.After(wait):
				p.t.Fatal("nothing came")
			}
		}
		if err != nil {
			return h, nil, err
		}
		size := p.f.headerSize()
		b := p.mem.Bytes(answerAt, int(got))
		return uapi.Load[uapi.MADHdr](b[:size]), b[size:], nil
	}
}

// next reads a datagram.
func (p *program) next() (uapi.MADHdr, *wire.MAD) {
	p.t.Helper()
	h, b, err := p.read(1024)
	if err != nil {
		p.t.Fatal(err)
	}
	return h, must.Get[*wire.MAD](p.t)(wire.ParseMAD(b))
}

// nothing reports a datagram that is there.
func (p *program) nothing() {
	p.t.Helper()
	if n, err := p.f.Read(p, answerAt, 1024); err != kernel.ErrWait {
		p.t.Errorf("read returns %d, %v", n, err)
	}
}

// Agents, as programs register them.
var (
	subnetClient = uapi.MADRegReq{QPN: 0, Class: 1, Version: 1}
	client       = uapi.MADRegReq{QPN: 1, Class: 4, Version: 1}
	server       = uapi.MADRegReq{QPN: 1, Class: 0x32, Version: 1, OUI: [3]uint8{0, 0x14, 5}, MethodMask: [4]uint32{1<<1 | 1<<2}}
)

// request returns a datagram.
func request(class wire.MADClass, method wire.MADMethod, attribute uint16) *wire.MAD {
	m := new(wire.MAD)
	m.Init(&wire.MADHeader{Class: class, ClassVersion: 1, Method: method, TID: 0xdead_beef_0000_0042, Attribute: attribute})
	if class == 0x32 {
		copy(m[37:], server.OUI[:])
	}
	return m
}

// overWire addresses a header to this device, over the wire.
func overWire(h uapi.MADHdr) uapi.MADHdr {
	h.GRHPresent, h.GID = 1, wire.GIDFromAddr(rxedev.Addr)
	binary.BigEndian.PutUint32(h.QPN[:], 1)
	return h
}

package uverbs

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// A program is the other side of the ABI: it has memory and descriptors, and
// makes requests as libibverbs does, in either form. It stands for the
// interposer too (Caller).
type program struct {
	t   testing.TB
	dev *Device
	f   *File
	mem *programMemory

	mu      sync.Mutex
	fds     map[int32]int // the program's descriptors, by number
	nextFD  int32
	maxFDs  int
	top     uint64 // of what alloc has given out
	reads   int
	writes  int
	failing func(addr uint64) bool // says which writes fail

	raw bool // it has CAP_NET_RAW

	answered atomic.Int64 // with what Answer was called
}

// programMemory is an address space.
type programMemory struct {
	simnet.Memory
	check func(addr, length uint64, write bool) error
	read  func() // is called before memory is read
}

func (m *programMemory) ReadV(spans []rxe.Span) error {
	if m.read != nil {
		m.read()
	}
	return m.Memory.ReadV(spans)
}

const (
	programBase = 0x7f0000000000
	programSize = 512 << 10
	programData = programBase + 256<<10 // from here on it is not used for requests
)

func (m *programMemory) Check(addr, length uint64, write bool) error {
	if m.check != nil {
		return m.check(addr, length, write)
	}
	if addr < m.Base || length > uint64(len(m.Data)) || addr-m.Base > uint64(len(m.Data))-length {
		return unix.EFAULT
	}
	return nil
}

// newDevice is a device with a file open and a context.
func newDevice(t testing.TB) (*Device, *rxe.Device) {
	t.Helper()
	engine := rxedev.New(t)
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: librxe.Driver{}, FWVer: "1.2.3", NetIndex: func() int { return 7 }}))
	t.Cleanup(d.Close)
	return d, engine
}

func newProgram(t testing.TB, d *Device) *program { return newProgramOf(t, d, nil) }

func newProgramOf(t testing.TB, d *Device, b *quota.Budget) *program {
	t.Helper()
	return newProgramWith(t, d, must.Get[*File](t)(d.Open(b)))
}

func newProgramWith(t testing.TB, d *Device, f *File) *program {
	t.Helper()
	p := &program{
		t: t, dev: d, f: f, maxFDs: 100, nextFD: 50,
		mem: &programMemory{Memory: simnet.Memory{Base: programBase, Data: make([]byte, programSize)}},
		fds: make(map[int32]int),
	}
	t.Cleanup(p.exit)
	return p
}

// opened is a program with a context.
func opened(t testing.TB, d *Device) *program { return openedOf(t, d, nil) }

func openedOf(t testing.TB, d *Device, b *quota.Budget) *program {
	t.Helper()
	return newProgramOf(t, d, b).begin()
}

// openedAs is a program that sees the limits of a Subdevice.
func openedAs(t testing.TB, d *Device, sub *rxe.Subdevice) *program {
	t.Helper()
	return newProgramWith(t, d, must.Get[*File](t)(d.OpenAs(sub, nil))).begin()
}

// begin makes a context.
func (p *program) begin() *program {
	p.t.Helper()
	p.reset()
	p.ok(p.ioctl(uapi.ObjDevice, uapi.MethodGetContext))
	p.ok(p.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)))
	return p
}

// exit ends the program.
func (p *program) exit() {
	p.f.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for fd, real := range p.fds {
		_ = unix.Close(real)
		delete(p.fds, fd)
	}
}

func (p *program) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%v", err)
	}
}

func (p *program) want(err, want error) {
	p.t.Helper()
	if !errors.Is(err, want) {
		p.t.Fatalf("%v, not %v", err, want)
	}
}

// Caller.

func (p *program) Read(addr uint64, b []byte) error {
	p.reads++
	from := p.mem.Bytes(addr, len(b))
	if from == nil {
		return unix.EFAULT
	}
	copy(b, from)
	return nil
}

func (p *program) Write(addr uint64, b []byte) error {
	p.writes++
	to := p.mem.Bytes(addr, len(b))
	if to == nil || p.failing != nil && p.failing(addr) {
		return unix.EFAULT
	}
	copy(to, b)
	return nil
}

func (p *program) Space() (kernel.Space, error) { return p.mem, nil }

func (p *program) InstallFD(fd int) (int32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fds) >= p.maxFDs {
		return -1, unix.EMFILE
	}
	real, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	p.nextFD++
	p.fds[p.nextFD] = real
	return p.nextFD, nil
}

func (p *program) TakeFD(fd int32) (int, error) {
	real := p.real(fd)
	if real < 0 {
		return -1, unix.EBADF
	}
	return unix.FcntlInt(uintptr(real), unix.F_DUPFD_CLOEXEC, 0)
}

func (p *program) Answer(n int64) { p.answered.Store(n) }

func (p *program) NetRaw() bool { return p.raw }

func (p *program) Deliver(int64) error { panic("uverbs delivers nothing") }

func (p *program) FileID(fd int32) (fdid.ID, error) {
	real := p.real(fd)
	if real < 0 {
		return fdid.ID{}, unix.EBADF
	}
	var st unix.Stat_t
	if err := unix.Fstat(real, &st); err != nil {
		return fdid.ID{}, err
	}
	return fdid.ID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

func (p *program) real(fd int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if real, ok := p.fds[fd]; ok {
		return real
	}
	return -1
}

// closeFD is close(fd).
func (p *program) closeFD(fd int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Close(p.fds[fd])
	delete(p.fds, fd)
}

// Memory for requests.

func (p *program) reset() { p.top = programBase }

// alloc puts b into the program's memory.
func (p *program) alloc(b []byte) uint64 {
	at := p.top
	copy(p.mem.Bytes(at, len(b)), b)
	p.top += (uint64(len(b)) + 7) &^ 7
	return at
}

// room is n bytes for an answer, none of them zero.
func (p *program) room(n int) uint64 {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xee
	}
	return p.alloc(b)
}

// Request is a write() command before it has a form.
type verb struct {
	cmd           uint32 // with CmdExtended
	req           []byte // the core request, without the address of the response
	resp, uhwResp int    // room for answers
	uhw           []byte
}

// Answer is what came back.
type answer struct{ core, uhw []byte }

func core[T any](a answer) T { return uapi.Load[T](a.core) }
func uhw[T any](a answer) T  { return uapi.Load[T](a.uhw) }

// form is a way to make a request of write() commands.
type form struct {
	name string
	call func(*program, verb) (answer, error)
}

var forms = []form{{"write", (*program).write}, {"ioctl", (*program).invoke}}

// allCommands are those of a device with XRC.
var allCommands = sync.OnceValue(func() []dispatch.Command { return withXRC(tables).Commands })

// hasResponse says of a plain command that its request begins with the address.
func hasResponse(cmd uint32) bool {
	all := allCommands()
	return cmd&uapi.CmdExtended == 0 && int(cmd) < len(all) && all[cmd].Responds
}

// Write makes a request by write().
func (p *program) write(v verb) (answer, error) {
	p.reset()
	out := p.room(v.resp + v.uhwResp)
	buf := p.alloc(v.bytes(out))
	n := uint64(len(v.bytes(out)))
	done, err := p.f.Write(p, buf, n)
	if err == nil && uint64(done) != n {
		p.t.Fatalf("write of %d bytes returned %d", n, done)
	}
	b := p.mem.Bytes(out, v.resp+v.uhwResp)
	return answer{b[:v.resp:v.resp], b[v.resp:]}, err
}

// bytes is the request as write() takes it.
func (v *verb) bytes(out uint64) []byte {
	req := append([]byte(nil), v.req...)
	if v.cmd&uapi.CmdExtended != 0 {
		hdr := uapi.CmdHdr{Command: v.cmd, InWords: uint16(len(req) / 8), OutWords: uint16(v.resp / 8)}
		ex := uapi.CmdExHdr{Response: out, ProviderInWords: uint16(len(v.uhw) / 8), ProviderOutWords: uint16(v.uhwResp / 8)}
		if v.resp+v.uhwResp == 0 {
			ex.Response = 0
		}
		return append(append(append(uapi.BytesOf(&hdr), uapi.BytesOf(&ex)...), req...), v.uhw...)
	}
	if hasResponse(v.cmd) && len(req) >= 8 {
		binary.NativeEndian.PutUint64(req, out)
	}
	n := uapi.CmdHdrSize + len(req) + len(v.uhw)
	hdr := uapi.CmdHdr{Command: v.cmd, InWords: uint16(n / 4), OutWords: uint16((v.resp + v.uhwResp) / 4)}
	return append(append(uapi.BytesOf(&hdr), req...), v.uhw...)
}

// invoke makes a request by INVOKE_WRITE.
func (p *program) invoke(v verb) (answer, error) {
	p.reset()
	out, uhwOut := p.room(v.resp), p.room(v.uhwResp)
	list := []uapi.IoctlAttr{num(uapi.AttrWriteCmd, uint64(v.cmd))}
	if len(v.req) > 0 {
		list = append(list, p.in(uapi.AttrCoreIn, v.req))
	}
	if v.resp > 0 {
		list = append(list, uapi.IoctlAttr{AttrID: uapi.AttrCoreOut, Len: uint16(v.resp), Flags: uapi.AttrFMandatory, Data: out})
	}
	if len(v.uhw) > 0 {
		list = append(list, p.in(uapi.AttrUHWIn, v.uhw))
	}
	if v.uhwResp > 0 {
		list = append(list, uapi.IoctlAttr{AttrID: uapi.AttrUHWOut, Len: uint16(v.uhwResp), Flags: uapi.AttrFMandatory, Data: uhwOut})
	}
	err := p.ioctlList(uapi.ObjDevice, uapi.MethodInvokeWrite, list)
	return answer{p.mem.Bytes(out, v.resp), p.mem.Bytes(uhwOut, v.uhwResp)}, err
}

// Attributes of the ioctl form.

// num is an inline value of 8 bytes.
func num(id uint16, v uint64) uapi.IoctlAttr {
	return uapi.IoctlAttr{AttrID: id, Len: 8, Flags: uapi.AttrFMandatory, Data: v}
}

func num32(id uint16, v uint32) uapi.IoctlAttr {
	return uapi.IoctlAttr{AttrID: id, Len: 4, Flags: uapi.AttrFMandatory, Data: uint64(v)}
}

func obj(id uint16, handle uint32) uapi.IoctlAttr {
	return uapi.IoctlAttr{AttrID: id, Flags: uapi.AttrFMandatory, Data: uint64(handle)}
}

func fdAttr(id uint16, fd int32) uapi.IoctlAttr {
	return uapi.IoctlAttr{AttrID: id, Flags: uapi.AttrFMandatory, Data: uint64(int64(fd))}
}

// newObj and newFD are answered.
func newObj(id uint16) uapi.IoctlAttr { return uapi.IoctlAttr{AttrID: id, Flags: uapi.AttrFMandatory} }
func newFD(id uint16) uapi.IoctlAttr  { return newObj(id) }

// In is a value, out room for one.
func (p *program) in(id uint16, b []byte) uapi.IoctlAttr {
	a := uapi.IoctlAttr{AttrID: id, Len: uint16(len(b)), Flags: uapi.AttrFMandatory}
	if len(b) <= 8 {
		var inline [8]byte
		copy(inline[:], b)
		a.Data = binary.NativeEndian.Uint64(inline[:])
	} else {
		a.Data = p.alloc(b)
	}
	return a
}

func (p *program) out(id uint16, n int) uapi.IoctlAttr {
	return uapi.IoctlAttr{AttrID: id, Len: uint16(n), Flags: uapi.AttrFMandatory, Data: p.room(n)}
}

// Ioctl makes a request of attributes made with p.in and p.out since p.reset.
func (p *program) ioctl(o uapi.ObjectType, method uint16, list ...uapi.IoctlAttr) error {
	return p.ioctlList(o, method, list)
}

// ioctlList leaves what came back in list.
func (p *program) ioctlList(o uapi.ObjectType, method uint16, list []uapi.IoctlAttr) error {
	req := ioctlBytes(o, method, list)
	id := p.dev.cfg.Driver.ID()
	copy(req[16:], uapi.BytesOf(&id)) // ib_uverbs_ioctl_hdr.driver_id
	at := p.alloc(req)
	_, err := p.f.Ioctl(p, uapi.RDMAVerbsIoctl, at)
	for i := range list {
		list[i] = uapi.Load[uapi.IoctlAttr](p.mem.Bytes(at+uapi.IoctlHdrSize+uint64(i)*uapi.IoctlAttrSize, uapi.IoctlAttrSize))
	}
	return err
}

func ioctlBytes(o uapi.ObjectType, method uint16, list []uapi.IoctlAttr) []byte {
	hdr := uapi.IoctlHdr{
		Length: uint16(uapi.IoctlHdrSize + len(list)*uapi.IoctlAttrSize), ObjectID: uint16(o), MethodID: method,
		NumAttrs: uint16(len(list)), DriverID: uapi.DriverRXE,
	}
	b := append([]byte(nil), uapi.BytesOf(&hdr)...)
	for i := range list {
		b = append(b, uapi.BytesOf(&list[i])...)
	}
	return b
}

// Get is the value that an output attribute got.
func get[T any](p *program, a uapi.IoctlAttr) T {
	p.t.Helper()
	if a.Flags&uapi.AttrFValidOutput == 0 {
		p.t.Fatalf("attribute %#x is not marked as output", a.AttrID)
	}
	return uapi.Load[T](p.mem.Bytes(a.Data, int(a.Len)))
}

func bytesFrom[T any](v T) []byte { return append([]byte(nil), uapi.BytesOf(&v)...) }

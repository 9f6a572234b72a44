package uverbs

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// fuzzUser is a program with one of everything, whose handles are the same every
// time, and a device to itself, whose queues are no longer than it takes.
func fuzzUser(t *testing.T) (*user, *rxe.Device) {
	limits := rxe.DefaultLimits()
	limits.MaxQPWR, limits.MaxSRQWR, limits.MaxCQE = 1023, 1023, 1023
	engine := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: rxedev.Nowhere{}, Clock: rxedev.Nowhere{}, Limits: &limits, Seed: [32]byte{1}}))
	if err := engine.SetGIDs([]wire.GID{wire.GIDFromAddr(rxedev.Addr)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: librxe.Driver{}}))
	t.Cleanup(d.Close)
	u := &user{opened(t, d), forms[0]}
	o := u.makeAll()
	u.connect(o.qp, rxe.QPUD, 0)
	return u, engine
}

// checkLife: whatever the requests were, the program still works, and leaves
// nothing when it goes.
func checkLife(t *testing.T, u *user, engine *rxe.Device) {
	u.allocPD()
	u.f.Status(100)
	u.exit()
	if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
		t.Errorf("left: %+v", n)
	}
}

// fuzzSteps cuts input into the requests of one program: each begins with its
// length.
func fuzzSteps(data []byte) [][]byte {
	var steps [][]byte
	for len(data) >= 2 && len(steps) < 8 {
		n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
		steps = append(steps, data[2:2+n])
		data = data[2+n:]
	}
	return steps
}

func fuzzStep(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// FuzzWrite feeds requests of the write() form to a program with objects, as
// bytes.
func FuzzWrite(f *testing.F) {
	o := &objects{pd: 0, cq: 1, cq2: 2, srq: 3, qp: 4, mr: uapi.RegMRResp{MRHandle: 5}, mw: uapi.AllocMWResp{MWHandle: 6}, ah: 7, channel: 52}
	for _, v := range o.verbs() {
		f.Add(fuzzStep(v.bytes(programBase)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		u, engine := fuzzUser(t)
		for _, b := range fuzzSteps(data) {
			u.reset()
			u.room(4096)
			at := u.alloc(b)
			if n, err := u.f.Write(u, at, uint64(len(b))); err == nil && n != int64(len(b)) {
				t.Errorf("%d of %d bytes", n, len(b))
			}
		}
		checkLife(t, u, engine)
	})
}

// FuzzIoctl does the same with the ioctl form: object, method, and a list of
// attributes.
func FuzzIoctl(f *testing.F) {
	list := func(o uapi.ObjectType, method uint16, attrs ...uapi.IoctlAttr) {
		f.Add(fuzzStep(ioctlBytes(o, method, attrs)))
	}
	out := func(id uint16, n uint16) uapi.IoctlAttr { return uapi.IoctlAttr{AttrID: id, Len: n, Data: programBase} }
	for key, m := range tables.Methods {
		var attrs []uapi.IoctlAttr
		for i := range m.Attrs {
			s := &m.Attrs[i]
			switch s.Kind {
			case dispatch.KindIn:
				attrs = append(attrs, uapi.IoctlAttr{AttrID: s.ID, Len: uint16(max(s.Min, 4)), Data: 2})
			case dispatch.KindOut:
				attrs = append(attrs, out(s.ID, uint16(max(s.Min, 64))))
			default:
				attrs = append(attrs, uapi.IoctlAttr{AttrID: s.ID, Data: 1})
			}
		}
		list(key.Object, key.Method, attrs...)
	}
	list(uapi.ObjDevice, uapi.MethodInvokeWrite, num(uapi.AttrWriteCmd, uapi.CmdCreateCQ), uapi.IoctlAttr{AttrID: uapi.AttrCoreIn, Len: 32, Data: programBase},
		out(uapi.AttrCoreOut, 8), out(uapi.AttrUHWOut, 16))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, engine := fuzzUser(t)
		for _, b := range fuzzSteps(data) {
			u.reset()
			u.room(4096)
			_, _ = u.f.Ioctl(u, uapi.RDMAVerbsIoctl, u.alloc(b)) // any errno will do
		}
		checkLife(t, u, engine)
	})
}

package uverbs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// attr is one attribute of a request, checked against its specification.
type attr struct {
	spec  *attrSpec
	wire  *uapi.IoctlAttr // as the program sent it; flags and handle go back there
	set   *attrSet
	data  []byte      // kindIn: the value
	obj   *object     // kindIDR
	files *eventFiles // kindFD, accessRead: what the descriptor refers to
}

// eventFiles is what a descriptor may refer to; one of them is set.
type eventFiles struct {
	channel *channel
	async   *asyncFD
}

// written marks an output as filled in.
func (a *attr) written() {
	a.wire.Flags |= uapi.AttrFValidOutput
	a.set.dirty = true
}

// attrSet are the attributes of a request.
type attrSet struct {
	wires []uapi.IoctlAttr
	attrs []attr
	dirty bool // the program's copy of wires has to be updated
}

func (s *attrSet) clear() {
	clear(s.attrs)
	*s = attrSet{wires: s.wires[:0], attrs: s.attrs[:0]}
}

// get finds an attribute; nil when the program did not send it.
func (s *attrSet) get(id uint16) *attr {
	for i := range s.attrs {
		if s.attrs[i].spec.id == id {
			return &s.attrs[i]
		}
	}
	return nil
}

// parse checks the attributes in the order in which they came, and finds the
// objects that they name (uverbs_ioctl.c:uverbs_set_attr); then it looks whether
// one is missing.
func (k *call) parse(m *methodSpec) error {
	s := &k.attrs
	s.attrs = s.attrs[:0]
	for i := range s.wires {
		w := &s.wires[i]
		spec := m.find(w.AttrID)
		switch {
		case spec == nil && w.Flags&uapi.AttrFMandatory != 0:
			return unix.EPROTONOSUPPORT
		case spec == nil:
			continue
		case s.get(w.AttrID) != nil:
			return unix.EINVAL
		}
		if err := spec.check(w); err != nil {
			return err
		}
		s.attrs = append(s.attrs, attr{spec: spec, wire: w, set: s})
		if err := k.resolve(&s.attrs[len(s.attrs)-1]); err != nil {
			return err
		}
	}
	for i := range m.attrs {
		if m.attrs[i].mandatory && s.get(m.attrs[i].id) == nil {
			return unix.EINVAL
		}
	}
	return nil
}

func (m *methodSpec) find(id uint16) *attrSpec {
	for i := range m.attrs {
		if m.attrs[i].id == id {
			return &m.attrs[i]
		}
	}
	return nil
}

func (a *attrSpec) check(w *uapi.IoctlAttr) error {
	if w.Reserved != 0 {
		return unix.EINVAL
	}
	n := int(w.Len)
	switch a.kind {
	case kindIDR, kindFD:
		if n != 0 {
			return unix.EINVAL
		}
	default:
		if n < a.min || n > a.max && !a.zeroTail {
			return unix.EINVAL
		}
	}
	return nil
}

// inlineBytes is how much of a value fits into the attribute itself.
const inlineBytes = 8

// copyIn fetches the values of the inputs from the program's memory.
func (s *attrSet) copyIn(c kernel.Caller) error {
	for i := range s.attrs {
		a := &s.attrs[i]
		if a.spec.kind != kindIn {
			continue
		}
		n := int(a.wire.Len)
		if n <= inlineBytes {
			var b [inlineBytes]byte
			binary.NativeEndian.PutUint64(b[:], a.wire.Data)
			a.data = append([]byte(nil), b[:n]...)
			continue
		}
		a.data = make([]byte, n)
		if err := c.Read(a.wire.Data, a.data); err != nil {
			return err
		}
		if a.spec.zeroTail && n > a.spec.max && !isZero(a.data[a.spec.max:]) {
			return unix.EOPNOTSUPP
		}
	}
	return nil
}

// resolve finds the object that a handle or descriptor names, or takes a handle
// for a new one.
func (k *call) resolve(a *attr) (err error) {
	switch {
	case a.spec.kind == kindFD && a.spec.access == accessRead:
		a.files, err = k.eventFiles(a.wire.Data, a.spec.object)
	case a.spec.kind != kindIDR:
	case a.spec.access == accessNew:
		if a.obj, err = k.make(a.spec.object); err == nil {
			a.wire.Data = uint64(a.obj.handle)
			a.set.dirty = true
		}
	case a.spec.access == accessDestroy:
		a.obj, err = k.f.objects.find(a.spec.object, a.wire.Data)
	case absent[a.spec.object]:
		err = unix.EINVAL
	default:
		a.obj, err = k.hold(a.spec.object, a.wire.Data)
	}
	return err
}

// absent are the types of objects that this device, like rdma_rxe, does not
// have: no handle names one.
var absent = map[uapi.ObjectType]bool{
	uapi.ObjFlow: true, uapi.ObjXRCD: true, uapi.ObjRWQIndTbl: true, uapi.ObjWQ: true,
	uapi.ObjFlowAction: true, uapi.ObjDM: true, uapi.ObjCounters: true,
}

// eventFiles finds the event file behind a descriptor (rdma_core.c:
// lookup_get_fd_uobject).
func (k *call) eventFiles(fd uint64, typ uapi.ObjectType) (*eventFiles, error) {
	if int64(fd) != int64(int32(fd)) {
		return nil, unix.EINVAL
	}
	id, err := k.c.FileID(int32(fd))
	if err != nil {
		return nil, err
	}
	e := k.f.events.find(id, typ)
	switch {
	case e == nil:
		return nil, unix.EBADF
	case k.f.dev.gone.Load():
		return nil, unix.EIO
	}
	return e, nil
}

// The accessors below are for values that parse has seen to be there and of the
// right size, or that may be missing.

func (s *attrSet) u32(id uint16) uint32 {
	if a := s.get(id); a != nil {
		return uapi.Load[uint32](a.data)
	}
	return 0
}

func (s *attrSet) u64(id uint16) uint64 {
	if a := s.get(id); a != nil {
		return uapi.Load[uint64](a.data)
	}
	return 0
}

// constant is a number that has to fit into a type whose largest value is max.
func (s *attrSet) constant(id uint16, max uint64) (uint64, error) {
	v := s.u64(id)
	if v > max {
		return 0, unix.EINVAL
	}
	return v, nil
}

// Flags is a set of bits, none but those allowed (uverbs_get_flags32).
func (s *attrSet) flags(id uint16, allowed uint64) (uint32, error) {
	a := s.get(id)
	if a == nil {
		return 0, nil
	}
	if n := len(a.data); n != 4 && n != 8 {
		return 0, unix.EINVAL
	}
	v := s.u64(id)
	if v&^allowed != 0 || v > 1<<32-1 {
		return 0, unix.EINVAL
	}
	return uint32(v), nil
}

func (s *attrSet) object(id uint16) *object {
	if a := s.get(id); a != nil {
		return a.obj
	}
	return nil
}

// output is the buffer of an output attribute; of no size when it is missing.
func (s *attrSet) output(id uint16) reply {
	a := s.get(id)
	if a == nil {
		return reply{}
	}
	return reply{addr: a.wire.Data, size: int(a.wire.Len), attr: a}
}

// put answers an output attribute, if it is there (uverbs_copy_to).
func put[T any](k *call, id uint16, v T) error {
	out := k.attrs.output(id)
	return k.answer(&out, uapi.BytesOf(&v))
}

// putStruct answers one that may be longer than this ABI's struct: the rest is
// zeroed (uverbs_copy_to_struct_or_zero).
func putStruct[T any](k *call, id uint16, v T) error {
	out := k.attrs.output(id)
	b := uapi.BytesOf(&v)
	if out.size > len(b) {
		b = append(append(make([]byte, 0, out.size), b...), make([]byte, out.size-len(b))...)
	}
	return k.answer(&out, b)
}

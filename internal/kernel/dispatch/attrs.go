package dispatch

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Attr is one attribute of a request, checked against its specification.
type attr struct {
	spec *AttrSpec
	Wire *uapi.IoctlAttr // as the program sent it; flags and handle go back there
	set  *AttrSet
	Data []byte  // KindIn: the value
	obj  *Object // kindIDR
	File any     // kindFD, AccessRead: the event file that the descriptor refers to
}

// written marks an output as filled in.
func (a *attr) written() {
	a.Wire.Flags |= uapi.AttrFValidOutput
	a.set.Dirty = true
}

// AttrSet are the attributes of a request.
type AttrSet struct {
	wires []uapi.IoctlAttr
	attrs []attr
	Dirty bool // the program's copy of wires has to be updated
}

func (s *AttrSet) clear() {
	clear(s.attrs)
	*s = AttrSet{wires: s.wires[:0], attrs: s.attrs[:0]}
}

// Get finds an attribute; nil when the program did not send it.
func (s *AttrSet) Get(id uint16) *attr {
	for i := range s.attrs {
		if s.attrs[i].spec.ID == id {
			return &s.attrs[i]
		}
	}
	return nil
}

// parse checks the attributes in the order in which they came, and finds the
// objects that they name (uverbs_ioctl.c:uverbs_set_attr); then it looks whether
// one is missing.
func (k *Call) parse(m *MethodSpec) error {
	s := &k.Attrs
	s.attrs = s.attrs[:0]
	for i := range s.wires {
		w := &s.wires[i]
		spec := m.find(w.AttrID)
		switch {
		case spec == nil && w.Flags&uapi.AttrFMandatory != 0:
			return unix.EPROTONOSUPPORT
		case spec == nil:
			continue
		case s.Get(w.AttrID) != nil:
			return malformed(nameOf(w.AttrID), "is there twice")
		}
		if err := spec.check(w); err != nil {
			return err
		}
		s.attrs = append(s.attrs, attr{spec: spec, Wire: w, set: s})
		if err := k.resolve(&s.attrs[len(s.attrs)-1]); err != nil {
			return err
		}
	}
	for i := range m.Attrs {
		if m.Attrs[i].mandatory && s.Get(m.Attrs[i].ID) == nil {
			return malformed(nameOf(m.Attrs[i].ID), "is missing")
		}
	}
	return nil
}

func (m *MethodSpec) find(id uint16) *AttrSpec {
	for i := range m.Attrs {
		if m.Attrs[i].ID == id {
			return &m.Attrs[i]
		}
	}
	return nil
}

func (a *AttrSpec) check(w *uapi.IoctlAttr) error {
	if w.Reserved != 0 {
		return malformed(nameOf(a.ID), "has reserved bits set")
	}
	n := int(w.Len)
	switch a.Kind {
	case kindIDR, kindFD:
		if n != 0 {
			return malformed(nameOf(a.ID), "has a length, and names an object")
		}
	default:
		if n < a.Min || n > a.max && !a.zeroTail {
			return malformed(nameOf(a.ID), "has another size than in this kernel's ABI")
		}
	}
	return nil
}

// inlineBytes is how much of a value fits into the attribute itself.
const inlineBytes = 8

// copyIn fetches the values of the inputs from the program's memory.
func (s *AttrSet) copyIn(c kernel.Caller) error {
	for i := range s.attrs {
		a := &s.attrs[i]
		if a.spec.Kind != KindIn {
			continue
		}
		n := int(a.Wire.Len)
		if n <= inlineBytes {
			var b [inlineBytes]byte
			binary.NativeEndian.PutUint64(b[:], a.Wire.Data)
			a.Data = append([]byte(nil), b[:n]...)
			continue
		}
		a.Data = make([]byte, n)
		if err := c.Read(a.Wire.Data, a.Data); err != nil {
			return err
		}
		if a.spec.zeroTail && n > a.spec.max && !IsZero(a.Data[a.spec.max:]) {
			return unix.EOPNOTSUPP
		}
	}
	return nil
}

// resolve finds the object that a handle or descriptor names, or takes a handle
// for a new one.
func (k *Call) resolve(a *attr) (err error) {
	switch {
	case a.spec.Kind == kindFD && a.spec.access == AccessRead:
		a.File, err = k.EventFile(a.Wire.Data, a.spec.object)
	case a.spec.Kind != kindIDR:
	case a.spec.access == AccessNew:
		if a.obj, err = k.Make(a.spec.object); err == nil {
			a.Wire.Data = uint64(a.obj.Handle)
			a.set.Dirty = true
		}
	case a.spec.access == AccessDestroy:
		a.obj, err = k.objects.Find(a.spec.object, a.Wire.Data)
	case k.tables.Absent[a.spec.object]:
		err = kernel.Refuse(unix.EINVAL, nameOf(a.spec.ID), "names an object that this device cannot have", "leave it out")
	default:
		a.obj, err = k.hold(a.spec.object, a.Wire.Data)
	}
	return err
}

// EventFile finds the event file behind a descriptor (rdma_core.c:
// lookup_get_fd_uobject).
func (k *Call) EventFile(fd uint64, typ uapi.ObjectType) (any, error) {
	if int64(fd) != int64(int32(fd)) {
		return nil, kernel.Refuse(unix.EINVAL, "descriptor", "exceeds an int", "give that of a completion channel")
	}
	id, err := k.Caller.FileID(int32(fd))
	if err != nil {
		return nil, err
	}
	e := k.owner.EventFile(id, typ)
	switch {
	case e == nil:
		return nil, unix.EBADF
	case k.owner.Gone():
		return nil, unix.EIO
	}
	return e, nil
}

// The accessors below are for values that parse has seen to be there and of the
// right size, or that may be missing.

func (s *AttrSet) U32(id uint16) uint32 {
	if a := s.Get(id); a != nil {
		return uapi.Load[uint32](a.Data)
	}
	return 0
}

func (s *AttrSet) U64(id uint16) uint64 {
	if a := s.Get(id); a != nil {
		return uapi.Load[uint64](a.Data)
	}
	return 0
}

// Constant is a number that has to fit into a type whose largest value is max.
func (s *AttrSet) Constant(id uint16, max uint64) (uint64, error) {
	v := s.U64(id)
	if v > max {
		return 0, kernel.Refuse(unix.EINVAL, nameOf(id), "is a number that does not fit", "give a smaller one")
	}
	return v, nil
}

// Flags is a set of bits, none but those allowed (uverbs_get_flags32).
func (s *AttrSet) Flags(id uint16, allowed uint64) (uint32, error) {
	a := s.Get(id)
	if a == nil {
		return 0, nil
	}
	if n := len(a.Data); n != 4 && n != 8 {
		return 0, malformed(nameOf(id), "has neither 4 nor 8 bytes of flags")
	}
	v := s.U64(id)
	if v&^allowed != 0 || v > 1<<32-1 {
		return 0, kernel.Refuse(unix.EINVAL, nameOf(id), "has flags that this call does not take", "leave them out")
	}
	return uint32(v), nil
}

func (s *AttrSet) Object(id uint16) *Object {
	if a := s.Get(id); a != nil {
		return a.obj
	}
	return nil
}

// Output is the buffer of an output attribute; of no size when it is missing.
func (s *AttrSet) Output(id uint16) Reply {
	a := s.Get(id)
	if a == nil {
		return Reply{}
	}
	return Reply{addr: a.Wire.Data, Size: int(a.Wire.Len), Attr: a}
}

// Put answers an output attribute, if it is there (uverbs_copy_to).
func Put[T any](k *Call, id uint16, v T) error {
	out := k.Attrs.Output(id)
	return k.Answer(&out, uapi.BytesOf(&v))
}

// PutStruct answers one that may be longer than this ABI's struct: the rest is
// zeroed (uverbs_copy_to_struct_or_zero).
func PutStruct[T any](k *Call, id uint16, v T) error {
	out := k.Attrs.Output(id)
	b := uapi.BytesOf(&v)
	if out.Size > len(b) {
		b = append(append(make([]byte, 0, out.Size), b...), make([]byte, out.Size-len(b))...)
	}
	return k.Answer(&out, b)
}

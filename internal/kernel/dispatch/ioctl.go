package dispatch

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Ioctl is uverbs_ioctl.c: the header, the method, its attributes, the handler.
func (k *Call) Ioctl(tables *Tables, arg uint64) error {
	b, err := k.readAhead(arg)
	if err != nil {
		return err
	}
	hdr := uapi.Load[uapi.IoctlHdr](b)
	n := int(hdr.NumAttrs)
	switch {
	case hdr.Length > uapi.IoctlMaxSize || int(hdr.Length) != uapi.IoctlHdrSize+n*uapi.IoctlAttrSize:
		return malformed("length", "does not fit the number of attributes")
	case hdr.Reserved1 != 0 || hdr.Reserved2 != 0:
		return unix.EPROTONOSUPPORT
	case hdr.DriverID != k.owner.DriverID():
		return malformed("driver_id", "belongs to another device's library")
	}
	k.tables = tables
	m := tables.Methods[MethodKey{uapi.ObjectType(hdr.ObjectID), hdr.MethodID}]
	if m == nil || m.Absent {
		return unix.EPROTONOSUPPORT
	}
	list := make([]byte, n*uapi.IoctlAttrSize)
	if got := copy(list, b[uapi.IoctlHdrSize:]); got < len(list) {
		if err := k.Caller.Read(arg+uapi.IoctlHdrSize+uint64(got), list[got:]); err != nil {
			return err
		}
	}
	k.Attrs.wires = k.Attrs.wires[:0]
	for i := range n {
		k.Attrs.wires = append(k.Attrs.wires, uapi.Load[uapi.IoctlAttr](list[i*uapi.IoctlAttrSize:]))
	}
	if err := k.run(m); err != nil {
		return err
	}
	return k.writeBack(arg + uapi.IoctlHdrSize)
}

// usualAttrs is how many attributes most requests have at most.
const usualAttrs = 16

// pageSize is the unit in which memory exists.
const pageSize = 4096

// readAhead reads the header, and with it what follows on its page: most or all of the
// attributes. An access to a program's memory is a system call. The rest of a page that
// answers cannot fail, or wait.
func (k *Call) readAhead(arg uint64) ([]byte, error) {
	n := min(uapi.IoctlHdrSize+usualAttrs*uapi.IoctlAttrSize, pageSize-arg%pageSize)
	b := k.scratch[:max(n, uapi.IoctlHdrSize)]
	return b, k.Caller.Read(arg, b)
}

func (k *Call) run(m *MethodSpec) error {
	k.Method = m.Name
	if err := k.parse(m); err != nil {
		return err
	}
	if err := k.Attrs.copyIn(k.Caller); err != nil {
		return err
	}
	if m.private() {
		if a := k.Attrs.Get(uapi.AttrUHWIn); a != nil {
			k.UHWIn = a.Data
		}
		k.UHWOut = k.Attrs.Output(uapi.AttrUHWOut)
	}
	if err := k.verb(m.Verb); err != nil {
		return err
	}
	if m.Destroys {
		if err := k.destroyFound(k.Attrs.Object(m.Attrs[0].ID)); err != nil {
			return err
		}
	}
	if err := m.Handle(k); err != nil {
		return err
	}
	// The provider's part counts as written wherever a method has one.
	if k.UHWOut.Attr != nil {
		k.UHWOut.Attr.written()
	}
	return nil
}

// writeBack tells the program the handle made and which outputs are filled in.
// Only the fields that changed are written: the rest is the program's.
func (k *Call) writeBack(list uint64) error {
	if !k.Attrs.Dirty {
		return nil
	}
	for i := range k.Attrs.attrs {
		a := &k.Attrs.attrs[i]
		at := list + uint64(a.index())*uapi.IoctlAttrSize
		if a.Wire.Flags&uapi.AttrFValidOutput != 0 {
			if err := k.Caller.Write(at+4, uapi.BytesOf(&a.Wire.Flags)); err != nil {
				return err
			}
		}
		if a.spec.access == AccessNew && a.spec.Kind != KindIn && a.spec.Kind != KindOut {
			if err := k.Caller.Write(at+8, uapi.BytesOf(&a.Wire.Data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// index is the attribute's place in the program's list.
func (a *attr) index() int {
	for i := range a.set.wires {
		if &a.set.wires[i] == a.Wire {
			return i
		}
	}
	return -1
}

// InvokeWrite is a write() command in the clothes of an ioctl
// (uverbs_std_types_device.c).
func InvokeWrite(k *Call) error {
	cmd, err := k.Attrs.Constant(uapi.AttrWriteCmd, 1<<32-1)
	if err != nil {
		return err
	}
	m, err := k.tables.commandFor(uint32(cmd))
	if err != nil {
		return err
	}
	if a := k.Attrs.Get(uapi.AttrCoreIn); a != nil {
		k.In = a.Data
	}
	k.Out = k.Attrs.Output(uapi.AttrCoreOut)
	if len(k.In) < m.Req || k.Out.Size < m.Resp {
		return unix.ENOSPC
	}
	return k.handle(m)
}

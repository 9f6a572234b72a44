package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Ioctl answers ioctl(fd, cmd, arg) on the device's file: RDMA_VERBS_IOCTL, with
// a list of attributes. The error is a unix.Errno; which one matters, as
// rdma-core falls back to write() on ENOTTY and EPROTONOSUPPORT, and on no
// other.
func (f *File) Ioctl(c kernel.Caller, cmd uint32, arg uint64) (int64, error) {
	if cmd != uapi.RDMAVerbsIoctl {
		return 0, unix.ENOTTY
	}
	k, err := f.enter(c)
	if err != nil {
		return 0, err
	}
	err = k.ioctl(arg)
	if f.leave(k, err); err != nil {
		return 0, errnoOf(err)
	}
	return 0, nil
}

// ioctl is uverbs_ioctl.c: the header, the method, its attributes, the handler.
func (k *call) ioctl(arg uint64) error {
	b := k.scratch[:uapi.IoctlHdrSize]
	if err := k.c.Read(arg, b); err != nil {
		return err
	}
	hdr := uapi.Load[uapi.IoctlHdr](b)
	n := int(hdr.NumAttrs)
	switch {
	case hdr.Length > uapi.IoctlMaxSize || int(hdr.Length) != uapi.IoctlHdrSize+n*uapi.IoctlAttrSize:
		return unix.EINVAL
	case hdr.Reserved1 != 0 || hdr.Reserved2 != 0:
		return unix.EPROTONOSUPPORT
	case hdr.DriverID != k.f.dev.cfg.Driver.ID():
		return unix.EINVAL
	}
	m := methods[methodKey{uapi.ObjectType(hdr.ObjectID), hdr.MethodID}]
	if m == nil || m.absent {
		return unix.EPROTONOSUPPORT
	}
	list := make([]byte, n*uapi.IoctlAttrSize)
	if n > 0 {
		if err := k.c.Read(arg+uapi.IoctlHdrSize, list); err != nil {
			return err
		}
	}
	k.attrs.wires = k.attrs.wires[:0]
	for i := range n {
		k.attrs.wires = append(k.attrs.wires, uapi.Load[uapi.IoctlAttr](list[i*uapi.IoctlAttrSize:]))
	}
	if err := k.run(m); err != nil {
		return err
	}
	return k.writeBack(arg + uapi.IoctlHdrSize)
}

func (k *call) run(m *methodSpec) error {
	if err := k.parse(m); err != nil {
		return err
	}
	if err := k.attrs.copyIn(k.c); err != nil {
		return err
	}
	if a := k.attrs.get(uapi.AttrUHWIn); a != nil {
		k.uhwIn = a.data
	}
	k.uhwOut = k.attrs.output(uapi.AttrUHWOut)
	if m.destroys {
		if err := k.destroyFound(k.attrs.object(uapi.AttrDestroyHandle)); err != nil {
			return err
		}
	}
	if err := m.handle(k); err != nil {
		return err
	}
	// The provider's part counts as written wherever a method has one.
	if k.uhwOut.attr != nil {
		k.uhwOut.attr.written()
	}
	return nil
}

// writeBack tells the program the handle made and which outputs are filled in.
// Only the fields that changed are written: the rest is the program's.
func (k *call) writeBack(list uint64) error {
	if !k.attrs.dirty {
		return nil
	}
	for i := range k.attrs.attrs {
		a := &k.attrs.attrs[i]
		at := list + uint64(a.index())*uapi.IoctlAttrSize
		if a.wire.Flags&uapi.AttrFValidOutput != 0 {
			if err := k.c.Write(at+4, uapi.BytesOf(&a.wire.Flags)); err != nil {
				return err
			}
		}
		if a.spec.access == accessNew && a.spec.kind != kindIn && a.spec.kind != kindOut {
			if err := k.c.Write(at+8, uapi.BytesOf(&a.wire.Data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// index is the attribute's place in the program's list.
func (a *attr) index() int {
	for i := range a.set.wires {
		if &a.set.wires[i] == a.wire {
			return i
		}
	}
	return -1
}

// invokeWrite is a write() command in the clothes of an ioctl
// (uverbs_std_types_device.c).
func invokeWrite(k *call) error {
	cmd, err := k.attrs.constant(uapi.AttrWriteCmd, 1<<32-1)
	if err != nil {
		return err
	}
	m, err := commandFor(uint32(cmd))
	if err != nil {
		return err
	}
	if a := k.attrs.get(uapi.AttrCoreIn); a != nil {
		k.in = a.data
	}
	k.out = k.attrs.output(uapi.AttrCoreOut)
	if len(k.in) < m.req || k.out.size < m.resp {
		return unix.ENOSPC
	}
	return m.handle(k)
}

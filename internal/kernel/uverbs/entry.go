package uverbs

import (
	"errors"
	"maps"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// call is a Call of this device's files.
type call struct {
	dispatch.Call
	f *File
}

// on makes a handler of a function for calls of this device's files.
func on(handler func(*call) error) func(*dispatch.Call) error {
	return func(k *dispatch.Call) error { return handler(k.Self.(*call)) }
}

// tables is what every device answers. init fills it: the handlers refer to it.
var tables dispatch.Tables

// tablesWith returns the common tables with the methods of a driver.
func tablesWith(own provider.Methods) dispatch.Tables {
	t := tables
	t.Methods, t.Absent = maps.Clone(t.Methods), maps.Clone(t.Absent)
	for key, m := range own {
		t.Methods[key] = &dispatch.MethodSpec{
			Name: m.Name, Attrs: m.Attrs, Destroys: m.Destroys, Verb: verbOf(m.Name),
			Handle: func(k *dispatch.Call) error { return m.Handle(k.Self.(*call).f.ctx, k) },
		}
		if key == queryContext {
			t.Methods[key].Handle = on(queryContextWith(m))
		}
		delete(t.Absent, key.Object)
	}
	if !t.Absent[uapi.ObjDM] {
		t.Methods[dispatch.MethodKey{Object: uapi.ObjMR, Method: uapi.MethodDMMRReg}] = &methodDMMRReg
	}
	return t
}

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
	err = k.Ioctl(&f.dev.tables, arg)
	if f.leave(k, err); err != nil {
		return 0, errnoOf(err)
	}
	return 0, nil
}

// Write answers write(fd, buf, n) on the device's file: one command, in the
// plain or the extended form. It returns n, or a unix.Errno.
func (f *File) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	if n < uapi.CmdHdrSize {
		return 0, unix.EINVAL
	}
	k, err := f.enter(c)
	if err != nil {
		return 0, err
	}
	err = k.Write(&f.dev.tables, buf, n)
	if f.leave(k, err); err != nil {
		return 0, errnoOf(err)
	}
	return int64(n), nil
}

// Read refuses, as a file without a read method (uverbs_main.c:uverbs_fops).
func (f *File) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

// errnos are the engine's sentinels as rdma_rxe and the kernel's verbs say them.
var errnos = []struct {
	err   error
	errno unix.Errno
}{
	{rxe.ErrInvalid, unix.EINVAL},
	{rxe.ErrBusy, unix.EBUSY},
	{rxe.ErrFull, unix.ENOMEM},
	{rxe.ErrLimit, unix.ENOMEM},
	{rxe.ErrNotSupported, unix.EOPNOTSUPP},
	{rxe.ErrPermission, unix.EPERM},
	{rxe.ErrNoDomain, unix.EAGAIN},
	// the device is going away: nothing else closes an object that is held
	{rxe.ErrClosed, unix.EIO},
	// of flow rules: fs_core.c
	{ether.ErrFull, unix.ENOSPC},
	{ether.ErrConflict, unix.EEXIST},
}

// errnoOf is the one place where an error becomes what the program sees.
func errnoOf(err error) unix.Errno {
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EINVAL
}

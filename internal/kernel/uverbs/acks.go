package uverbs

import (
	"encoding/binary"
	"runtime"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// ownStruct is where libibverbs keeps the handle of an object, and how many of its events the
// program has acknowledged. It is struct ibv_cq, ibv_qp or ibv_srq of verbs.h, on amd64.
type ownStruct struct{ handle, async, comp, size int }

var ownStructs = map[uapi.ObjectType]ownStruct{
	uapi.ObjCQ:  {handle: 24, comp: 120, async: 124, size: 128},
	uapi.ObjQP:  {handle: 48, async: 152, size: 156},
	uapi.ObjSRQ: {handle: 24, async: 120, size: 124},
}

// unacknowledged returns how many events of a destroyed object the program has read and not
// acknowledged.
func unacknowledged(c kernel.Caller, o *dispatch.Object) uint32 {
	async, comp := acknowledged(c, o)
	return o.AsyncReported - async + o.CompReported - comp
}

// acknowledged returns how many events of a destroyed object the program has acknowledged; all that
// it has read: this is not known. The program's name of an object is the address of libibverbs's
// struct. Other libraries may have other names, so the struct must have the handle, and numbers
// that can be.
func acknowledged(c kernel.Caller, o *dispatch.Object) (async, comp uint32) {
	at, known := ownStructs[o.Type]
	if !known || o.CompReported == 0 && o.AsyncReported == 0 {
		return o.AsyncReported, o.CompReported
	}
	b := make([]byte, at.size)
	if c.Read(o.User, b) != nil || binary.NativeEndian.Uint32(b[at.handle:]) != o.Handle {
		return o.AsyncReported, o.CompReported
	}
	async = binary.NativeEndian.Uint32(b[at.async:])
	if at.comp > 0 {
		comp = binary.NativeEndian.Uint32(b[at.comp:])
	}
	if async > o.AsyncReported || comp > o.CompReported {
		return o.AsyncReported, o.CompReported
	}
	return async, comp
}

// forgive has libibverbs wait for no event of a destroyed object, if the program may have left it
// unacknowledged because of a call that failed with EINTR.
func forgive(c kernel.Caller, o *dispatch.Object) {
	if runtime.GOARCH != "amd64" || o.CompReported == 0 && o.AsyncReported == 0 || !kernel.Interrupted(c) {
		return
	}
	o.AsyncReported, o.CompReported = acknowledged(c, o)
}

// NumberAt implements kernel.NumberedFile: the address of cmd_fd in struct ibv_context, to which
// the struct of the queue pair points that rang last.
func (f *File) NumberAt(c kernel.Caller) (addr uint64, ok bool) {
	const contextOf, cmdFD = 0, 264 // verbs.h: struct ibv_qp, struct ibv_context
	o := f.rung.Load()
	if o == nil || runtime.GOARCH != "amd64" {
		return 0, false
	}
	own := make([]byte, ownStructs[uapi.ObjQP].size)
	if c.Read(o.User, own) != nil || binary.NativeEndian.Uint32(own[ownStructs[uapi.ObjQP].handle:]) != o.Handle {
		return 0, false
	}
	return binary.NativeEndian.Uint64(own[contextOf:]) + cmdFD, true
}

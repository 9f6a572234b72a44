package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// call is one request on its way through a handler, in either form. It holds the request,
// the place of the answer, and what must be undone if the answer cannot be delivered
// (struct uverbs_attr_bundle).
//
// No lock is held while the program's memory is accessed. The request is copied first,
// and the objects that a call works with are counted.
type call struct {
	f *File
	c kernel.Caller

	size   int64   // of a write(), which returns it; 0 in the ioctl form
	in     []byte  // the core request
	out    reply   // the core response
	uhwIn  []byte  // the provider's part of the request (librxe's)
	uhwOut reply   // and of the response
	attrs  attrSet // of the ioctl form; empty in the other

	made  *object // a new object, found by others once the call has succeeded
	held  [8]*object
	nheld int

	scratch [512]byte // for requests of the write() form
}

// reply is a buffer in the program's memory for an answer.
type reply struct {
	addr uint64
	size int
	attr *attr // the attribute that names it, to be marked as written; or nil
}

// begin prepares a call for the next request.
func (k *call) begin(c kernel.Caller) {
	k.c, k.size = c, 0
	k.in, k.uhwIn = nil, nil
	k.out, k.uhwOut = reply{}, reply{}
	k.made, k.nheld = nil, 0
}

// end publishes the object that the call made, or undoes it, and releases the objects
// that the call used.
func (k *call) end(err error) {
	if o := k.made; o != nil {
		if err == nil {
			o.unseize()
			k.f.objects.publish(o)
		} else {
			k.f.abandon(o)
		}
	}
	for _, o := range k.held[:k.nheld] {
		o.unshare()
	}
	clear(k.held[:k.nheld])
	k.attrs.clear()
	k.c, k.in, k.uhwIn, k.made = nil, nil, nil, nil
}

// hold finds an object and prevents its destruction until the call ends.
func (k *call) hold(typ uapi.ObjectType, handle uint64) (*object, error) {
	o, err := k.f.objects.find(typ, handle)
	switch {
	case err != nil:
		return nil, err
	case k.f.dev.gone.Load():
		return nil, unix.EIO
	case k.nheld == len(k.held):
		return nil, unix.EINVAL
	case !o.share():
		return nil, unix.EBUSY
	}
	k.held[k.nheld] = o
	k.nheld++
	return o, nil
}

// held finds an object, holds it, and returns its resource.
func held[R resource](k *call, typ uapi.ObjectType, handle uint32) (R, error) {
	o, err := k.hold(typ, uint64(handle))
	if err != nil {
		var none R
		return none, err
	}
	return o.res.(R), nil
}

// make reserves a handle for an object that the call is about to make. The caller fills
// in res and what else belongs to the object.
func (k *call) make(typ uapi.ObjectType) (*object, error) {
	if err := k.f.needContext(); err != nil {
		return nil, err
	}
	o := &object{typ: typ}
	if err := k.charge(o, costOf(typ)); err != nil {
		return nil, err
	}
	o.handle = k.f.objects.reserve()
	o.use.Store(-1)
	k.made = o
	return o, nil
}

// destroy ends an object. The caller may still read its fields.
func (k *call) destroy(typ uapi.ObjectType, handle uint64) (*object, error) {
	o, err := k.f.objects.find(typ, handle)
	if err != nil {
		return nil, err
	}
	return o, k.destroyFound(o)
}

func (k *call) destroyFound(o *object) error {
	if !o.seize() {
		return unix.EBUSY
	}
	if err := o.destroy(false); err != nil {
		o.unseize()
		return err
	}
	k.f.discharge(o)
	// The object stays seized, because other calls may have found it already.
	k.f.objects.remove(o.handle)
	return nil
}

// request returns the core request as a T. Missing bytes are zero, and bytes beyond this
// ABI must be zero (uverbs_cmd.c:uverbs_request).
func request[T any](k *call) (T, error) {
	req := uapi.Load[T](k.in)
	if n := uapi.SizeOf[T](); len(k.in) > n && !isZero(k.in[n:]) {
		return req, unix.EOPNOTSUPP
	}
	return req, nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// respond answers with the core response: as much of it as the program has room for. It
// zeroes the rest of the room (uverbs_cmd.c:uverbs_response).
func respond[T any](k *call, resp T) error {
	b := uapi.BytesOf(&resp)
	if k.out.size > len(b) {
		b = append(append(make([]byte, 0, k.out.size), b...), make([]byte, k.out.size-len(b))...)
	}
	return k.answer(&k.out, b)
}

// responseLength is what an extended command says of the response's length.
func responseLength[T any](k *call) uint32 { return uint32(min(k.out.size, uapi.SizeOf[T]())) }

// answer writes b, or as much of it as there is room for.
func (k *call) answer(r *reply, b []byte) error {
	b = b[:min(len(b), r.size)]
	if len(b) > 0 {
		if err := k.c.Write(r.addr, b); err != nil {
			return err
		}
	}
	if r.attr != nil {
		r.attr.written()
	}
	return nil
}

// probe reports whether an answer can be delivered, before a call does something that
// cannot be undone.
func (k *call) probe(r *reply, n int) error {
	n = min(n, r.size)
	if n == 0 {
		return nil
	}
	return k.c.Write(r.addr, make([]byte, n))
}

package dispatch

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Call is one request on its way through a handler, in either form. It holds the request,
// the place of the answer, and what must be undone if the answer cannot be delivered
// (struct uverbs_attr_bundle).
//
// No lock is held while the program's memory is accessed. The request is copied first,
// and the objects that a call works with are counted.
type Call struct {
	Self    any // the type that embeds it
	owner   Owner
	objects *Handles
	tables  *Tables
	Caller  kernel.Caller

	Method string  // the name of the method or command; "" as long as none is found
	Size   int64   // of a write(), which returns it; 0 in the ioctl form
	In     []byte  // the core request
	Out    Reply   // the core response
	UHWIn  []byte  // the provider's part of the request (librxe's)
	UHWOut Reply   // and of the response
	Attrs  AttrSet // of the ioctl form; empty in the other

	ended   Resource // that the call has destroyed, and endedAs its object
	endedAs *Object
	kept    Resource // that the call could not destroy
	made    *Object  // a new object, found by others once the call has succeeded
	held    []*Object

	scratch [512]byte // for requests of the write() form
}

// Owner is the open file whose request a Call is.
type Owner interface {
	// Gone reports whether the device was taken away.
	Gone() bool
	// DriverID returns the number that requests of the ioctl form must name.
	DriverID() uint32
	// NeedContext reports whether objects can be made.
	NeedContext() error
	// Charge takes what a new object costs of the budget; discharge gives it back.
	Charge(o *Object) error
	Discharge(o *Object)
	// Abandon undoes an object whose creation failed, or whose answer was not delivered.
	Abandon(o *Object)
	// Verb is called before a verb is executed, with its name. With an error, the request fails
	// and nothing is done.
	Verb(name string) error
	// EventFile returns the event file of a type, or nil if the descriptor is something
	// else.
	EventFile(id fdid.ID, typ uapi.ObjectType) any
}

// Bind sets the owner. self is what handlers get: the type that embeds k.
func (k *Call) Bind(self any, owner Owner, objects *Handles) {
	k.Self, k.owner, k.objects = self, owner, objects
}

// Reply is a buffer in the program's memory for an answer.
type Reply struct {
	addr uint64
	Size int
	Attr *attr // the attribute that names it, to be marked as written; or nil
}

// Begin prepares a call for the next request.
func (k *Call) Begin(c kernel.Caller) {
	k.Caller, k.Size, k.Method = c, 0, ""
	k.In, k.UHWIn = nil, nil
	k.Out, k.UHWOut = Reply{}, Reply{}
	k.made, k.ended, k.endedAs, k.kept, k.held = nil, nil, nil, nil, k.held[:0]
}

// End publishes the object that the call made, or undoes it, and releases the objects
// that the call used.
func (k *Call) End(err error) {
	if o := k.made; o != nil {
		if err == nil {
			o.Unseize()
			k.objects.publish(o)
		} else {
			k.owner.Abandon(o)
		}
	}
	for _, o := range k.held {
		o.Unshare()
	}
	clear(k.held)
	if k.held = k.held[:0]; cap(k.held) > mostKept {
		k.held = nil
	}
	k.Attrs.clear()
	k.Caller, k.In, k.UHWIn, k.made, k.ended, k.endedAs, k.kept = nil, nil, nil, nil, nil, nil, nil
}

// Made returns the object that the call is about to publish, and Ended the one that it has
// destroyed, with its resource; nil: there is none.
func (k *Call) Made() *Object              { return k.made }
func (k *Call) Ended() (*Object, Resource) { return k.endedAs, k.ended }

// Kept returns the resource that the call could not destroy; nil: there is none.
func (k *Call) Kept() Resource { return k.kept }

// hold finds an object and prevents its destruction until the call ends.
func (k *Call) hold(typ uapi.ObjectType, handle uint64) (*Object, error) {
	o, err := k.objects.Find(typ, handle)
	switch {
	case err != nil:
		return nil, err
	case k.owner.Gone():
		return nil, unix.EIO
	case !o.Share():
		return nil, unix.EBUSY
	}
	k.held = append(k.held, o)
	return o, nil
}

// mostKept is how much room for held objects a call keeps for the next request. Only requests for
// indirection tables hold more.
const mostKept = 16

// Held finds an object, holds it, and returns its resource. ENOSYS: the object is of another kind,
// as a queue pair of RSS is: it has no state that the call could be about.
func Held[R Resource](k *Call, typ uapi.ObjectType, handle uint32) (R, error) {
	o, err := k.hold(typ, uint64(handle))
	if err != nil {
		var none R
		return none, err
	}
	res, ok := o.Res.(R)
	if !ok {
		return res, unix.ENOSYS
	}
	return res, nil
}

// Make reserves a handle for an object that the call is about to make. The caller fills
// in res and what else belongs to the object.
func (k *Call) Make(typ uapi.ObjectType) (*Object, error) {
	if err := k.owner.NeedContext(); err != nil {
		return nil, err
	}
	o := &Object{Type: typ}
	if err := k.owner.Charge(o); err != nil {
		return nil, err
	}
	o.Handle = k.objects.reserve()
	o.Use.Store(-1)
	k.made = o
	return o, nil
}

// Destroy ends an object. The caller may still read its fields.
func (k *Call) Destroy(typ uapi.ObjectType, handle uint64) (*Object, error) {
	o, err := k.objects.Find(typ, handle)
	if err != nil {
		return nil, err
	}
	return o, k.destroyFound(o)
}

func (k *Call) destroyFound(o *Object) error {
	if !o.Seize() {
		return unix.EBUSY
	}
	res := o.Res
	if err := o.Destroy(false); err != nil {
		k.kept = res
		o.Unseize()
		return err
	}
	k.ended, k.endedAs = res, o
	k.owner.Discharge(o)
	// The object stays seized, because other calls may have found it already.
	k.objects.Remove(o.Handle)
	return nil
}

// Request returns the core request as a T. Missing bytes are zero, and bytes beyond this
// ABI must be zero (uverbs_cmd.c:uverbs_request).
func Request[T any](k *Call) (T, error) {
	req := uapi.Load[T](k.In)
	if n := uapi.SizeOf[T](); len(k.In) > n && !IsZero(k.In[n:]) {
		return req, unix.EOPNOTSUPP
	}
	return req, nil
}

func IsZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Respond answers with the core response: as much of it as the program has room for. It
// zeroes the rest of the room (uverbs_cmd.c:uverbs_response).
func Respond[T any](k *Call, resp T) error {
	b := uapi.BytesOf(&resp)
	if k.Out.Size > len(b) {
		b = append(append(make([]byte, 0, k.Out.Size), b...), make([]byte, k.Out.Size-len(b))...)
	}
	return k.Answer(&k.Out, b)
}

// ResponseLength is what an extended command says of the response's length.
func ResponseLength[T any](k *Call) uint32 { return uint32(min(k.Out.Size, uapi.SizeOf[T]())) }

// Answer writes b, or as much of it as there is room for.
func (k *Call) Answer(r *Reply, b []byte) error {
	b = b[:min(len(b), r.Size)]
	if len(b) > 0 {
		if err := k.Caller.Write(r.addr, b); err != nil {
			return err
		}
	}
	if r.Attr != nil {
		r.Attr.written()
	}
	return nil
}

// Probe reports whether an answer can be delivered, before a call does something that
// cannot be undone.
func (k *Call) Probe(r *Reply, n int) error {
	n = min(n, r.Size)
	if n == 0 {
		return nil
	}
	return k.Caller.Write(r.addr, make([]byte, n))
}

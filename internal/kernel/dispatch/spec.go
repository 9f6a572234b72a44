package dispatch

import "github.com/gorxe/gorxe/internal/kernel/uapi"

// The schema of the ioctl form: the attributes of each method of each object, and what
// the framework checks before the handler sees them. schema_absent.go has what rdma_rxe
// does not have: flows, WQs, XRC domains, counters, device memory.

// attrKind is enum uverbs_attr_type, as far as used.
type attrKind uint8

const (
	KindIn  attrKind = iota // a value; up to 8 bytes of it are inline
	KindOut                 // a buffer for a value
	kindIDR                 // a handle
	kindFD                  // a descriptor of an event file
)

// access is enum uverbs_obj_access, of handles and descriptors.
type access uint8

const (
	AccessRead access = iota
	AccessNew
	AccessDestroy
)

// AttrSpec is struct uverbs_attr_spec.
type AttrSpec struct {
	ID        uint16
	Kind      attrKind
	mandatory bool
	// Of values: the length is between min and max; with zeroTail it may be
	// more, as long as all beyond max is zero.
	Min, max int
	zeroTail bool
	// Of objects.
	object uapi.ObjectType
	access access
}

type MethodSpec struct {
	Name   string
	Verb   string // what Owner.Verb is called with; "": it is not called
	Attrs  []AttrSpec
	Handle func(*Call) error
	// Destroys says that the object of the first attribute is destroyed before Handle is called.
	Destroys bool
	// Absent says that the kernel does not have the method for rdma_rxe.
	Absent bool
}

const MaxAttrLen = 1<<16 - 1

// Required makes attributes mandatory.
func Required(a AttrSpec) AttrSpec {
	a.mandatory = true
	return a
}

func Inputs(id uint16, lo, hi int) AttrSpec { return AttrSpec{ID: id, Kind: KindIn, Min: lo, max: hi} }

// Input is a value of one size, constant a number in 8 bytes, flags a number in
// 4 or 8 bytes.
func Input(id uint16, size int) AttrSpec { return Inputs(id, size, size) }
func Constant(id uint16) AttrSpec        { return Inputs(id, 8, 8) }
func Flags(id uint16) AttrSpec           { return Inputs(id, 4, 8) }

func Output(id uint16, size int) AttrSpec {
	return AttrSpec{ID: id, Kind: KindOut, Min: size, max: size}
}

// OutputAny is a buffer of at least min bytes.
func OutputAny(id uint16, min int) AttrSpec {
	return AttrSpec{ID: id, Kind: KindOut, Min: min, max: MaxAttrLen}
}

// StructIn and StructOut are structs that may grow in later versions; the first
// need bytes have to be there.
func StructIn(id uint16, need, size int) AttrSpec {
	return AttrSpec{ID: id, Kind: KindIn, Min: need, max: size, zeroTail: true}
}

func StructOut(id uint16, need, size int) AttrSpec {
	return AttrSpec{ID: id, Kind: KindOut, Min: need, max: size, zeroTail: true}
}

func Handle(id uint16, o uapi.ObjectType, a access) AttrSpec {
	return AttrSpec{ID: id, Kind: kindIDR, object: o, access: a}
}

func Descriptor(id uint16, o uapi.ObjectType, a access) AttrSpec {
	return AttrSpec{ID: id, Kind: kindFD, object: o, access: a}
}

var (
	UHWIn  = Inputs(uapi.AttrUHWIn, 0, MaxAttrLen)
	UHWOut = OutputAny(uapi.AttrUHWOut, 0)
)

// private reports whether the method has a private part. A driver gives its own attributes the same
// numbers.
func (m *MethodSpec) private() bool {
	spec := m.find(uapi.AttrUHWIn)
	return spec != nil && *spec == UHWIn
}

type MethodKey struct {
	Object uapi.ObjectType
	Method uint16
}

package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
)

// What objects cost besides their queues' memory: estimates, on the safe side.
const (
	objectMemory = 1 << 10
	qpMemory     = 16 << 10
	// dmabufMemory is for one of the few mappings that the daemon can have (bufmem.maxMappings):
	// a user with a budget of 1 GiB has some 8,000.
	dmabufMemory = 128 << 10
)

// costOf is what an object of a type costs without what is in it.
func costOf(typ uapi.ObjectType) int64 {
	if typ == uapi.ObjQP {
		return qpMemory
	}
	return objectMemory
}

// Charge implements Owner.
func (f *File) Charge(o *dispatch.Object) error { return f.charge(o, costOf(o.Type)) }

// charge takes n bytes for an object, which are given back with it.
func (f *File) charge(o *dispatch.Object, n int64) error {
	if err := f.budget.Take(quota.Cost{Memory: n}); err != nil {
		return err
	}
	o.Cost += n
	return nil
}

// Discharge gives back what the object cost.
func (f *File) Discharge(o *dispatch.Object) {
	f.budget.Give(quota.Cost{Memory: o.Cost})
	o.Cost = 0
}

package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
)

// What objects cost besides their queues' memory: estimates, on the safe side.
const (
	objectMemory = 1 << 10
	qpMemory     = 16 << 10
)

// costOf is what an object of a type costs without what is in it.
func costOf(typ uapi.ObjectType) int64 {
	if typ == uapi.ObjQP {
		return qpMemory
	}
	return objectMemory
}

// charge takes n bytes for an object, which are given back with it.
func (k *call) charge(o *object, n int64) error {
	if err := k.f.budget.Take(quota.Cost{Memory: n}); err != nil {
		return err
	}
	o.cost += n
	return nil
}

// discharge gives back what the object cost.
func (f *File) discharge(o *object) {
	f.budget.Give(quota.Cost{Memory: o.cost})
	o.cost = 0
}

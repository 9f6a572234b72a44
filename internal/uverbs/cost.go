package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
)

// What things cost besides the queues' memory: estimates, on the safe side. A
// mapping costs what it does because there can be only so many (vm.max_map_count).
const (
	openMemory   = 32 << 10
	objectMemory = 1 << 10
	qpMemory     = 16 << 10
	windowMemory = 64 << 10
)

var openCost = quota.Cost{Memory: openMemory, Files: 1}

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

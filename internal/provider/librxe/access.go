package librxe

import (
	"runtime/debug"
	"unsafe"
)

// lock begins accesses to mem. From then on a fault is a panic of this thread. It would end the
// daemon otherwise.
func (p *piece) lock() (faults bool) {
	p.mu.Lock()
	return debug.SetPanicOnFault(true)
}

// unlock is deferred, and ends the accesses. After a fault the piece is lost, and mem is nil for
// its users, as after free. The function that deferred unlock then returns its named results.
func (p *piece) unlock(faults bool) {
	debug.SetPanicOnFault(faults)
	e := recover()
	mine := e != nil && p.contains(e)
	if mine {
		p.mem, p.lost = nil, true
	}
	p.mu.Unlock()
	if e != nil && !mine {
		panic(e)
	}
}

// contains reports whether a panic is a fault in this piece. A fault has an address
// (debug.SetPanicOnFault).
func (p *piece) contains(e any) bool {
	fault, ok := e.(interface{ Addr() uintptr })
	return ok && len(p.mem) > 0 && fault.Addr()-uintptr(unsafe.Pointer(&p.mem[0])) < uintptr(len(p.mem))
}

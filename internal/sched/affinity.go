package sched

import "golang.org/x/sys/unix"

// Affinity is on which processors the calling thread runs, which is locked to its goroutine. The
// zero value is ready.
type Affinity struct {
	known  bool
	all    unix.CPUSet // the processors that the thread may use
	narrow bool
}

// Narrow lets the thread run on those of the processors that it may use, or on all that it may use
// if there are none among them. It reports whether the kernel has agreed.
func (a *Affinity) Narrow(cpus unix.CPUSet) bool {
	a.learn()
	for i := range cpus {
		cpus[i] &= a.all[i]
	}
	if cpus.Count() == 0 {
		cpus = a.all
	}
	if !a.known || unix.SchedSetaffinity(0, &cpus) != nil {
		return false
	}
	a.narrow = cpus != a.all
	return true
}

func (a *Affinity) learn() {
	if !a.known {
		a.known = unix.SchedGetaffinity(0, &a.all) == nil
	}
}

// others returns the processors that the thread may use, except one.
func (a *Affinity) others(cpu int) unix.CPUSet {
	a.learn()
	others := a.all
	others.Clear(cpu)
	return others
}

// allows reports whether the thread may use a processor.
func (a *Affinity) allows(cpu int) bool {
	a.learn()
	return a.all.IsSet(cpu)
}

// End gives the thread back as it was.
func (a *Affinity) End() {
	if a.narrow && unix.SchedSetaffinity(0, &a.all) == nil {
		a.narrow = false
	}
}

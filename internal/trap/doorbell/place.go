package doorbell

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// A Place keeps the calling thread on the processor of a program's thread that waits for it.
//
// A doorbell wakes the thread that takes it. The scheduler prefers an idle processor for that, or
// the one where the thread ran last. Either may take longer than the work itself: an idle
// processor of a virtual machine wakes up in some 10 µs, and elsewhere another program may poll.
// On the processor of the program that rang, the thread takes its turn within 2 µs. That program
// has nothing to do but wait.
//
// A thread that would rather look without a break than sleep may be aside: on the other processors, if one of
// them has nothing else to do. So it takes no processor from a program.
//
// A program that posts a stream does not wait. The thread keeps off its processor, so the program posts while the thread works.
//
// The zero value is ready. One thread uses it, which is locked to its goroutine.
type Place struct {
	Polling *Polling // learns where the program polls; may be nil
	Load    *Load    // nil: the thread is never aside

	affinity sched.Affinity
	at       int // the program's processor, plus one; 0: not known
	relation relation
	waited   int64 // Load.Delay at the last look that asked for it
	looked   int64 // when Follow looked last, clock.Now
	next     int64 // when to look again
	between  int64
}

// relation says where the thread is, if the program's processor is known.
type relation uint8

const (
	on    relation = iota // that processor
	off                   // that processor, on the others
	aside                 // the same, and looks there without a break
)

// Avoid keeps the thread off the processor on which the only running thread of the process runs. If several
// threads run, the thread may run anywhere.
func (p *Place) Avoid(tgid int) {
	if now := clock.Now(); now >= p.next {
		p.settle(now, only(tgid), off, placeSeldom)
	}
}

// Follow binds the thread to the processor on which the only running thread of the process runs.
// If several threads run, it could be any of them, so Follow binds to none.
//
// A thread that would look without a break, instead of sleeping, asks to be aside. Follow then binds it to the
// other processors, if one of them has nothing else to do.
func (p *Place) Follow(tgid int, wantsAside bool) {
	now := clock.Now()
	if now < p.next {
		return
	}
	at, to, seldom := only(tgid), on, placeSeldom
	if wantsAside {
		seldom = placeAside
		if at != 0 && p.spare(now, at-1) {
			to = aside
		}
	}
	p.settle(now, at, to, seldom)
}

// only returns the number of the processor on which the only running thread of a process runs, plus one; 0 if there is none.
func only(tgid int) int {
	if cpu, ok := procfs.OnlyRunning(tgid, placeThreads); ok {
		return cpu + 1
	}
	return 0
}

// settle binds the thread if the answer is not the same as before, and says when to look again.
func (p *Place) settle(now int64, at int, to relation, seldom int64) {
	if at == p.at && (at == 0 || to == p.relation) {
		p.between = min(max(2*p.between, placeOften), seldom)
	} else {
		p.between = placeOften
		p.bind(at, to)
	}
	p.looked, p.next = now, now+p.between
}

// spare reports whether a processor beside the program's has nothing to do but to run this thread. There seems to be
// one if no more threads are ready than there are processors. If so, the thread does not have to wait there.
func (p *Place) spare(now int64, cpu int) bool {
	if p.Load == nil {
		return false
	}
	waited, ok := p.Load.Delay()
	delay := waited - p.waited
	p.waited = waited
	if p.Aside() {
		return ok && delay <= (now-p.looked)/asideDelay
	}
	others := p.affinity.Others(cpu)
	ready, known := p.Load.Ready()
	return ok && known && ready <= others.Count()+1
}

// Aside reports whether the thread takes no processor from a program when it does not sleep.
func (p *Place) Aside() bool { return p.at != 0 && p.relation == aside }

// Leave lets the thread run anywhere.
func (p *Place) Leave() {
	if p.at != 0 {
		p.bind(0, on)
		p.next = 0
	}
}

func (p *Place) bind(at int, to relation) {
	var cpus unix.CPUSet // none: all
	switch {
	case at == 0:
	case to == on:
		cpus.Set(at - 1)
	default:
		cpus = p.affinity.Others(at - 1)
	}
	if !p.affinity.Narrow(cpus) {
		return
	}
	if at != 0 && !p.affinity.Allows(at-1) {
		at = 0
	}
	before := p.polled()
	p.at, p.relation = at, to
	p.Polling.move(before, p.polled())
}

// polled returns the processor, plus one, on which the program waits for the thread; 0 if it does not.
func (p *Place) polled() int {
	if p.relation == off {
		return 0
	}
	return p.at
}

package doorbell

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/ownthread"
	"github.com/gorxe/gorxe/internal/trap/mono"
	"github.com/gorxe/gorxe/internal/trap/procfs"
)

// A Place keeps the calling thread on the processor of a program's thread that waits for it.
//
// A doorbell wakes the thread that takes it. The scheduler prefers an idle processor for that, or
// the one where the thread ran last. Either may take longer than the work itself: an idle
// processor of a virtual machine wakes up in some 10 µs, and elsewhere another program may poll.
// On the processor of the program that rang, the thread takes its turn within 2 µs. That program
// has nothing to do but wait.
//
// The zero value is ready. One thread uses it, which is locked to its goroutine.
type Place struct {
	Polling *Polling // learns where the program polls; may be nil

	affinity ownthread.Affinity
	at       int   // the processor that it is bound to, plus one; 0: none
	next     int64 // when to look again, mono.Now
	between  int64
}

const (
	// A look at the program's threads is repeated after placeOften at first, and down to every
	// placeSeldom while the answer stays the same.
	placeOften  = int64(2 * time.Millisecond)
	placeSeldom = int64(32 * time.Millisecond)
	// placeThreads is how many threads a program may have for this.
	placeThreads = 16
)

// Follow binds the thread to the processor on which the only running thread of the process runs.
// If several threads run, it could be any of them, so Follow binds to none.
func (p *Place) Follow(tgid int) {
	now := mono.Now()
	if now < p.next {
		return
	}
	at := 0
	if cpu, ok := procfs.OnlyRunning(tgid, placeThreads); ok {
		at = cpu + 1
	}
	if at == p.at {
		p.between = min(max(2*p.between, placeOften), placeSeldom)
	} else {
		p.between = placeOften
		p.bind(at)
	}
	p.next = now + p.between
}

// Leave lets the thread run anywhere.
func (p *Place) Leave() {
	if p.at != 0 {
		p.bind(0)
		p.next = 0
	}
}

func (p *Place) bind(at int) {
	var to unix.CPUSet // none: all
	if at != 0 {
		to.Set(at - 1)
	}
	if !p.affinity.Narrow(to) {
		return
	}
	if at != 0 && !p.affinity.Allows(at-1) {
		at = 0
	}
	p.Polling.move(p.at, at)
	p.at = at
}

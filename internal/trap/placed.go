package trap

import (
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// placed is where a process got objects, or has used those that it got by a fork. It serves when
// nobody may look at the process's descriptors any more: it has become another user's without an
// exec, and no one here has CAP_SYS_PTRACE. What moves a descriptor without a call that is trapped,
// as io_uring does, is not seen.
type placed struct {
	mu sync.Mutex // a leaf lock
	at map[uint32]*object
}

func (p *placed) put(fd uint32, o *object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = make(map[uint32]*object)
	}
	p.at[fd] = o
}

func (p *placed) get(fd uint32) *object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[fd]
}

// drop forgets the descriptors from first to last.
func (p *placed) drop(first, last uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.at, func(fd uint32, _ *object) bool { return first <= fd && fd <= last })
}

// dropObject forgets an object that is closed.
func (t *processes) dropObject(o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byTGID {
		p.placed.mu.Lock()
		maps.DeleteFunc(p.placed.at, func(_ uint32, x *object) bool { return x == o })
		p.placed.mu.Unlock()
	}
}

// placedAt is the object that the caller got at a number.
func (r *receiver) placedAt(fd int32) *object {
	p, err := r.caller.owner()
	if err != nil {
		r.complainAloud(err)
		return nil
	}
	return p.placed.get(uint32(fd))
}

// unplace notes that the process's numbers from first to last refer to nothing of ours any more.
func (p *process) unplace(first, last uint32) {
	p.placed.drop(first, last)
	p.spares.drop(first, last)
}

// unplace notes that the call in hand changes what numbers refer to.
func (r *receiver) unplace() {
	if !r.s.procs.any() {
		return
	}
	p := r.s.procs.ofThread(r.n.TID, clock.Now())
	if p == nil {
		st, err := procfs.ReadStatus(r.thread())
		if err != nil {
			return
		}
		if p = r.s.procs.leader(st.TGID); p == nil {
			return // it has got nothing
		}
	}
	switch r.n.NR {
	case unix.SYS_CLOSE:
		p.unplace(uint32(r.fd(0)), uint32(r.fd(0)))
	case unix.SYS_CLOSE_RANGE:
		if r.arg(2)&unix.CLOSE_RANGE_CLOEXEC == 0 {
			p.unplace(uint32(r.arg(0)), uint32(r.arg(1)))
		}
	default: // dup2 and dup3
		if r.fd(0) != r.fd(1) {
			p.unplace(uint32(r.fd(1)), uint32(r.fd(1)))
		}
	}
}

package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

// Some things that a user has paid for are kept until somebody notices that they are not needed.
// Examples are a pipe whose reader is closed, and a device whose last descriptor is closed. Take
// makes their owners look before it refuses, once, and waits for what they then give back. So a
// program that has closed something may have as much again at once, as with the kernel.

// hook is a function that looks for what nobody needs, and begins to give it back.
type hook struct {
	owner *Budget
	look  func()
}

// hooks are the functions of a budget. Those of users are in that of all users, too.
type hooks struct {
	mu   sync.Mutex // held while they run
	all  map[*hook]struct{}
	runs atomic.Uint64 // that have begun
}

func (h *hooks) add(k *hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[*hook]struct{})
	}
	h.all[k] = struct{}{}
}

func (h *hooks) remove(k *hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, k)
}

// run runs them, and returns whose they are. There is one run at a time, which takes long if there
// are many programs. So calls that wait for it share the next one: before is what runs was when the
// caller found out that something is spent.
func (h *hooks) run(before uint64) map[*Budget]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	shared := h.runs.Load() != before // one has begun, and ended, since then
	if !shared {
		h.runs.Add(1)
	}
	owners := make(map[*Budget]struct{})
	for k := range h.all {
		if !shared {
			k.look()
		}
		owners[k.owner] = struct{}{}
	}
	return owners
}

// BeforeRefusal has look called before Take refuses something. look gives back what its owner keeps
// for nobody, or begins to: in Background, or between Giving and the function that this returns. It
// does not wait, calls nothing of the budget that does, and takes leaf locks only. The function
// that BeforeRefusal returns ends this, and waits for a call of look under way.
func (b *Budget) BeforeRefusal(look func()) (end func()) {
	k := &hook{b, look}
	b.hooks.add(k)
	if b.total != nil {
		b.total.hooks.add(k)
	}
	return func() {
		b.hooks.remove(k)
		if b.total != nil {
			b.total.hooks.remove(k)
		}
	}
}

// reclaim has everything looked for that nobody needs, and waits until it is given back.
func (b *Budget) reclaim(all bool) {
	h := &b.hooks
	if all && b.total != nil {
		h = &b.total.hooks
	}
	owners := h.run(h.runs.Load())
	owners[b] = struct{}{} // something may be under way without a hook
	for o := range owners {
		o.settle()
	}
}

// Giving says that something is about to be given back. done says that it was.
func (b *Budget) Giving() (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giving++
	return b.gave
}

func (b *Budget) gave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giving--
	b.hangs = min(b.hangs, b.giving)
	if b.progress != nil {
		close(b.progress)
		b.progress = nil
	}
}

// A program can block what gives back its things. So settle waits only while there is progress, and
// remembers how much there is that makes none.
const (
	waitAtMost  = 200 * time.Millisecond
	inAllAtMost = 2 * time.Second
)

// settle waits until what is about to be given back is.
func (b *Budget) settle() {
	end := time.NewTimer(inAllAtMost)
	defer end.Stop()
	for {
		b.mu.Lock()
		if b.giving <= b.hangs {
			b.mu.Unlock()
			return
		}
		if b.progress == nil {
			b.progress = make(chan struct{})
		}
		progress := b.progress
		b.mu.Unlock()
		select {
		case <-progress:
			continue
		case <-end.C:
		case <-time.After(waitAtMost):
		}
		b.mu.Lock()
		b.hangs = b.giving
		b.mu.Unlock()
		return
	}
}

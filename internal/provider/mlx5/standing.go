package mlx5

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/rxe"
)

// If somebody asks who rings, a store waits, and the thread's stack is read before the store goes
// on. Each one does, as long as sched.Stops allows it; later ones are seen in the way of programs
// that nobody watches.

// numbered is a Space of a process with a number.
type numbered interface{ PID() int }

// tell says who has posted to queue pairs what is about to be taken. It returns what says that it
// was taken, and whether the worker is still in its place. Of several threads that stand, it is not
// known which one posted.
func (w *worker) tell(list []*queuePair) (over func(), inPlace bool) {
	if len(w.stands) == 0 {
		return func() {}, true
	}
	told := make([]*queuePair, 0, len(list))
	for _, q := range list {
		if q.rings != nil {
			told = append(told, q)
		}
	}
	var at *provider.At
	if len(told) > 0 && len(w.stands) == 1 && !w.call(func() { at = standing(told[0].send.space, w.stands[0].tid) }) {
		return nil, false
	}
	if !w.call(func() {
		for _, q := range told {
			q.rings.Rings(q.send.qp, at)
		}
	}) {
		return nil, false
	}
	return func() {
		for _, q := range told {
			q.rings.Rang(q.send.qp)
		}
	}, true
}

// stand is a thread that waits at a register.
type stand struct {
	word
	tid int
}

// register returns the register of the page where the thread stands.
func (s *stand) register() int { return (s.at - registersAt) / registerSize }

// crossed tells if two threads stand at one register, where libmlx5 lets one at a time. If there
// may be another one, it waits for that a little.
func (w *worker) crossed(r *ringing) {
	for i := range w.stands {
		qps := r.at(w.stands[i].page)
		if !w.stands[i].page.single || len(qps) < 2 {
			continue
		}
		if len(w.stands) == 1 {
			w.c.guard.await(crossingPause)
		}
		w.collect(r)
		if k := slices.IndexFunc(w.stands, w.stands[i].crosses); k >= 0 {
			tellCrossed(qps, w.stands[i].tid, w.stands[k].tid)
			return
		}
	}
}

// crosses reports whether another thread stands at the same register. Any thread may arm a
// completion queue, which is before the registers.
func (s *stand) crosses(other stand) bool {
	return s.page == other.page && min(s.at, other.at) >= registersAt && s.register() == other.register() && s.tid != other.tid
}

// at returns the queue pairs of a page that the program asked for.
func (r *ringing) at(p *page) []*queuePair {
	return r.qps[slices.IndexFunc(r.words, func(x word) bool { return x.page == p })]
}

// tellCrossed tells of two threads at a register of these queue pairs.
func tellCrossed(list []*queuePair, one, other int) {
	qps := make([]*rxe.QP, len(list))
	for i, q := range list {
		qps[i] = q.send.qp
	}
	if q := list[0]; q.rings != nil {
		first, second := min(one, other), max(one, other)
		q.rings.Crossed(qps, [2]*provider.At{standing(q.send.space, first), standing(q.send.space, second)})
	}
}

// standing reads where a thread stands at its store; nil: it is not known. The thread must be one
// of the process that has the memory.
func standing(space rxe.Memory, tid int) *provider.At {
	of, ok := space.(numbered)
	if !ok {
		return nil
	}
	text, err := procfs.ReadFile(procfs.Path(of.PID(), "task/"+strconv.Itoa(tid)+"/syscall"))
	if err != nil {
		return nil
	}
	stands, ok := procfs.ParseStanding(string(text))
	if !ok || stands.InCall {
		return nil
	}
	at := &provider.At{PID: of.PID(), TID: tid, PC: stands.PC, SP: stands.SP}
	for n := stackBytes; n >= leastStack; n /= 2 { // the stack may end before that
		at.Bytes = make([]byte, n)
		if space.ReadV([]rxe.Span{{VA: at.SP, Buf: at.Bytes}}) == nil {
			return at
		}
	}
	return nil
}

// landed waits until a store that goes on has landed, but not long.
func (p *poller) landed(r *ringing) {
	for range landingTries {
		any := false
		p.c.pages.access(func() {
			for _, w := range r.words {
				any = any || atomic.LoadUint64(w.pointer()) != 0
			}
		})
		if any {
			return
		}
		sched.PauseBriefly(landingPause)
	}
}

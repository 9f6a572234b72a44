package mlx5

import (
	"os"
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// TestStanding: nothing is read of a thread of another process, nor of one that does not wait.
func TestStanding(t *testing.T) {
	if at := standing(new(simnet.Memory), os.Getpid()); at != nil {
		t.Errorf("memory without a process: %+v", at)
	}
	own := &spaceOf{pid: os.Getpid()}
	for _, tid := range []int{1, os.Getpid(), 1 << 30} {
		if at := standing(own, tid); at != nil {
			t.Errorf("thread %d: %+v", tid, at)
		}
	}
}

// spaceOf is the memory of a process that nobody may read here.
type spaceOf struct {
	simnet.Memory
	pid int
}

func (s *spaceOf) PID() int { return s.pid }

// TestStopsFirst: the first store waits, too, even if there is no poller yet.
func TestStopsFirst(t *testing.T) {
	a, _ := guarded(t)
	a.ctx.poller.stop()
	q := a.mem.(*queuePair)
	q.rings = new(rings)
	for range 3 {
		a.ctx.doorbells.publish()
		a.ctx.guard.release()
		a.ctx.cover(ask(a.program, uint64(0)), q.send.space)
		if !a.ctx.guard.armed.Load() {
			t.Fatal("the next store does not wait")
		}
	}
}

// rings notes the threads that rang.
type rings struct {
	rxe.Observer
	list []*provider.At
	over int

	crossed [][]*rxe.QP
}

func (r *rings) Rings(_ *rxe.QP, at *provider.At) { r.list = append(r.list, at) }

func (r *rings) Rang(*rxe.QP) { r.over++ }

func (r *rings) Crossed(qps []*rxe.QP, _ [2]*provider.At) { r.crossed = append(r.crossed, qps) }

// TestStops: if somebody asks who rings, the guard is armed at once, each time. In the end no
// thread stands any more.
func TestStops(t *testing.T) {
	a, b := guarded(t)
	var who rings
	q := a.mem.(*queuePair)
	q.rings = &who
	a.ctx.doorbells.publish()
	for range 3 {
		a.awaitArmed()
		taken := a.sends(b)
		before := taken()
		a.process.store()
		a.process.await()
		if taken() == before {
			t.Fatal("the store has landed, and the request was not taken")
		}
		a.completes()
	}
	a.ctx.poller.stop()
	// a store that has not landed in time waits again
	if len(who.list) < 3 || who.over != len(who.list) {
		t.Errorf("told %v, and %d times that it was taken", who.list, who.over)
	}
}

// TestCrosses: which threads must not stand at the same time. A register has two halves, and a page
// two registers.
func TestCrosses(t *testing.T) {
	here, there := new(page), new(page)
	one := stand{word{here, registersAt}, 1}
	for name, c := range map[string]struct {
		other stand
		want  bool
	}{
		"the same half":    {stand{word{here, registersAt}, 2}, true},
		"behind its begin": {stand{word{here, registersAt + 8}, 2}, true},
		"the other half":   {stand{word{here, registersAt + registerSize/2}, 2}, true},
		"another register": {stand{word{here, registersAt + registerSize}, 2}, false},
		"another page":     {stand{word{there, registersAt}, 2}, false},
		"the same thread":  {stand{word{here, registersAt}, 1}, false},
		"one that arms":    {stand{word{here, armAt}, 2}, false},
	} {
		if got, back := one.crosses(c.other), c.other.crosses(one); got != c.want || back != c.want {
			t.Errorf("%s: %v, and %v", name, got, back)
		}
	}
	if arms := (stand{word{here, armAt}, 1}); arms.crosses(stand{word{here, armAt}, 2}) {
		t.Error("two threads that arm cross")
	}
}

package trap

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// Threads end without a word: what is remembered of them does not grow with all
// that there ever were.
func TestThreadsForgotten(t *testing.T) {
	var procs processes
	procs.init(&Session{})
	p := new(process)
	now := int64(1)
	for tid := range uint32(100 * fewThreads) {
		procs.remember(tid, p, now)
		now += hotLife / fewThreads
	}
	if n := len(procs.threads); n > 3*fewThreads {
		t.Errorf("%d threads are remembered, of which %d can be of use", n, fewThreads)
	}
	if procs.threads[100*fewThreads-1].process != p {
		t.Error("the last one is forgotten")
	}
}

// A process that cannot be watched is not known. Its descriptors are closed once, by the code
// that opened them.
func TestProcessNotWatched(t *testing.T) {
	s := new(Session)
	s.house = &house{s: s, closed: true}
	s.procs.init(s)
	p := &process{tgid: 1, pidfd: -1, space: procmem.New(-1, 1, new(procmem.User)), budget: quota.New(quota.Cost{})}
	if err := s.procs.enter(p, nil); !errors.Is(err, unix.ENODEV) {
		t.Errorf("enter: %v", err)
	}
	if s.procs.any() {
		t.Error("it is known")
	}
}

// What processes and open files cost is taken of the user's budget, and given back.
func TestSessionBudget(t *testing.T) {
	budget := quota.New(quota.Cost{Files: processCost.Files - 1})
	s := &Session{cfg: ServeConfig{Budget: budget}}
	s.procs.init(s)
	if _, err := s.procs.open(&receiver{s: s}, nil, procfs.Status{TGID: os.Getpid()}); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("a process beyond the budget: %v", err)
	}
	small := quota.New(quota.Cost{Memory: objectCost.Memory - 1})
	s.cfg.Budget = small
	if err := s.adopt(new(object), -1); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("an object beyond the budget: %v", err)
	}
	s.cfg.Budget = quota.New(quota.Cost{})
	if err := s.adopt(new(object), -1); !errors.Is(err, unix.EBADF) {
		t.Errorf("an object of no descriptor: %v", err)
	}
	for _, b := range []*quota.Budget{budget, small, s.cfg.Budget} {
		if b.Used() != (quota.Cost{}) {
			t.Errorf("%+v is not given back", b.Used())
		}
	}
}

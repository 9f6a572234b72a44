package trap

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/trap/sealed"
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

// A number that a thread or a process had a moment ago may be another's now.
func TestReusedNumber(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := startProgram(child); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := new(Session)
	s.procs.init(s)
	p := &process{tgid: pid, pidfd: pidfd, space: procmem.New(mem, pid, new(procmem.User)), budget: quota.New(quota.Cost{})}
	s.procs.byTGID[pid] = p
	const now = 1 << 40
	stranger := uint32(os.Getpid()) // it has taken the number of a thread of p
	for _, tid := range []uint32{uint32(pid), stranger} {
		s.procs.remember(tid, p, now)
		if s.procs.ofThread(tid, now+procmem.NumberLife-1) != p {
			t.Errorf("thread %d is forgotten at once", tid)
		}
	}
	later := now + procmem.NumberLife
	if s.procs.ofThread(uint32(pid), later) != p || s.procs.leader(pid) != p {
		t.Error("a process that lives is forgotten")
	}
	if s.procs.ofThread(stranger, later) != nil {
		t.Error("a thread of another process is taken for one of this")
	}
	child.Process.Kill() //nolint:errcheck // Wait says how it ended
	child.Wait()         //nolint:errcheck // killed
	if s.procs.ofThread(uint32(pid), later+1) != p {
		t.Error("the last check served for less than its time")
	}
	if s.procs.ofThread(uint32(pid), later+procmem.NumberLife) != nil {
		t.Error("a process that has ended is taken for the caller's")
	}
	if s.procs.leader(pid) != nil || s.procs.any() {
		t.Error("a process that has ended is known")
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

// Of a file that inotify does not watch, the session keeps a descriptor. The user pays for it.
func TestKeptFile(t *testing.T) {
	budget := quota.New(quota.Cost{Files: keptCost.Files})
	s := &Session{log: slog.New(slog.DiscardHandler), cfg: ServeConfig{Budget: budget, Closes: new(Closes)}}
	s.house = &house{s: s}
	s.objects.init()
	s.procs.init(s)
	file := func() int {
		t.Helper()
		fd, err := sealed.ReadOnly("gorxe-test", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	kept := new(object)
	if err := s.adopt(kept, file()); err != nil {
		t.Fatal(err)
	}
	if kept.watch != unwatched || budget.Used().Files != keptCost.Files {
		t.Errorf("%d descriptors are charged, want %d", budget.Used().Files, keptCost.Files)
	}
	if err := s.adopt(new(object), file()); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("a second file beyond the budget: %v", err)
	}
	s.closeObject(kept)
	if used := budget.Used(); used != (quota.Cost{}) {
		t.Errorf("%+v is not given back", used)
	}
	if _, err := unix.FcntlInt(uintptr(kept.kept), unix.F_GETFD, 0); err == nil {
		t.Error("the descriptor is still open")
	}
}

// TestAwaitEnds: a session whose listener hangs up waits for processes that are about to end, and
// not for ever for one that lives.
func TestAwaitEnds(t *testing.T) {
	var procs processes
	in, program := runningCat(t)
	procs.byTGID = map[int]*process{program.tgid: program}
	procs.awaitEnds(time.Millisecond)
	if program.gone() {
		t.Fatal("the program has ended")
	}
	done := make(chan bool)
	go func() {
		procs.awaitEnds(time.Hour)
		done <- program.gone()
	}()
	must.OK(t, in.Close())
	if !<-done {
		t.Error("the program still runs")
	}
}

// runningCat returns a program that runs until in is closed.
func runningCat(t *testing.T) (in io.Closer, p *process) {
	cmd := exec.Command("cat")
	in = must.Get[io.WriteCloser](t)(cmd.StdinPipe())
	must.OK(t, cmd.Start())
	pidfd := must.Get[int](t)(unix.PidfdOpen(cmd.Process.Pid, 0))
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() //nolint:errcheck // it has ended
		unix.Close(pidfd)
	})
	return in, &process{tgid: cmd.Process.Pid, pidfd: pidfd}
}

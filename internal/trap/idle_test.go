package trap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/threads"
	"golang.org/x/sys/unix"
)

// manyListeners has args[0] threads, each under a filter of its own. It passes their listeners on.
// For each line that it reads, all threads look for the device at once, and then it prints a line.
func manyListeners(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fds, err := filter.Own()
	if err != nil {
		return err
	}
	const listeners = 3
	fmt.Println(fds.Base, fds.Count, fds.Top)
	next := make(chan struct{}, n)
	errs := make(chan error, n)
	for range n {
		go func() {
			runtime.LockOSThread() // for good: the filter stays
			in, err := filter.Install(fds, doorbellSize)
			if err == nil {
				err = unix.Sendmsg(listeners, []byte{0}, unix.UnixRights(in.Listener), nil, 0)
				unix.Close(in.Listener)
			}
			errs <- err
			for range next {
				errs <- unix.Access(device, unix.F_OK)
			}
		}()
	}
	wait := func() (err error) {
		for range n {
			err = errors.Join(err, <-errs)
		}
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		for range n {
			next <- struct{}{}
		}
		if err := wait(); err != nil {
			return err
		}
		fmt.Println("done")
	}
	return in.Err() // the program ends with all its threads
}

// tasks counts the threads of this process.
func tasks(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestIdleSessions: a thousand sessions that have nothing to do cost a few threads, and take none
// of the user's share. Each answers when its program calls, although the user has fewer threads
// than sessions, and its thread is given back.
func TestIdleSessions(t *testing.T) {
	const sessions, few = 1000, 50
	budget := quota.New(quota.Cost{Threads: few})
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	before := tasks(t)
	ours, theirs := socketpair(t)
	defer ours.Close()
	cmd := exec.Command(exe, strconv.Itoa(sessions))
	cmd.Env = append(os.Environ(), roleEnv+"=listeners")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startProgram(cmd); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it has ended, unless the test failed
	p := &underTrap{t: t, cmd: cmd}
	var shared threads.Shared
	var closes Closes
	cfg := ServeConfig{Host: newFakes(t), DoorbellSize: doorbellSize, Threads: &shared, Closes: &closes, Budget: budget, Log: slog.New(slog.DiscardHandler)}
	if _, err := fmt.Fscanln(out, &cfg.FDs.Base, &cfg.FDs.Count, &cfg.FDs.Top); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	for range sessions {
		listener := p.receiveFile(ours)
		s, err := NewSession(listener, cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.receivers.callLimit, s.receivers.idleLooks = 100*time.Millisecond, 2
		serving.Go(func() {
			if err := s.Serve(context.Background()); err != nil {
				t.Errorf("Serve: %v", err)
			}
			listener.Close()
		})
	}
	idle := func() {
		t.Helper()
		must.Eventually(t, "all sessions are idle", func() bool { return shared.Pool.Busy() == 0 })
		if n := budget.Used().Threads; n < 0 || n > few {
			t.Errorf("%d threads are taken of %d", n, few)
		}
		must.Eventually(t, "their threads are given back", func() bool { return budget.Used().Threads == 0 })
		must.Eventually(t, "their threads have ended", func() bool { return tasks(t) <= before+few })
	}
	idle()
	t.Logf("%d sessions have %d threads, and there were %d before", sessions, tasks(t), before)
	if _, err := io.WriteString(in, "call\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	idle()
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
	serving.Wait()
	quotatest.WantGiven(t, budget)
}

// ringWhenTold rings a direct doorbell for each byte that it reads.
func ringWhenTold([]string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	// after which a pipe may replace the file
	if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
		return err
	}
	var b [1]byte
	for {
		if _, err := os.Stdin.Read(b[:]); err != nil {
			return nil
		}
		if _, err := unix.Write(fd, make([]byte, doorbellSize)); err != nil {
			return err
		}
	}
}

// rungFile is a device that counts the direct doorbells of all that were opened.
type rungFile struct {
	*fakeFile
	rung  *atomic.Int32
	pipes bool
}

func (f rungFile) Mappings() (told uint64, pipe bool) { return 0, f.pipes }

func (f rungFile) TakeDoorbells(bool) kernel.Doorbells { f.rung.Add(1); return kernel.Doorbells{} }

// tellToRing starts a program that rings a direct doorbell for each byte that is written to
// tell. rung counts what was taken.
func tellToRing(t *testing.T, o options) (p *underTrap, tell *os.File, rung *atomic.Int32) {
	t.Helper()
	h := newFakes(t)
	open := h.open
	rung = new(atomic.Int32)
	h.open = func(name string, who Credentials) (File, error) {
		f, err := open(name, who)
		if err != nil {
			return nil, err
		}
		return rungFile{f.(*fakeFile), rung, o.pipes}, nil
	}
	in, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		tell.Close()
	})
	o.program, o.host, o.doorbells, o.stdin = "ring-when-told", h, doorbell.Direct, in
	p = start(t, o)
	t.Cleanup(func() { h.allClosed(t) }) // after the program has ended
	h.opened1(t)
	return p, tell, rung
}

// ringNow makes the program ring, and waits until the doorbell is taken.
func ringNow(t *testing.T, tell *os.File, rung *atomic.Int32) {
	t.Helper()
	before := rung.Load()
	if _, err := tell.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	must.Eventually(t, "the doorbell is taken", func() bool { return rung.Load() > before })
}

// TestIdleDoorbells: a session with a direct doorbell has no thread while that is not rung. A
// doorbell is taken whether there is a thread or not, also if it goes to a pipe.
func TestIdleDoorbells(t *testing.T) {
	for _, pipes := range []bool{false, true} {
		p, tell, rung := tellToRing(t, options{restless: true, pipes: pipes})
		for range 3 {
			must.Eventually(t, "the session is idle", func() bool { return p.session.cfg.Threads.Pool.Busy() == 0 })
			ringNow(t, tell, rung)
		}
		for range 100 {
			ringNow(t, tell, rung)
		}
		if g := p.session.direct.all()[0]; (g.pipe.Load() != nil) != pipes {
			t.Errorf("a pipe replaces the file: %t", !pipes)
		}
		tell.Close()
		p.wait()
	}
}

// TestOneWakeUp: while a thread takes direct doorbells, they wake no other thread.
func TestOneWakeUp(t *testing.T) {
	p, tell, rung := tellToRing(t, options{patient: true})
	for range 3 {
		ringNow(t, tell, rung)
		if !p.session.direct.all()[0].inotify.Suspended() {
			t.Error("the poller of all sessions waits for doorbells, too")
		}
	}
	tell.Close()
	p.wait()
}

// TestRestless: receivers that are sent away all the time lose no call.
func TestRestless(t *testing.T) {
	for _, program := range []struct {
		name  string
		args  []string
		rings int32
	}{
		{"threads", nil, 400},
		{"signals", []string{"1000"}, 1000},
		{"forks", nil, 3},
	} {
		t.Run(program.name, func(t *testing.T) {
			h := newFakes(t)
			run(t, options{program: program.name, host: h, restless: true}, program.args...)
			h.allClosed(t)
			if got := h.rings.Load(); got != program.rings {
				t.Errorf("%d calls were answered of %d", got, program.rings)
			}
		})
	}
}

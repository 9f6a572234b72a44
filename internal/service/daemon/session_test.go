package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/internal/trap/filter"
)

// A session is what the client says it is, is visible as long as it lasts, and
// takes with it what its programs had open.
func TestSession(t *testing.T) {
	end := make(chan struct{})
	serve := func(ctx context.Context, l *os.File, cfg trap.ServeConfig) error {
		if cfg.FDs != (filter.Range{Base: 900, Count: 100}) {
			t.Errorf("range %+v", cfg.FDs)
		}
		if _, err := cfg.Host.Open(&tree.Node{DeviceName: "rxe1"}, trap.Credentials{}); err != unix.ENODEV {
			t.Errorf("a device that there is not: %v", err)
		}
		f, err := cfg.Host.Open(&tree.Node{DeviceName: "rxe0"}, trap.Credentials{PID: os.Getpid()})
		if err != nil {
			return err
		}
		<-end
		f.Close()
		return nil
	}
	s := startTest(t, Config{}, serve)
	c := s.attached(t)
	var st *proto.Status
	must.Eventually(t, "a process with a device", func() bool {
		var err error
		if st, err = s.dial(t).Status(); err != nil {
			t.Fatal(err)
		}
		return len(st.Sessions) == 1 && len(st.Sessions[0].Processes) == 1
	})
	n := st.Sessions[0]
	if n.UID != uint32(os.Getuid()) || n.Keeper != os.Getpid() || !slices.Equal(n.Command, []string{"program", "argument"}) {
		t.Errorf("session %+v", n)
	}
	if p := n.Processes[0]; p.PID != os.Getpid() || p.Name == "" || len(p.Files) != 1 || p.Files[0].Device != "rxe0" {
		t.Errorf("process %+v", p)
	}
	if d := st.Devices[0]; d.Name != "rxe0" || len(d.Ports) != 1 || len(d.Ports[0].GIDs) == 0 || d.Ports[0].State != "PORT_ACTIVE" {
		t.Errorf("device %+v", d)
	}
	close(end)
	// The daemon hangs up when it is done.
	if err := c.Questions(nil, nil); err != nil {
		t.Error(err)
	}
	must.Eventually(t, "no session", func() bool { st, _ = s.dial(t).Status(); return len(st.Sessions) == 0 })
}

// testRights are what a test's keeper has.
type testRights struct{}

func (testRights) OpenMem(int) (*os.File, error) { return os.Open("/proc/self/mem") }
func (testRights) Stat(_ int, fd int32) (fdid.ID, error) {
	if fd != 7 {
		return fdid.ID{}, fmt.Errorf("no such descriptor: %w", unix.ENOENT)
	}
	return fdid.ID{Dev: 1, Ino: 2}, nil
}

// A daemon asks the keeper, and goes on without it.
func TestQuestions(t *testing.T) {
	asked, end := make(chan error, 1), make(chan struct{})
	pidfd := newPidfd(t)
	serve := func(ctx context.Context, l *os.File, cfg trap.ServeConfig) error {
		k := cfg.Keeper.(trap.StatKeeper)
		asked <- func() error {
			fd, err := k.OpenMem(pidfd)
			if err != nil {
				return err
			}
			unix.Close(fd)
			if id, err := k.Stat(pidfd, 7); err != nil || id != (fdid.ID{Dev: 1, Ino: 2}) {
				return fmt.Errorf("stat: %+v, %w", id, err)
			}
			if _, err := k.Stat(pidfd, 8); err != unix.ENOENT {
				return fmt.Errorf("stat of nothing: %w", err)
			}
			return nil
		}()
		<-end
		if _, err := k.OpenMem(pidfd); err != unix.EPERM {
			asked <- fmt.Errorf("without a keeper: %w", err)
		}
		asked <- nil
		return nil
	}
	s := startTest(t, Config{}, serve)
	c := s.attached(t)
	answered := make(chan error, 1)
	go func() { answered <- c.Questions(testRights{}, nil) }()
	if err := <-asked; err != nil {
		t.Error(err)
	}
	c.Close()
	<-answered
	close(end)
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// A keeper that says nothing, or nonsense, is no keeper.
func TestBadAnswers(t *testing.T) {
	result := make(chan error, 1)
	pidfd := newPidfd(t)
	s := startTest(t, Config{}, func(ctx context.Context, l *os.File, cfg trap.ServeConfig) error {
		_, err := cfg.Keeper.OpenMem(pidfd)
		result <- err
		return nil
	})
	notMemory, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer notMemory.Close()
	for _, answer := range []struct {
		proto.Request
		fds []int
	}{
		{proto.Request{Op: proto.OpAnswer, ID: 1}, nil}, // without the descriptor
		{proto.Request{Op: proto.OpAnswer, ID: 1}, []int{int(notMemory.Fd())}},
		{proto.Request{Op: proto.OpAnswer, ID: 1, Errno: 13}, nil},      // EACCES
		{proto.Request{Op: proto.OpAnswer, ID: 1, Dev: 1, Ino: 2}, nil}, // to another question
	} {
		c := s.attached(t)
		var r proto.Reply
		fds, err := c.Conn.Recv(&r)
		proto.CloseAll(fds)
		if err != nil || r.Question != 1 || r.Ask != proto.AskMem || len(fds) != 1 {
			t.Fatalf("%+v, %d descriptors, %v", r, len(fds), err)
		}
		// to no question
		if err := c.Conn.Send(proto.Request{Op: proto.OpAnswer, ID: 99}); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn.Send(answer.Request, answer.fds...); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != unix.EPERM && err != unix.EACCES {
			t.Errorf("%+v: %v", answer, err)
		}
	}
}

// What a client sends cannot harm others.
func TestHostileClients(t *testing.T) {
	s := startTest(t, Config{}, func(ctx context.Context, l *os.File, _ trap.ServeConfig) error {
		<-ctx.Done()
		return ctx.Err()
	})
	for _, text := range []string{
		"x", "{}", "[]", `{"version":2}`, `{"version":1,"op":"hello"}`, `{"version":2,"op":"attach"}`,
		`{"version":2,"op":"answer","id":1}`, `{"version":2,"op":"hello","command":7}`, strings.Repeat("x", proto.MaxMessage+1),
	} {
		c := s.dial(t)
		if _, err := c.Conn.Sock.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var r proto.Reply
		if _, err := c.Conn.Recv(&r); err == nil && r.Error == "" {
			t.Errorf("%.40q is answered with %+v", text, r)
		}
		c.Close()
	}
	// Twice, without a listener, with too many descriptors, after a hello.
	c := s.attached(t)
	if err := attach(c, proto.Attachment{Listener: os.Stdin}); err == nil {
		t.Error("a second listener is taken")
	}
	c = s.dial(t)
	if _, err := c.Hello(nil, proto.Wanted{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Call(proto.Request{Op: proto.OpAttach}); err == nil {
		t.Error("an attach without a listener is taken")
	}
	if err := c.Conn.Send(proto.Request{Op: proto.OpAttach}, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.dial(t).Status(); err != nil {
		t.Error(err)
	}
}

// A client that says nothing is let go, and takes nothing of its user's share any more.
func TestSilentClient(t *testing.T) {
	if helloTimeout > 10*time.Second {
		t.Errorf("a client may be silent for %v", helloTimeout)
	}
	s := startTest(t, Config{helloTimeout: time.Millisecond}, nil)
	before := s.used()
	for range 10 {
		c := s.dial(t)
		var r proto.Reply
		if _, err := c.Conn.RecvWithin(&r, testTimeout); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("a silent client gets %+v, %v", r, err)
		}
	}
	must.Eventually(t, "their descriptors are given back", func() bool { return s.used() == before })
}

// Nobody takes all the sessions.
func TestLimits(t *testing.T) {
	s := startTest(t, Config{}, nil)
	for range tenant.MaxSessions {
		if _, err := s.dial(t).Hello(nil, proto.Wanted{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.dial(t).Hello(nil, proto.Wanted{}); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("one more: %v", err)
	}
}

// A private daemon has one user, and that user may take all of its descriptors. Elsewhere a user
// has a quarter.
func TestPrivateShare(t *testing.T) {
	for _, private := range []bool{true, false} {
		s := startTest(t, Config{Private: private}, nil)
		budget, half := s.tenants.Of(7).Budget, quota.Cost{Files: tenant.OpenLimit() / 2}
		if err := budget.Take(half); (err == nil) != private {
			t.Errorf("private: %v, half of the descriptors: %v", private, err)
		} else if err == nil {
			budget.Give(half)
		}
	}
}

// A private daemon ends with its last session, and not before its first.
func TestPrivate(t *testing.T) {
	s := startTest(t, Config{Private: true}, nil)
	one, two := s.dial(t), s.dial(t)
	for _, c := range []*proto.Client{one, two} {
		if _, err := c.Hello(nil, proto.Wanted{}); err != nil {
			t.Fatal(err)
		}
	}
	one.Close()
	if hello, err := s.dial(t).Hello(nil, proto.Wanted{}); err != nil || !hello.Private {
		t.Fatalf("%+v, %v", hello, err)
	}
	two.Close()
	must.Eventually(t, "the sessions' end", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.sessions) <= 1 })
	s.mu.Lock()
	for n := range s.sessions {
		n.conn.Close()
	}
	s.mu.Unlock()
	must.Eventually(t, "the daemon's end", func() bool {
		c, err := proto.Dial([]string{s.cfg.Socket})
		if err == nil {
			c.Close()
		}
		return errors.Is(err, proto.ErrNoDaemon)
	})
}

// A daemon that does not suit is given up if nobody needs it.
func TestWanted(t *testing.T) {
	dev := testSpec("rxe0")
	s := startTest(t, Config{Private: true, Devices: []proto.Spec{dev}}, nil)
	one := s.dial(t)
	if _, err := one.Hello([]string{"older"}, proto.Wanted{Devices: []proto.Spec{dev}}); err != nil {
		t.Fatal(err)
	}
	other := proto.Wanted{Devices: []proto.Spec{testSpec("rxe0")}}
	if _, err := s.dial(t).Hello(nil, other); err == nil || errors.Is(err, proto.ErrEnding) || !strings.Contains(err.Error(), dev.String()) {
		t.Errorf("another device: %v", err)
	}
	_, err := s.dial(t).Hello(nil, proto.Wanted{Capture: "/tmp/x"})
	if err == nil || !strings.Contains(err.Error(), "--pcap") || !strings.Contains(err.Error(), fmt.Sprintf("--private or --socket. Programs that use it: older[%d]", os.Getpid())) {
		t.Errorf("a capture: %v", err)
	}
	one.Close()
	must.Eventually(t, "way given", func() bool {
		c, err := proto.Dial([]string{s.cfg.Socket})
		if err != nil {
			return errors.Is(err, proto.ErrNoDaemon)
		}
		defer c.Close()
		_, err = c.Hello(nil, other)
		return errors.Is(err, proto.ErrEnding)
	})
}

// Sessions end with the daemon, and its keepers hear of it. A program loses its devices before its
// session ends. A file that is closed without that takes the memory of its queues along. The
// completions that tell the program are in it.
func TestShutdown(t *testing.T) {
	opened := make(chan struct{})
	s := startTest(t, Config{}, func(ctx context.Context, _ *os.File, cfg trap.ServeConfig) error {
		f, err := cfg.Host.Open(rxe0, trap.Credentials{PID: os.Getpid()})
		close(opened)
		if err != nil {
			t.Error(err)
			return err
		}
		defer f.Close()
		<-ctx.Done()
		if !f.(*file).Gone() {
			t.Error("the session ends while its program has the device")
		}
		return ctx.Err()
	})
	c := s.attached(t)
	<-opened
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := c.Questions(nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.cfg.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A program whose memory neither side can open is not started.
func TestNoAccess(t *testing.T) {
	s := startTest(t, Config{}, func(context.Context, *os.File, trap.ServeConfig) error { return nil })
	for _, tt := range []struct {
		program int
		ok      bool
	}{
		{os.Getpid(), true}, // the daemon can
		{1 << 30, false},    // there is none
	} {
		c := s.dial(t)
		if _, err := c.Hello(nil, proto.Wanted{}); err != nil {
			t.Fatal(err)
		}
		err := attach(c, proto.Attachment{Listener: os.Stdin, Program: tt.program, NoAccess: errors.New("scope 2")})
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "scope 2") {
			t.Errorf("process %d: %v", tt.program, err)
		}
	}
}

// A listener that fails ends one session only.
func TestServeFails(t *testing.T) {
	s := startTest(t, Config{}, func(context.Context, *os.File, trap.ServeConfig) error { return errServe })
	if err := s.attached(t).Questions(nil, nil); err != nil {
		t.Error(err)
	}
	// A descriptor that is not a listener: the keeper learns it before the program starts.
	c := startTest(t, Config{}, nil).dial(t)
	if _, err := c.Hello(nil, proto.Wanted{}); err != nil {
		t.Fatal(err)
	}
	err := attach(c, proto.Attachment{Listener: os.Stdin, FDs: filter.Range{Base: 900, Count: 100}})
	if err == nil || !strings.Contains(err.Error(), "cannot attach the program") {
		t.Errorf("attach: %v", err)
	}
	if err := c.Questions(nil, nil); err != nil {
		t.Error(err)
	}
}

// The user is told of an old librxe once for each process, the log as well, and
// the daemon forgets processes that have ended.
func TestOldLibrxe(t *testing.T) {
	var out sink
	const processes = 3
	s := startTest(t, Config{Log: out.logger(slog.LevelWarn)}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
		for i := range 2 * processes {
			f, err := cfg.Host.Open(&tree.Node{DeviceName: "rxe0"}, trap.Credentials{PID: os.Getpid() + i/2})
			if err != nil {
				return err
			}
			for range 3 {
				f.(*file).warn()
			}
			f.Close()
		}
		n := cfg.Host.(*session)
		for pid := range 2 * maxWarned {
			n.firstOf(-pid)
		}
		if len(n.warned) > maxWarned {
			t.Errorf("%d processes are remembered", len(n.warned))
		}
		return nil
	})
	var said []string
	if err := s.attached(t).Questions(nil, func(text string) { said = append(said, text) }); err != nil {
		t.Error(err)
	}
	if len(said) != processes || !strings.Contains(said[0], fmt.Sprintf("process %d (", os.Getpid())) {
		t.Errorf("said %q, want one sentence for each of %d processes", said, processes)
	}
	if n := len(out.lines("librxe is too old")); n != processes {
		t.Errorf("%d lines in the log, want %d", n, processes)
	}
}

package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/service/daemon"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"golang.org/x/sys/unix"
)

// The test binary is also the command that it tests: with these first arguments
// it is the front, a stage, the daemon, or a program to run.
func TestMain(m *testing.M) {
	Stage(os.Args)
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run":
			mainRun(os.Args[2:])
		case "daemon":
			mainDaemon(os.Args[2:])
		case "signals":
			mainSignals()
		case "forbid":
			mainForbid(os.Args[2:])
		}
	}
	// Processes that lose their parent become this one's: none may be left.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := orphans(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// orphans waits for the end of all that the tests started.
func orphans() error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return nil
		case time.Since(start) > testTimeout:
			left, _ := exec.Command("ps", "-o", "pid,args", "--ppid", strconv.Itoa(os.Getpid())).Output()
			return fmt.Errorf("processes are left:\n%s", left)
		}
	}
}

// mainRun is `gorxe run ADDRESS PROGRAM…`.
func mainRun(args []string) {
	device := "rxe0=" + args[0]
	outcome, err := Run(Config{Devices: []string{device}, DeviceFlags: []string{"--device", device}, Program: args[1:]})
	if err == nil {
		outcome.Exit()
	}
	complain("%v", err)
	var exit *ExitError
	errors.As(err, &exit)
	os.Exit(exit.Code)
}

// mainDaemon is `gorxe daemon`, as startPrivate calls it.
func mainDaemon(args []string) {
	cfg := daemon.Config{SocketMode: 0o600}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--private":
			cfg.Private = true
		case "--socket":
			i++
			cfg.Socket = args[i]
		case "--device":
			i++
			spec, err := proto.ParseSpec(args[i])
			if err != nil {
				panic(err)
			}
			cfg.Devices = append(cfg.Devices, spec)
		}
	}
	server, err := daemon.Start(cfg)
	if ready, rerr := proto.NewReady(); rerr == nil {
		ready.Say(err)
		if err == nil {
			go func() {
				ready.AwaitEnd()
				server.EndUnasked()
			}()
		}
	}
	if err != nil {
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := server.Run(ctx); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// mainSignals prints the signals that it gets, until its standard input ends.
func mainSignals() {
	c := make(chan os.Signal, 64)
	signal.Notify(c)
	signal.Ignore(unix.SIGURG) // the runtime's own
	done := make(chan bool)
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that matters
		close(done)
	}()
	fmt.Println("ready", os.Getpid())
	for {
		select {
		case s := <-c:
			fmt.Println(int(s.(unix.Signal)))
		case <-done:
			os.Exit(0)
		}
	}
}

// testTimeout only ends a test that would otherwise hang.
const testTimeout = must.Limit

// lastAddr makes every test's device its own, in 127.79.0.0/16.
var lastAddr atomic.Uint32

func testAddr() string {
	// Several test binaries may run at once.
	n := uint16(os.Getpid())<<6 | uint16(lastAddr.Add(1))&(1<<6-1)
	return netip.AddrFrom4([4]byte{127, 79, byte(n >> 8), byte(n)}).String()
}

// stage is a place for runs: a socket of its own, and a device address.
type stage struct {
	t      *testing.T
	socket string
	addr   string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, socket: filepath.Join(t.TempDir(), "s"), addr: testAddr()}
	t.Cleanup(s.waitForEnd)
	return s
}

// env is the environment of a run.
func (s *stage) env() []string {
	return append(os.Environ(), proto.EnvSocket+"="+s.socket)
}

// run is `gorxe run`.
func (s *stage) run(program ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"run", s.addr}, program...)...)
	cmd.Env = s.env()
	return cmd
}

// dial connects to the daemon; nil if there is none.
func (s *stage) dial() *proto.Client {
	c, err := proto.Dial([]string{s.socket})
	if errors.Is(err, proto.ErrNoDaemon) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// status is the daemon's; nil if there is none.
func (s *stage) status() *proto.Status {
	c := s.dial()
	if c == nil {
		return nil
	}
	defer c.Close()
	st, err := c.Status()
	if errors.Is(err, proto.ErrEnding) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// waitForEnd waits until the private daemon has ended.
func (s *stage) waitForEnd() {
	s.t.Helper()
	must.Eventually(s.t, "the private daemon ends", func() bool { return s.dial() == nil })
}

// lines reads a program's output line by line.
type lines struct {
	t *testing.T
	r *bufio.Reader
}

func (l *lines) next() string {
	l.t.Helper()
	line, err := l.r.ReadString('\n')
	if err != nil {
		l.t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// start starts cmd with pipes, and returns its output and its input.
func start(t *testing.T, cmd *exec.Cmd) (*lines, io.WriteCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &lines{t, bufio.NewReader(out)}, in
}

// waitStatus is how a process ended.
func waitStatus(t *testing.T, cmd *exec.Cmd) unix.WaitStatus {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// children are the processes whose parent is pid.
func children(t *testing.T, pid int) (list []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, child)
		}
	}
	return list
}

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/netns"
)

// proc is a program that runs. Whatever happens, it and its descendants are gone
// when the test ends.
type proc struct {
	t    *testing.T
	cmd  *exec.Cmd
	name string
	out  output
	done chan struct{}
}

// output collects what a program writes, to both its streams.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a program on a host.
func start(t *testing.T, h *host, env []string, argv ...string) *proc {
	t.Helper()
	p := &proc{t: t, name: strings.Join(argv, " "), done: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	// Not the whole group of the test: a program's own children keep the pipe
	// open after it, and a test that waits for them would not see it end.
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: h.cred}
	if err := h.start(p.cmd); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // ProcessState says it
		close(p.done)
	}()
	t.Cleanup(func() {
		state := "still ran"
		if p.ended() {
			state = p.cmd.ProcessState.String()
		} else {
			p.killTree()
		}
		text := p.out.String()
		switch {
		case crashed(text):
			t.Errorf("%s:\n%s", p.name, text)
		case t.Failed() && state != "exit status 0":
			t.Logf("%s: %s\n%s", p.name, state, tail(text))
		}
	})
	return p
}

// crashed reports whether a Go program wrote that it has a data race, or has failed.
func crashed(text string) bool {
	for _, mark := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: "} {
		if strings.Contains("\n"+text, mark) {
			return true
		}
	}
	return false
}

// tail returns the end of a long output.
func tail(out string) string { return out[max(0, len(out)-4000):] }

// cleanEnv is the environment without what would change how programs behave.
func cleanEnv() []string {
	env := []string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=dumb", "GOTRACEBACK=all"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GORACE"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait returns the exit status, or minus the signal that ended the program. One
// that does not end fails the test, with all that can be known of it.
func (p *proc) wait() int {
	p.t.Helper()
	if err := p.waitFor(programLimit); err != nil {
		p.t.Fatal(err)
	}
	return status(p.cmd.ProcessState)
}

var errHangs = errors.New("does not end")

func (p *proc) waitFor(limit time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s: %w within %v\n%s", p.name, errHangs, limit, p.describe())
	}
}

func status(s *os.ProcessState) int {
	if ws := s.Sys().(syscall.WaitStatus); ws.Signaled() {
		return -int(ws.Signal())
	}
	return s.ExitCode()
}

// ok waits for the program, wants it to have succeeded, and returns its output.
func (p *proc) ok() string {
	p.t.Helper()
	if code := p.wait(); code != 0 {
		p.t.Fatalf("%s: exit status %d\n%s", p.name, code, p.out.String())
	}
	return p.out.String()
}

// until waits for a condition of something that runs at the same time. It looks
// often and gives up late, so its pace decides nothing.
func until(limit time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		if cond() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// listening waits until something in the program's network namespace listens on
// the TCP port: the programs say nothing when they are ready.
func (p *proc) listening(port int) {
	p.t.Helper()
	ready := until(programLimit, func() bool { return p.ended() || netns.Listens(p.cmd.Process.Pid, port) })
	if !ready || p.ended() {
		p.t.Fatalf("%s: does not listen on port %d\n%s", p.name, port, p.describe())
	}
}

package daemon

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// echo is a program that says what it hears.
type echo struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startEcho starts an echo as a user.
func startEcho(t *testing.T, uid int) *echo {
	t.Helper()
	e := &echo{Cmd: exec.Command("cat")}
	if uid != os.Geteuid() {
		e.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	in, err := e.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = e.Wait() // it was killed, or waited for
	})
	e.in, e.out = in, bufio.NewReader(out)
	return e
}

// alive reports whether it answers.
func (e *echo) alive() bool {
	if _, err := io.WriteString(e.in, "hello\n"); err != nil {
		return false
	}
	said, err := e.out.ReadString('\n')
	return err == nil && said == "hello\n"
}

// TestVictim: a process is killed, and not another one that has its number.
func TestVictim(t *testing.T) {
	e := startEcho(t, os.Geteuid())
	pid := e.Process.Pid
	v := newVictim(pid)
	victim{pid, newVictim(os.Getpid()).started}.kill()
	victim{pid, ""}.kill()
	if !e.alive() {
		t.Fatal("the process that has the number of another was killed")
	}
	v.kill()
	v.kill()
	var exit *exec.ExitError
	if err := e.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
	v.kill()
	newVictim(0).kill()
	newVictim(pid).kill()
}

// TestMayNotKill: a rule that kills is refused if the daemon may not send signals to the user's
// programs: also to root without CAP_KILL.
func TestMayNotKill(t *testing.T) {
	rule, err := fault.Parse("peer killed")
	if err != nil {
		t.Fatal(err)
	}
	rules := []fault.Rule{rule}
	if err := checkKills(rules, startEcho(t, os.Geteuid()).Process.Pid); err != nil {
		t.Errorf("a program of the daemon's user: %v", err)
	}
	if os.Geteuid() != 0 {
		testenv.Missing(t, "a program of another user: run this test as root")
	}
	other := startEcho(t, nobody).Process.Pid
	if err := checkKills(rules, other); err != nil {
		t.Errorf("a program of another user: %v", err)
	}
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			refused <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_KILL
		if err := unix.Capset(&header, &data[0]); err != nil {
			refused <- err
			return
		}
		refused <- checkKills(rules, other)
	}()
	if err := <-refused; !errors.Is(err, errMayNotKill) {
		t.Errorf("without CAP_KILL: %v", err)
	}
}

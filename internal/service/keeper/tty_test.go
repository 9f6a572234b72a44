package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal; its user's side.
type terminal struct {
	t *testing.T
	*os.File
	r    *bufio.Reader
	text strings.Builder // what was shown
}

// newTerminal starts cmd as the leader of a session on a new terminal that echoes
// nothing.
func newTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unlock(master)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(testTimeout, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	t.Cleanup(func() { timeout.Stop() })
	// A character device, but one that the runtime can poll.
	if err := master.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return &terminal{t: t, File: master, r: bufio.NewReader(master)}
}

// unlock makes the slave of a pseudoterminal openable and returns its number. Not
// through Fd, which makes a file blocking.
func unlock(master *os.File) (n int, err error) {
	raw, err := master.SyscallConn()
	if err != nil {
		return 0, err
	}
	var ioErr error
	err = raw.Control(func(fd uintptr) {
		if ioErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioErr == nil {
			n, ioErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	return n, errors.Join(err, ioErr)
}

// keys types text.
func (tty *terminal) keys(text string) {
	tty.t.Helper()
	if _, err := tty.WriteString(text); err != nil {
		tty.t.Fatal(err)
	}
}

// expect reads until a line has text in it.
func (tty *terminal) expect(text string) {
	tty.t.Helper()
	for {
		line, err := tty.r.ReadString('\n')
		tty.text.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			tty.t.Fatalf("no %q on the terminal (%v); it shows\n%s", text, err, &tty.text)
		}
	}
}

const (
	ctrlC         = "\x03"
	ctrlD         = "\x04"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// Keys on the terminal send signals to the program, once.
func TestTerminalSignals(t *testing.T) {
	s := newStage(t)
	cmd := s.run(os.Args[0], "signals")
	tty := newTerminal(t, cmd)
	tty.expect("ready")
	keys := []struct{ key, sig string }{{ctrlC, "2"}, {ctrlBackslash, "3"}, {ctrlZ, "20"}}
	for range 2 {
		// Never the same one twice in a row: such signals may become one.
		for _, k := range keys {
			tty.keys(k.key)
			// The next line: the key before must not have been heard twice.
			line, err := tty.r.ReadString('\n')
			if got := strings.TrimSpace(line); err != nil || got != k.sig {
				t.Fatalf("%q sent %s (%v), want %s", k.key, got, err, k.sig)
			}
		}
	}
	tty.keys(ctrlD)
	if ws := waitStatus(t, cmd); !ws.Exited() || ws.ExitStatus() != 0 {
		t.Errorf("status %#x", ws)
	}
}

// A shell stops, continues and interrupts a run as it does the program alone.
func TestJobControl(t *testing.T) {
	s := newStage(t)
	shell := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	run := s.run("cat")
	shell.Env = append(s.env(), "PS1=prompt\n", "TERM=dumb")
	tty := newTerminal(t, shell)
	job := os.Args[0] + " " + strings.Join(run.Args[1:], " ")

	tty.keys(job + "\n")
	tty.keys("one\n")
	tty.expect("one")
	tty.keys(ctrlZ)
	tty.expect("Stopped")
	tty.keys("echo status=$?\n")
	tty.expect("status=148") // 128+SIGTSTP
	tty.keys("jobs\n")
	tty.expect("Stopped")
	tty.keys("fg\n")
	tty.keys("two\n")
	tty.expect("two")
	tty.keys(ctrlZ)
	tty.expect("Stopped")
	tty.keys("kill -INT %1; fg\n") // pending until it goes on
	tty.keys("echo status=$?\n")
	tty.expect("status=130")
	tty.keys(job + "\n")
	tty.keys("three\n")
	tty.expect("three")
	tty.keys(ctrlC)
	tty.expect("prompt") // what is typed before, the shell throws away
	tty.keys("echo status=$?\n")
	tty.expect("status=130")
	// Its input is the terminal, in the background too: it stops when it reads.
	tty.keys(job + " &\n")
	tty.keys("wait; jobs\n")
	tty.expect("Stopped")
	tty.keys("kill -9 %%; wait; echo status=$?\n")
	tty.expect("status=")
	tty.keys("exit\nexit\n") // the second for a shell that warns of stopped jobs
	waitStatus(t, shell)
}

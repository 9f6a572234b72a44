package keeper

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// A run ends as its program ends.
func TestOutcome(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name    string
		program []string
		code    int
		signal  unix.Signal // if not 0
		stderr  string
	}{
		{"success", []string{"true"}, 0, 0, ""},
		{"exit 3", []string{"sh", "-c", "exit 3"}, 3, 0, ""},
		{"exit 255", []string{"sh", "-c", "exit 255"}, 255, 0, ""},
		{"SIGTERM", []string{"sh", "-c", "kill -TERM $$"}, 0, unix.SIGTERM, ""},
		{"SIGINT", []string{"sh", "-c", "kill -INT $$"}, 0, unix.SIGINT, ""},
		{"SIGQUIT", []string{"sh", "-c", "ulimit -c 0; kill -QUIT $$"}, 0, unix.SIGQUIT, ""},
		{"SIGKILL", []string{"sh", "-c", "kill -KILL $$"}, 0, unix.SIGKILL, ""},
		{"SIGSEGV", []string{"sh", "-c", "ulimit -c 0; kill -SEGV $$"}, 0, unix.SIGSEGV, ""},
		{"no such program", []string{"gorxe-no-such-program"}, ExitNotFound, 0, "gorxe-no-such-program"},
		{"no such file", []string{dir + "/none"}, ExitNotFound, 0, dir + "/none"},
		{"not executable", []string{file("text", "x", 0o644)}, ExitNotExecutable, 0, dir + "/text"},
		{"a directory", []string{dir}, ExitNotExecutable, 0, dir},
		{"a script without #!", []string{file("script", "exit $1", 0o755), "7"}, 7, 0, ""},
		{"another architecture", []string{file("foreign", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\x16\x00", 0o755)}, ExitNotExecutable, 0, "program for s390"},
		{"another byte order", []string{file("foreign2", "\x7fELF\x02\x02\x01"+strings.Repeat("\x00", 9)+"\x00\x02\x00\x16", 0o755)}, ExitNotExecutable, 0, "program for s390"},
		{"no interpreter", []string{file("bad", "#!/no/such/interpreter\n", 0o755)}, ExitNotFound, 0, dir + "/bad"},
	}
	s := newStage(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := s.run(tt.program...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ws := waitStatus(t, cmd)
			if tt.signal != 0 && (!ws.Signaled() || ws.Signal() != tt.signal) ||
				tt.signal == 0 && (!ws.Exited() || ws.ExitStatus() != tt.code) {
				t.Errorf("status %#x (%q), want exit code %d or signal %v", ws, &stderr, tt.code, tt.signal)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("stderr %q, want %q in it", &stderr, tt.stderr)
			}
		})
	}
}

// The program sees a device, and what gorxe run was started with.
func TestEnvironment(t *testing.T) {
	s := newStage(t)
	extra, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	tests := []struct{ name, script, want string }{
		{"device", "cat /sys/class/infiniband/rxe0/node_type; ls /sys/class/infiniband", "1: CA\nrxe0"},
		{"arguments", `echo "$0" "$@"`, "sh a  b"},
		{"environment", "echo $PROBE", "probe"},
		{"directory", "pwd", "/usr"},
		{"standard input", "cat", "input"},
		{"descriptors", "ls -l /proc/self/fd/3 | sed 's/.*-> //'; cd /proc/$$/fd; echo *", "/dev/null\n" + descriptors(t, extra)},
		{"signals", sigState, sigStateHere(t)},
		{"limit", "ulimit -n", "321"},
		{"group", "test $(ps -o pgid= $$) = $(ps -o pgid= $PPID) && echo same", "same"},
		{"nested", os.Args[0] + " run " + s.addr + " cat /sys/class/infiniband/rxe0/node_type 2>/dev/null", "1: CA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := s.run("sh", "-c", tt.script, "sh", "a ", "b")
			// A shell sets what cannot be set from here.
			cmd := exec.Command("sh", append([]string{"-c", `trap "" INT; ulimit -S -n 321; exec "$0" "$@"`, os.Args[0]}, run.Args[1:]...)...)
			cmd.Env = append(run.Env, "PROBE=probe")
			cmd.Dir, cmd.Stdin, cmd.ExtraFiles = "/usr", strings.NewReader("input"), []*os.File{extra}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// sigState prints the blocked and the ignored signals.
const sigState = "grep -E 'Sig(Blk|Ign)' /proc/self/status"

// sigStateHere returns the output of sigState without gorxe, where SIGINT is ignored. The
// program that runs the tests may ignore more, as nohup does.
func sigStateHere(t *testing.T) string {
	out, err := exec.Command("sh", "-c", `trap "" INT; exec sh -c "$0"`, sigState).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// descriptors are those of a shell that is started with extra.
func descriptors(t *testing.T, extra *os.File) string {
	cmd := exec.Command("sh", "-c", "cd /proc/$$/fd; echo *")
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(""), []*os.File{extra}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Too low a limit is an error that says so.
func TestNoRoom(t *testing.T) {
	s := newStage(t)
	run := s.run("true")
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -S -n 20; exec "$0" "$@"`, os.Args[0]}, run.Args[1:]...)...)
	cmd.Env = run.Env
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != ExitFailed || !strings.Contains(string(out), "ulimit -n") {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// Signals reach the program once, whichever process they are sent to.
func TestSignals(t *testing.T) {
	s := newStage(t)
	cmd := s.run("/proc/self/exe", "signals")
	cmd.Args[3] = os.Args[0] // the program's /proc/self/exe would be gorxe's
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, in := start(t, cmd)
	out.next()
	front := cmd.Process.Pid
	sigs := []unix.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM,
		unix.SIGTSTP, unix.SIGWINCH, unix.SIGCONT, unix.SIGABRT, unix.SIGIO, unix.SIGPWR, 35, 50, 64,
	}
	// What gorxe run is started with ignored, as by nohup, stays so.
	sigs = slices.DeleteFunc(sigs, func(sig unix.Signal) bool { return signal.Ignored(sig) })
	// Never the same signal again before all have taken it, because the two would merge.
	for _, to := range []int{front, -front, front, -front} {
		for _, sig := range sigs {
			if err := unix.Kill(to, sig); err != nil {
				t.Fatal(err)
			}
			// The one that was sent before must not come again.
			if got := out.next(); got != strconv.Itoa(int(sig)) {
				t.Fatalf("%v to %d: the program got %s", sig, to, got)
			}
		}
		waitIdle(t, front)
	}
	in.Close()
	if rest, _ := out.r.ReadString(0); rest != "" {
		t.Errorf("the program got as well: %q", rest)
	}
	if ws := waitStatus(t, cmd); !ws.Exited() || ws.ExitStatus() != 0 {
		t.Errorf("status %#x", ws)
	}
}

// waitIdle waits until all processes of a group sleep, and have taken the signals
// that they were sent.
func waitIdle(t *testing.T, group int) {
	t.Helper()
	idle := func() bool {
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, process := range processes {
			pid, _ := strconv.Atoi(filepath.Base(process))
			if pgid, err := unix.Getpgid(pid); err != nil || pgid != group {
				continue
			}
			threads, _ := filepath.Glob(process + "/task/*/status")
			for _, thread := range threads {
				status, err := os.ReadFile(thread)
				if err != nil {
					continue // it has ended
				}
				for _, line := range []string{"State:\tS", "SigPnd:\t0000000000000000\n", "ShdPnd:\t0000000000000000\n"} {
					if !strings.Contains(string(status), line) {
						return false
					}
				}
			}
		}
		return true
	}
	must.Eventually(t, "the processes come to rest", idle)
}

// A signal that ends the program ends the run, as does one that ends the run.
func TestKilled(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			s := newStage(t)
			cmd := s.run("sh", "-c", "echo $$; read x")
			out, _ := start(t, cmd)
			pid, err := strconv.Atoi(out.next())
			if err != nil {
				t.Fatal(err)
			}
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			if err := unix.Kill(cmd.Process.Pid, sig); err != nil {
				t.Fatal(err)
			}
			if ws := waitStatus(t, cmd); !ws.Signaled() || ws.Signal() != sig {
				t.Errorf("status %#x, want %v", ws, sig)
			}
			waitEnd(t, pidfd)
		})
	}
}

// waitEnd waits for the end of a process.
func waitEnd(t *testing.T, pidfd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(testTimeout.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatal("a process does not end")
		}
		return
	}
}

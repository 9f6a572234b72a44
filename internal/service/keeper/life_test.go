package keeper

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loop is a program that answers each line of its input: it tells whether it sees
// a device, and opens an ordinary file.
const loop = `echo $$; while read x; do cat /sys/class/infiniband/rxe0/node_type 2>/dev/null || echo none; cat /proc/version >/dev/null || echo broken; done; exit 9`

const (
	seen = "1: CA"
	none = "none"
)

// ask makes the program of loop look.
func ask(t *testing.T, out *lines, in io.Writer) string {
	t.Helper()
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	return out.next()
}

// The keeper that a front has.
func keeperOf(t *testing.T, front int) int {
	t.Helper()
	for _, pid := range children(t, front) {
		cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.HasPrefix(string(cmdline), "gorxe\x00"+stageKeep) {
			return pid
		}
	}
	t.Fatal("the front has no keeper")
	return 0
}

// A program goes on without its keeper, with its devices; the run still ends as
// it does.
func TestKeeperKilled(t *testing.T) {
	s := newStage(t)
	cmd := s.run("sh", "-c", loop)
	out, in := start(t, cmd)
	out.next()
	if got := ask(t, out, in); got != seen {
		t.Fatalf("before: %s", got)
	}
	if err := unix.Kill(keeperOf(t, cmd.Process.Pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, out, in); got != seen {
		t.Errorf("without a keeper: %s", got)
	}
	in.Close()
	if ws := waitStatus(t, cmd); ws.ExitStatus() != 9 {
		t.Errorf("status %#x", ws)
	}
}

// A program goes on without its daemon, and without devices.
func TestDaemonKilled(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGTERM} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			s := newStage(t)
			cmd := s.run("sh", "-c", loop)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, in := start(t, cmd)
			out.next()
			if got := ask(t, out, in); got != seen {
				t.Fatalf("before: %s", got)
			}
			pid := s.status().PID
			if err := unix.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			for s.dial() != nil {
				time.Sleep(time.Millisecond)
			}
			got := ask(t, out, in)
			for ; got == seen; got = ask(t, out, in) {
				// The daemon ends its sessions after it left the socket.
			}
			if got != none {
				t.Errorf("without a daemon: %s", got)
			}
			in.Close()
			if ws := waitStatus(t, cmd); ws.ExitStatus() != 9 {
				t.Errorf("status %#x", ws)
			}
			if !strings.Contains(stderr.String(), "the daemon is gone") {
				t.Errorf("stderr: %q", &stderr)
			}
			// The next run is not put off by the socket that is left.
			if out, err := s.run("cat", "/sys/class/infiniband/rxe0/node_type").Output(); string(out) != seen+"\n" {
				t.Errorf("the next run: %q, %v", out, err)
			}
		})
	}
}

// A run ends with its program; what the program left behind keeps its devices.
func TestBackground(t *testing.T) {
	s := newStage(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := s.run("sh", "-c", "(trap '' HUP; "+loop+") <&3 & exit 5")
	cmd.ExtraFiles = []*os.File{r}
	out, _ := start(t, cmd)
	r.Close()
	if state, err := cmd.Process.Wait(); err != nil || state.ExitCode() != 5 {
		t.Fatalf("%v, %v", state, err)
	}
	out.next()
	for range 3 {
		if got := ask(t, out, w); got != seen {
			t.Errorf("in the background: %s", got)
		}
	}
	if st := s.status(); st == nil || len(st.Sessions) != 1 {
		t.Errorf("status %+v", st)
	}
	w.Close()
	// The keeper holds none of the program's descriptors: its output ends.
	if rest, err := io.ReadAll(out.r); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// Standard output that the program closes is closed.
func TestOutputEnds(t *testing.T) {
	s := newStage(t)
	cmd := s.run("sh", "-c", "echo $$; exec >&-; read x")
	out, in := start(t, cmd)
	out.next()
	if rest, err := io.ReadAll(out.r); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if cmd.ProcessState != nil {
		t.Error("the program ended too")
	}
	in.Close()
	waitStatus(t, cmd)
}

// A second run joins the first one's daemon, which ends with the last.
func TestJoin(t *testing.T) {
	s := newStage(t)
	first := s.run("sh", "-c", loop)
	out1, in1 := start(t, first)
	out1.next()
	second := s.run("sh", "-c", loop)
	out2, in2 := start(t, second)
	out2.next()
	st := s.status()
	if len(st.Sessions) != 2 || !st.Private {
		t.Errorf("status %+v", st)
	}
	in1.Close()
	waitStatus(t, first)
	if got := ask(t, out2, in2); got != seen {
		t.Errorf("after the first has ended: %s", got)
	}
	if now := s.status(); now == nil || now.PID != st.PID || len(now.Sessions) != 1 {
		t.Errorf("status %+v", now)
	}
	in2.Close()
	waitStatus(t, second)
	s.waitForEnd()
}

// Many runs that start at once share one daemon.
func TestManyAtOnce(t *testing.T) {
	s := newStage(t)
	const n = 8
	type result struct {
		out string
		err error
	}
	results := make(chan result, n)
	for range n {
		cmd := s.run("cat", "/sys/class/infiniband/rxe0/node_type")
		go func() {
			out, err := cmd.CombinedOutput()
			results <- result{string(out), err}
		}()
	}
	for range n {
		if r := <-results; r.err != nil || r.out != seen+"\n" {
			t.Errorf("%q, %v", r.out, r.err)
		}
	}
}

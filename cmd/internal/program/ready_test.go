package program

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// wrote returns what is looked for, after a program has written text.
func wrote(t *testing.T, is *regexp.Regexp, text string) *lines {
	t.Helper()
	l := newLines(is)
	must.Get[int](t)(io.WriteString(l.beside(io.Discard), text))
	return l
}

// TestWritten: what servers and clients write of ports is known.
func TestWritten(t *testing.T) {
	for text, want := range map[string]Wrote{
		"Couldn't listen to port 18515\n": {Taken: true}, "rdma_bind_addr: Address already in use\n": {Taken: true},
		"No IB devices found\n": {}, "": {}, "Failed to modify QP to RTR\n": {},
		"Couldn't connect to 127.0.0.1:18515\n": {Unmet: true}, "connect: Connection refused\n": {Unmet: true},
		"Unexpected CM event bl blka 8\n": {Rejected: true}, "cma event RDMA_CM_EVENT_REJECTED, error 8\n": {Rejected: true},
		"rdma_connect: Connection refused\n": {Unmet: true, Rejected: true},
	} {
		p := Program{taken: wrote(t, portTaken, text), unmet: wrote(t, unmet, text), rejected: wrote(t, rejected, text)}
		if got := p.Wrote(); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if (*lines)(nil).seen() {
		t.Error("a program whose output is not known has written something")
	}
}

// TestUnready: what a user reads of a program that is not ready has the words that the user can
// write, which are a flag or the key of a file.
func TestUnready(t *testing.T) {
	const key = "a-key"
	for _, r := range []Ready{{Key: key}, {Key: key, When: regexp.MustCompile("up")}} {
		says := r.missing("it") + r.sign() + r.remedy()
		if !strings.Contains(says, key) || strings.Contains(says, "ready-when") {
			t.Error(says)
		}
	}
}

// TestRunning: the program below gorxe is named, and not gorxe itself.
func TestRunning(t *testing.T) {
	cat := exec.Command("cat")
	in := must.Get[io.WriteCloser](t)(cat.StdinPipe())
	must.OK(t, cat.Start())
	defer func() {
		in.Close()
		must.OK(t, cat.Wait())
	}()
	if name, pid := running([]int{os.Getpid(), cat.Process.Pid}); name != "cat" || pid != cat.Process.Pid {
		t.Errorf("%q, %d, want cat, %d", name, pid, cat.Process.Pid)
	}
	if name, pid := running([]int{os.Getpid()}); name != "" || pid != 0 {
		t.Errorf("%q, %d, want none", name, pid)
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		text        string
		pid, parent int
		ok          bool
	}{
		{"12 (ib_write_bw) S 7 12 7 0", 12, 7, true},
		{"12 (a) R 1 (b)) S 7 12 7 0", 12, 7, true},
		{"12 () S 7", 12, 7, true},
		{"12 (x) S", 0, 0, false},
		{"12 x S 7", 0, 0, false},
		{"(x) S 7", 0, 0, false},
		{")(", 0, 0, false},
		{"", 0, 0, false},
	} {
		pid, parent, ok := parseStat(c.text)
		if ok != c.ok || ok && (pid != c.pid || parent != c.parent) {
			t.Errorf("%q: %d, %d, %v", c.text, pid, parent, ok)
		}
	}
}

// TestListens: a socket counts while it listens, and if a process below this one has it. The
// daemon's does not.
func TestListens(t *testing.T) {
	mine := func() bool { return len(listeners(Family(os.Getpid()), nil)) > 0 }
	if mine() {
		t.Fatal("a process without a socket listens")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		if got := listeners(Family(os.Getpid()), nil); !slices.Equal(got, []string{port}) || !slices.Contains(listeners(Family(os.Getppid()), nil), port) {
			t.Errorf("%s: the process listens at %v, and its parent's family does", address, got)
		}
		l.Close()
		if mine() {
			t.Errorf("%s: the process does not listen any more", address)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !mine() || len(listeners(Family(os.Getpid()), []string{path})) > 0 {
		t.Error("the process listens on a Unix socket, which is not the daemon's, and then is")
	}
}

// TestLines: a line counts in whichever pieces it comes, and all output is passed on.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		pieces string // with | between them
		ready  bool
	}{
		{"up on port 7\n", true}, {"first\nup |on port| 77\n", true}, {"up on\n port 7\n", false}, {"down\nup on port ", false}, {"up on port 7", true},
	} {
		l := newLines(regexp.MustCompile(`up on port \d`))
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out := l.beside(w)
		for piece := range strings.SplitSeq(c.pieces, "|") {
			if _, err := io.WriteString(out, piece); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if text, err := io.ReadAll(r); err != nil || string(text) != strings.ReplaceAll(c.pieces, "|", "") {
			t.Errorf("%q: passed on: %q, %v", c.pieces, text, err)
		}
		r.Close()
		select {
		case <-l.ready():
			if !c.ready {
				t.Errorf("%q: ready", c.pieces)
			}
		default:
			if c.ready {
				t.Errorf("%q: not ready", c.pieces)
			}
		}
	}
}

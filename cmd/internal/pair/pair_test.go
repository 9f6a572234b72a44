package pair

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

func TestCode(t *testing.T) {
	for _, c := range []struct{ server, client, want int }{
		{0, 0, 0}, {3, 0, 3}, {0, 4, 4}, {3, 4, 4}, {130, 1, 1},
	} {
		if got := (Outcome{c.server, c.client}).Code(); got != c.want {
			t.Errorf("server %d and client %d: %d, want %d", c.server, c.client, got, c.want)
		}
	}
}

// wrote returns what is looked for, after a program has written text.
func wrote(t *testing.T, is *regexp.Regexp, text string) *lines {
	t.Helper()
	l := newLines(is)
	must.Get[int](t)(io.WriteString(l.beside(io.Discard), text))
	return l
}

// TestBusyPort: a server that says that its port is taken is told what helps, and no other one.
// Only hosts of their own have TCP ports of their own.
func TestBusyPort(t *testing.T) {
	for text, taken := range map[string]bool{
		"Couldn't listen to port 18515\n": true, "rdma_bind_addr: Address already in use\n": true, "No IB devices found\n": false, "": false,
	} {
		for _, c := range []Config{{}, {Alone: true}, {Hosts: true}} {
			got := c.busyPort(wrote(t, portTaken, text))
			if strings.Contains(got, "--hosts gives this pair ports") != (taken && !c.Hosts) || strings.Contains(got, "--private does not") != (taken && c.Alone) {
				t.Errorf("%q, %+v: %q", text, c, got)
			}
		}
	}
	if got := new(Config).busyPort(nil); got != "" {
		t.Errorf("a server whose output is not known: %q", got)
	}
}

// TestElsewhere: a client that reaches nobody learns where the server listened.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		text  string
		ports []string
		said  bool
	}{
		{"Couldn't connect to 127.0.0.1:18515\n", []string{"", "7"}, true}, {"connect: Connection refused\n", []string{"7"}, true},
		{"Couldn't connect to 127.0.0.1:18515\n", []string{""}, false}, {"Failed to modify QP to RTR\n", []string{"7"}, false},
	} {
		if err := elsewhere(wrote(t, unmet, c.text), c.ports); (err != nil) != c.said || c.said && !strings.HasSuffix(err.Error(), "listened on TCP port 7") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestAllow: a chroot is told by its root, which is not a mount point.
func TestAllow(t *testing.T) {
	const proc = "52 50 0:22 / /proc rw,relatime shared:9 - proc proc rw\n"
	const root = "50 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	for mounts, chroot := range map[string]bool{"": false, root + proc: false, proc: true} {
		if got := allow(mounts); strings.Contains(got, "chroot") != chroot || !strings.Contains(got, "run as root") {
			t.Errorf("%q: %s", mounts, got)
		}
	}
}

// TestSameCommand: a client without an address is a second server, and fails.
func TestSameCommand(t *testing.T) {
	for _, c := range []struct {
		client []string
		code   int
		said   bool
	}{
		{[]string{"p", "-g", "1"}, 1, true}, {[]string{"p", "-g", "1"}, 0, false}, {[]string{"p", "-g", "1", "127.0.0.1"}, 1, false},
	} {
		config := Config{Server: []string{"p", "-g", "1"}, Client: c.client}
		if err := config.sameCommand(c.code); (err != nil) != c.said {
			t.Errorf("%+v: %v", c, err)
		}
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
	mine := func() bool { return len(listeners(family(os.Getpid()), nil)) > 0 }
	if mine() {
		t.Fatal("a process without a socket listens")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		if got := listeners(family(os.Getpid()), nil); !slices.Equal(got, []string{port}) || !slices.Contains(listeners(family(os.Getppid()), nil), port) {
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
	if !mine() || len(listeners(family(os.Getpid()), []string{path})) > 0 {
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

package program

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
	mine := func() bool { return listens(Family(os.Getpid()), nil) }
	if mine() {
		t.Fatal("a process without a socket listens")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if !mine() || !listens(Family(os.Getppid()), nil) {
			t.Errorf("%s: the process listens, and its parent's family does", address)
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
	if !mine() || listens(Family(os.Getpid()), []string{path}) {
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

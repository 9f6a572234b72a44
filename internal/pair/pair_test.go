package pair

import (
	"net"
	"os"
	"testing"
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

// TestListens: a socket counts while it listens, and if a process below this one has it.
func TestListens(t *testing.T) {
	if listens(os.Getpid()) {
		t.Fatal("a process without a socket listens")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if !listens(os.Getpid()) || !listens(os.Getppid()) {
			t.Errorf("%s: the process listens, and its parent's family does", address)
		}
		l.Close()
		if listens(os.Getpid()) {
			t.Errorf("%s: the process does not listen any more", address)
		}
	}
}

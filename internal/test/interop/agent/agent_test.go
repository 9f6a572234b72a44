package agent

import (
	"net"
	"strings"
	"testing"
	"time"
)

const programTimeout = 30 * time.Second

func pair(t *testing.T) (*Client, net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	go Serve(there) //nolint:errcheck // it ends with the pipe
	t.Cleanup(func() { here.Close() })
	return NewClient(here), here
}

func TestPrograms(t *testing.T) {
	c, _ := pair(t)
	for _, tc := range []struct {
		script string
		exit   int
		out    string
	}{
		{"echo out; echo err >&2", 0, "out\nerr\n"},
		{"exit 7", 7, ""},
		{"kill -TERM $$", -15, ""},
		{"printf '%1000000s' x | tr ' ' y", 0, strings.Repeat("y", 999_999) + "x"},
	} {
		p := c.Start("sh", "-c", tc.script)
		exit, err := p.Wait(programTimeout)
		if err != nil || exit != tc.exit || p.Output() != tc.out {
			t.Errorf("%s: %d %v, %d bytes out", tc.script, exit, err, len(p.Output()))
		}
	}
	if exit, err := c.Start("/no/such/program").Wait(programTimeout); exit != 127 || err == nil {
		t.Errorf("a program that is not there: %d %v", exit, err)
	}
}

func TestDialogue(t *testing.T) {
	c, _ := pair(t)
	p := c.Start("sh", "-c", "while read line; do echo got $line; done")
	q := c.Start("cat")
	for _, line := range []string{"one", "two"} {
		for _, to := range []*Proc{p, q} {
			if _, err := to.Write([]byte(line + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := p.ReadLine(programTimeout); got != "got "+line || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		if got, err := q.ReadLine(programTimeout); got != line || err != nil {
			t.Fatalf("%q %v", got, err)
		}
	}
	p.Kill()
	if exit, _ := p.Wait(programTimeout); exit != -9 {
		t.Errorf("killed: %d", exit)
	}
	if _, err := p.ReadLine(programTimeout); err == nil {
		t.Error("a line from a program that was killed")
	}
}

func TestListening(t *testing.T) {
	c, _ := pair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := c.Listening(l.Addr().(*net.TCPAddr).Port); err != nil {
		t.Error(err)
	}
}

// TestGone: when the machine goes, its programs have ended.
func TestGone(t *testing.T) {
	c, conn := pair(t)
	p := c.Start("sleep", "1000")
	conn.Close()
	if exit, err := p.Wait(programTimeout); exit != 127 || err == nil {
		t.Errorf("%d %v", exit, err)
	}
	if _, err := c.Start("true").Wait(programTimeout); err == nil {
		t.Error("a program was started on a machine that has gone")
	}
}

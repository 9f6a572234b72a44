package lab

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestReceive: a command is one message with a line and three files. All else is refused, and no
// file stays open.
func TestReceive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := must.Get[*net.UnixListener](t)(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))
	defer l.Close()
	for _, c := range []struct {
		text string
		fds  []int
		well bool
	}{
		{`{"Host":"h1","Line":"true"}`, []int{0, 1, 2}, true},
		{`{"Host":"h1","Line":"true"}`, []int{0, 1}, false},
		{`{"Host":"h1","Line":"true"}`, []int{0, 1, 2, 2}, false},
		{`{"Host":"h1"`, []int{0, 1, 2}, false},
		{`[]`, []int{0, 1, 2}, false},
		{string(slices.Repeat([]byte(" "), maxAsk+1)), []int{0, 1, 2}, false},
		{"", nil, false},
	} {
		from := must.Get[*net.UnixConn](t)(net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"}))
		to := must.Get[*net.UnixConn](t)(l.AcceptUnix())
		if c.text != "" {
			if _, _, err := from.WriteMsgUnix([]byte(c.text), unix.UnixRights(c.fds...), nil); err != nil {
				t.Fatal(err)
			}
		}
		from.Close()
		line, files, err := receive(to)
		if (err == nil) != c.well || c.well && (line != asked{"h1", "true"} || len(files) != 3) {
			t.Errorf("%.40q with %v: %v, %d files, %v", c.text, c.fds, line, len(files), err)
		}
		for _, f := range files {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		to.Close()
	}
}

// TestRsh: outside of a lab, and after its end, the error says so.
func TestRsh(t *testing.T) {
	t.Setenv(envSocket, "")
	if code, err := Rsh("h1", "true"); code != 125 || err == nil {
		t.Error(code, err)
	}
	path := filepath.Join(t.TempDir(), "s")
	t.Setenv(envSocket, path)
	if code, err := Rsh("h1", "true"); code != 125 || err == nil {
		t.Error(code, err)
	}
	l := must.Get[*net.UnixListener](t)(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))
	defer l.Close()
	for answer, want := range map[string]int{"": 125, "7": 7, "125 h1: there is none": 125, "x": 125} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			defer conn.Close()
			_, files, _ := receive(conn)
			for _, f := range files {
				f.Close()
			}
			if answer != "" {
				conn.Write([]byte(answer)) //nolint:errcheck // Rsh finds out
			}
		}()
		code, err := Rsh("h1", "true")
		<-done
		if code != want || (err == nil) != (answer == "7") {
			t.Errorf("%q: %d, %v", answer, code, err)
		}
	}
}

// TestUntilBegun: a command for a host whose program still waits begins after that program, unless
// the asker or the lab ends before.
func TestUntilBegun(t *testing.T) {
	never := make(chan struct{})
	closed := make(chan struct{})
	close(closed)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name        string
		ctx         context.Context
		begun, gone chan struct{}
		waits       bool
		says, err   string
	}{
		{"it has begun", t.Context(), closed, never, true, "", ""},
		{"the asker ends", t.Context(), never, closed, true, "gorxe: the program of h2 still waits for h1: this command begins after it\n", "the command is not wanted any more"},
		{"the lab ends", ended, never, never, true, "gorxe: the program of h2 still waits for h1: this command begins after it\n", "the lab has ended"},
		{"it will begin at once", ended, never, never, false, "", "the lab has ended"},
	} {
		r := &run{begun: map[string]chan struct{}{"h2": c.begun}}
		h := &labfile.Host{Name: "h2"}
		if c.waits {
			h.WaitFor = []string{"h1"}
		}
		var says bytes.Buffer
		err := r.untilBegun(c.ctx, h, c.gone, &says)
		if says.String() != c.says || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v", c.name, &says, err)
		}
	}
}

// TestSilentAsker: the end of a lab does not wait for a program that has connected and asks
// nothing.
func TestSilentAsker(t *testing.T) {
	r := &run{dir: t.TempDir()}
	if err := r.listen(); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.serve(ctx)
	}()
	conn := must.Get[*net.UnixConn](t)(net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: r.socket, Net: "unixpacket"}))
	defer conn.Close()
	end()
	conn.SetReadDeadline(time.Now().Add(must.Limit)) //nolint:errcheck // Read fails then
	answer := make([]byte, maxAsk)
	if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "125 ") {
		t.Errorf("%q, %v", answer[:n], err)
	}
	conn.Close()
	r.listener.Close()
	<-served
	r.asked.Wait()
}

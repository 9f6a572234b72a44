package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestExtcapAnswers: what Wireshark asks before it captures.
func TestExtcapAnswers(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string // in what it prints
	}{
		{"--extcap-interfaces --extcap-version=4.0", exitOK, "interface {value=gorxe}"},
		{"--extcap-interface gorxe --extcap-dlts", exitOK, "dlt {number=101}"},
		{"--extcap-interface gorxe --extcap-config", exitOK, "{call=--socket}"},
		{"--extcap-interface gorxe --extcap-capture-filter=", exitOK, ""},
		{"--extcap-interface gorxe --extcap-capture-filter=udp", exitOK, "display filter"},
		{"--extcap-interface gorxe --capture --fifo x --extcap-capture-filter=udp", exitUsage, "display filter"},
		{"--extcap-interface gorxe --capture", exitUsage, "--fifo"},
		{"--extcap-interface eth0 --extcap-dlts", exitUsage, "--extcap-interface gorxe"},
		{"", exitUsage, "--extcap-interfaces"},
	} {
		code, stdout, stderr := gorxe(t, append([]string{"extcap"}, strings.Fields(c.args)...)...)
		says, other := stdout, stderr
		if c.code != exitOK {
			says, other = stderr, stdout
		}
		if code != c.code || !strings.Contains(says, c.want) || other != "" {
			t.Errorf("%s: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

// hostile listens as a daemon would, and answers each connection so.
func hostile(t *testing.T, answer func(*net.UnixConn)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l := must.Get[*net.UnixListener](t)(net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"}))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1<<16)) //nolint:errcheck // whatever it asks
			answer(c)
		}
	}()
	return socket
}

// TestExtcapEnds: a capture ends if there is no daemon, if the daemon answers nonsense, refuses or
// ends, and if nobody reads the pipe any more.
func TestExtcapEnds(t *testing.T) {
	accept := func(c *net.UnixConn, more string) {
		c.Write([]byte(`{"version":5}`)) //nolint:errcheck // the client says if it lacks something
		if more != "" {
			c.Write([]byte(more)) //nolint:errcheck // as above
		}
	}
	hold := make(chan struct{})
	defer close(hold)
	for name, c := range map[string]struct {
		answer func(*net.UnixConn)
		code   int
		text   string // in the file, or of the error
		unread bool   // nobody reads the pipe
	}{
		"no daemon":  {nil, exitFailed, "no daemon", false},
		"nonsense":   {func(c *net.UnixConn) { c.Write([]byte("\x00{")); c.Close() }, exitFailed, "gorxe: ", false},                          //nolint:errcheck // as above
		"refuses":    {func(c *net.UnixConn) { c.Write([]byte(`{"version":5,"error":"no"}`)); c.Close() }, exitFailed, "refused: no", false}, //nolint:errcheck // as above
		"other":      {func(c *net.UnixConn) { c.Write([]byte(`{"version":4}`)); c.Close() }, exitFailed, "versions", false},                 //nolint:errcheck // as above
		"ends":       {func(c *net.UnixConn) { c.Close() }, exitFailed, "ending", false},
		"ends later": {func(c *net.UnixConn) { accept(c, "packets"); c.Close() }, exitOK, "packets", false},
		"no reader":  {func(c *net.UnixConn) { accept(c, ""); <-hold; c.Close() }, exitOK, "", true},
		"full pipe": {func(c *net.UnixConn) {
			accept(c, "")
			for {
				if _, err := c.Write(bytes.Repeat([]byte("x"), 1<<15)); err != nil {
					return
				}
			}
		}, exitOK, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			socket, fifo := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "fifo")
			if c.answer != nil {
				socket = hostile(t, c.answer)
			}
			if c.unread {
				must.OK(t, unix.Mkfifo(fifo, 0o600))
				go func() {
					f, err := os.OpenFile(fifo, os.O_RDONLY, 0)
					if err != nil {
						return
					}
					if name == "full pipe" {
						f.Read(make([]byte, 1)) //nolint:errcheck // one byte is enough
					}
					f.Close()
				}()
			}
			code, stdout, stderr := gorxe(t, "extcap", "--extcap-interface", "gorxe", "--capture", "--fifo", fifo, "--socket", socket)
			says := stderr
			if c.code == exitOK && !c.unread {
				says = string(must.Get[[]byte](t)(os.ReadFile(fifo)))
			}
			if code != c.code || !strings.Contains(says, c.text) || stdout != "" {
				t.Errorf("exit code %d, %q, %q, %q", code, says, stdout, stderr)
			}
		})
	}
}

package keeper

import (
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// strange is a daemon of another version of the protocol. It refuses every client.
type strange struct {
	listener *net.UnixListener
	refused  atomic.Int32
}

// newStrange serves the socket. It ends after so many clients, if last is not 0.
func newStrange(t *testing.T, socket string, last int32) *strange {
	t.Helper()
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	s := &strange{listener: ln}
	t.Cleanup(func() { ln.Close() }) //nolint:errcheck // it may be closed already
	go s.serve(last)
	return s
}

func (s *strange) serve(last int32) {
	for {
		sock, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		c := &proto.Conn{Sock: sock}
		var req proto.Request
		if _, err := c.Recv(&req); err == nil {
			c.Send(proto.Reply{Version: proto.ProtocolVersion + 1}) //nolint:errcheck // the client misses it
		}
		c.Close()
		if s.refused.Add(1) == last {
			s.listener.Close() //nolint:errcheck // removes the socket, too
		}
	}
}

// TestOtherVersion: a run waits for a daemon of another version to end. If the daemon does
// not end, the run says what is wrong.
func TestOtherVersion(t *testing.T) {
	for _, tt := range []struct {
		name   string
		last   int32
		code   int
		stderr string
	}{
		{"it stays", 0, ExitFailed, "different versions of their protocol"},
		{"it ends", 3, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			d := newStrange(t, s.socket, tt.last)
			cmd := s.run("true")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ws := waitStatus(t, cmd)
			if !ws.Exited() || ws.ExitStatus() != tt.code {
				t.Errorf("status %#x, want exit code %d", ws, tt.code)
			}
			if text := stderr.String(); !strings.Contains(text, tt.stderr) || tt.stderr == "" && text != "" ||
				strings.Count(text, "\n") > 1 {
				t.Errorf("stderr %q, want one line with %q", text, tt.stderr)
			}
			if n := d.refused.Load(); n < 2 || tt.last != 0 && n != tt.last {
				t.Errorf("the daemon refused %d clients", n)
			}
		})
	}
}

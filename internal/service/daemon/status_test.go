package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
	"golang.org/x/sys/unix"
)

// request makes a request and reads no answer.
func (r *running) request(t *testing.T, op string) *proto.Client {
	t.Helper()
	c := r.dial(t)
	if err := c.Conn.Send(proto.Request{Version: proto.ProtocolVersion, Op: op}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *running) used() quota.Cost {
	return r.tenants.Of(uint32(os.Getuid())).Budget.Used()
}

// waiting returns how many bytes a client has not read.
func waiting(t *testing.T, c *proto.Client) (n int) {
	t.Helper()
	raw, err := c.Conn.Sock.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A user has one status at a time. It is charged until the user has read it, whatever the
// user does to its connection.
func TestUnreadStatus(t *testing.T) {
	s := startTest(t, Config{textWait: 1}, nil)
	for _, unread := range []struct {
		op  string
		end func(*proto.Client)
	}{
		{proto.OpStatus, func(*proto.Client) {}},
		{proto.OpSeen, func(c *proto.Client) { c.Conn.Sock.CloseWrite() }},                //nolint:errcheck // seen below
		{proto.OpStatus, func(c *proto.Client) { c.Conn.Sock.Write([]byte("nonsense")) }}, //nolint:errcheck // as above
		{proto.OpSeen, func(c *proto.Client) { c.Conn.Sock.WriteMsgUnix(nil, nil, nil) }}, //nolint:errcheck // as above
		{proto.OpStatus, func(c *proto.Client) { c.Conn.Sock.CloseRead() }},               //nolint:errcheck // as above
	} {
		c := s.request(t, unread.op)
		must.Eventually(t, "the answer is charged", func() bool { return s.used().Memory >= socketBuffer })
		// CloseRead would refuse it
		must.Eventually(t, "the answer came", func() bool { return waiting(t, c) > 0 })
		unread.end(c)
		for range 60 {
			second := s.dial(t)
			if _, err := second.Status(); !errors.Is(err, proto.ErrLimit) {
				t.Fatalf("a second status: %v", err)
			}
			second.Close()
		}
		if used := s.used().Memory; used > 2*socketBuffer {
			t.Errorf("%d bytes are charged for one answer", used)
		}
		c.Close()
		must.Eventually(t, "the answer is given back", func() bool { return s.used().Memory < socketBuffer })
	}
	if _, err := s.dial(t).Status(); err != nil {
		t.Error(err)
	}
}

// A status waits five seconds for the one that its user has not read, and is refused then.
func TestStatusWait(t *testing.T) {
	s := startTest(t, Config{}, nil)
	s.request(t, proto.OpStatus)
	must.Eventually(t, "the answer is charged", func() bool { return s.used().Memory >= socketBuffer })
	began := time.Now()
	if _, err := s.dial(t).Status(); !errors.Is(err, proto.ErrLimit) || time.Since(began) < 5*time.Second {
		t.Errorf("a second status after %v: %v", time.Since(began), err)
	}
}

// A status lists no more than its share of a session's open devices, and counts the others.
func TestStatusRoom(t *testing.T) {
	const files, room = 9, 4
	opened, end := make(chan struct{}), make(chan struct{})
	s := startTest(t, Config{maxListed: 2 * room}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
		for range files {
			f, err := cfg.Host.Open(&tree.Node{DeviceName: "rxe0"}, trap.Credentials{PID: os.Getpid()})
			if err != nil {
				t.Error(err)
				break
			}
			defer f.Close()
		}
		opened <- struct{}{}
		<-end
		return nil
	})
	defer close(end)
	s.attached(t)
	s.attached(t)
	<-opened
	<-opened
	check := func(st *proto.Status, want int) {
		t.Helper()
		if len(st.Sessions) != 2 {
			t.Errorf("%d sessions", len(st.Sessions))
		}
		for _, n := range st.Sessions {
			listed := 0
			for _, p := range n.Processes {
				listed += len(p.Files)
			}
			if listed != want || n.FilesLeftOut != files-want {
				t.Errorf("%d files, %d left out, want %d", listed, n.FilesLeftOut, want)
			}
		}
	}
	check(s.statusOf(true, 0, 2*files), files)
	check(s.statusOf(true, 0, 0), 0)
	check(s.Status(), room)
}

// An answer that is longer than a message comes in parts.
func TestLongStatus(t *testing.T) {
	s := startTest(t, Config{}, nil)
	const sessions = proto.MaxMessage / 128 // each takes more than that
	for range sessions {
		if _, err := s.dial(t).Hello([]string{"program"}, proto.Wanted{}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.dial(t).Status()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(st); err != nil || len(text) <= proto.MaxMessage || len(st.Sessions) != sessions {
		t.Errorf("%d sessions of %d in %d bytes, %v", len(st.Sessions), sessions, len(text), err)
	}
}

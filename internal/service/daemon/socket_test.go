package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/internal/trap"
)

// What a daemon that was killed left is replaced; a daemon that runs, and files
// that are something else, are not.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	if _, err := proto.Dial([]string{path}); !errors.Is(err, proto.ErrNoDaemon) || !strings.Contains(err.Error(), "gorxe daemon") {
		t.Errorf("a stale socket: %v", err)
	}
	s := startTest(t, Config{Socket: path}, nil)
	if _, err := Start(Config{Socket: path}); !errors.Is(err, proto.ErrDaemonRuns) {
		t.Errorf("a second daemon: %v", err)
	}
	if _, err := s.dial(t).Status(); err != nil {
		t.Errorf("the first one, after that: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := proto.Dial([]string{path}); !errors.Is(err, proto.ErrNoDaemon) {
		t.Errorf("after its end: %v", err)
	}
}

// A daemon that has left its socket, and not yet its ports, is still in the way of
// the next one, and takes nothing from that.
func TestSuccessor(t *testing.T) {
	end := make(chan struct{})
	s := startTest(t, Config{}, func(context.Context, *os.File, trap.ServeConfig) error {
		<-end
		return nil
	})
	s.attached(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	must.Eventually(t, "the socket goes", func() bool {
		_, err := os.Lstat(s.cfg.Socket)
		return errors.Is(err, os.ErrNotExist)
	})
	if next, err := Start(Config{Socket: s.cfg.Socket}); !errors.Is(err, proto.ErrDaemonRuns) {
		t.Errorf("a second daemon: %v, %v", next, err)
	}
	close(end)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	startTest(t, Config{Socket: s.cfg.Socket, Devices: s.cfg.Devices}, nil).dial(t)
}

func TestListenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	stream, err := net.Listen("unix", filepath.Join(dir, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, tt := range []struct{ path, err string }{
		{file, "no socket"},
		{filepath.Join(dir, "stream"), "another program"},
		{filepath.Join(dir, "none", "s"), "--socket"},
		{filepath.Join(dir, strings.Repeat("x", 120)), "longer"},
	} {
		if s, err := listen(tt.path, 0o600, ""); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v; want %q in it", tt.path, s, err, tt.err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if s, err := listen(filepath.Join(dir, "s"), 0o600, "no-such-group"); err == nil {
		t.Errorf("a group that there is not: %v", s)
	}
}

// A daemon whose UDP port is taken says what to do, and leaves no socket.
func TestPortTaken(t *testing.T) {
	s := startTest(t, Config{}, nil)
	path := filepath.Join(t.TempDir(), "s")
	_, err := Start(Config{Socket: path, Devices: s.cfg.Devices})
	if err == nil || !strings.Contains(err.Error(), "--private") || !strings.Contains(err.Error(), proto.EnvSocket) ||
		!strings.Contains(err.Error(), fmt.Sprintf("[%d] of user %d", os.Getpid(), os.Geteuid())) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestSockets(t *testing.T) {
	t.Setenv(proto.EnvSocket, "/env")
	if got, err := proto.Sockets("/flag"); err != nil || len(got) != 1 || got[0] != "/flag" {
		t.Errorf("with a flag: %q, %v", got, err)
	}
	if got, err := proto.Sockets(""); err != nil || len(got) != 1 || got[0] != "/env" {
		t.Errorf("with the variable: %q, %v", got, err)
	}
	t.Setenv(proto.EnvSocket, "")
	got, err := proto.Sockets("")
	if err != nil || got[len(got)-1] != proto.SystemSocket {
		t.Errorf("with nothing: %q, %v", got, err)
	}
}

// The mode says which users may connect. A user who connects sees only their own sessions.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "this test changes its user: run it as root")
	}
	dir, err := os.MkdirTemp("", "gorxe-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The test binary lies where only its owner can reach it.
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "test"), binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode os.FileMode
		want string
	}{
		{0o600, "--socket false true"},
		{0o666, "0 sessions, 1 hidden"},
	} {
		s := startTest(t, Config{Socket: filepath.Join(dir, "s"+strconv.Itoa(int(tt.mode))), SocketMode: tt.mode}, nil)
		if _, err := s.dial(t).Hello([]string{"mine"}, proto.Wanted{}); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(dir, "test"))
		cmd.Env = append(os.Environ(), envOther+"="+s.cfg.Socket)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("mode %o: %s, %v; want %q", tt.mode, out, err, tt.want)
		}
	}
	s := startTest(t, Config{}, nil)
	n := &session{server: s.Server, log: s.log, cred: unix.Ucred{Uid: nobody}, tenant: s.tenants.Of(nobody),
		faults: newFaultRules(s.tenants.Of(nobody).Budget, s.devices, &s.verbs, 0)}
	if _, err := s.enter(n); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]int{0: 1, nobody: 1, 1: 0} {
		if st := s.status(uid); len(st.Sessions) != want || st.Hidden != 1-want {
			t.Errorf("user %d sees %d sessions, %d are hidden", uid, len(st.Sessions), st.Hidden)
		}
		dev := s.status(uid).Devices[0]
		counters, all := dev.Counters, uid == 0
		port := dev.Ports[0].Counters
		_, queue := port["receive_queue_drop"]
		if !queue || (len(port) > 1) != all {
			t.Errorf("user %d sees the port's counters %v", uid, port)
		}
		if (dev.Packets != nil) != all || (dev.WorkRequests != nil) != all {
			t.Errorf("user %d sees %+v", uid, dev)
		}
		_, hw := counters["sent_pkts"]
		if _, drops := counters["drop_bad_qpn"]; !hw || drops != all {
			t.Errorf("user %d sees the counters %v", uid, counters)
		}
	}
	s.leave(n)
}

// Root and the daemon's own user see what belongs to others.
func TestOwner(t *testing.T) {
	for _, c := range []struct {
		uid, owner uint32
		want       bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if got := seesAll(c.uid, c.owner); got != c.want {
			t.Errorf("user %d of a daemon of %d: %v", c.uid, c.owner, got)
		}
	}
	if !new(Server).owns(uint32(os.Geteuid())) {
		t.Error("the daemon's own user sees less")
	}
}

// What every user may read, in sysfs and over netlink, does not say why packets were dropped.
func TestCountersForAll(t *testing.T) {
	s := startTest(t, Config{}, nil)
	d := s.devices[0]
	var names []string
	for _, c := range d.sysfs().HWCounters() {
		names = append(names, c.Name)
	}
	for _, c := range d.netlink(s.tree).Counters() {
		names = append(names, c.Name)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "drop_") || name == "receive_filter_drop" {
			t.Errorf("every user sees %s", name)
		}
	}
	for _, name := range []string{"sent_pkts", "receive_queue_drop"} {
		if i := slices.Index(names, name); i < 0 || !slices.Contains(names[i+1:], name) {
			t.Errorf("%s is not in both: %v", name, names)
		}
	}
}

// connPair returns the two ends of a connection.
func connPair(t *testing.T) (a, b *proto.Conn) {
	t.Helper()
	fa, fb, err := proto.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = proto.NewConn(fa); err != nil {
		t.Fatal(err)
	}
	if b, err = proto.NewConn(fb); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Messages and descriptors arrive together, or not at all.
func TestConn(t *testing.T) {
	a, b := connPair(t)
	defer b.Close()
	if err := a.Send("hello", 0, 1); err != nil {
		t.Fatal(err)
	}
	var text string
	fds, err := b.Recv(&text)
	if err != nil || text != "hello" || len(fds) != 2 {
		t.Fatalf("%q, %v, %v", text, fds, err)
	}
	for _, fd := range fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("a descriptor that programs would inherit: %v", err)
		}
	}
	proto.CloseAll(fds)
	if err := a.Send(strings.Repeat("x", proto.MaxMessage)); err == nil {
		t.Error("too long a message is sent")
	}
	if err := a.Send("many", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if fds, err := b.Recv(&text); err == nil {
		t.Errorf("too many descriptors arrive: %v", fds)
	}
	if err := a.Send(7, 0); err != nil {
		t.Fatal(err)
	}
	if fds, err := b.Recv(&text); err == nil {
		t.Errorf("a number arrives as a string, with %v", fds)
	}
	a.Close()
	if _, err := b.Recv(&text); !errors.Is(err, io.EOF) {
		t.Errorf("after hanging up: %v", err)
	}
}

// What was sent before hanging up arrives, although the other end hung up with
// something unread.
func TestConnLastWords(t *testing.T) {
	a, b := connPair(t)
	defer b.Close()
	for c, text := range map[*proto.Conn]string{a: "the end", b: "too late"} {
		if err := c.Send(text); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	var text string
	if err := b.RecvOnly(&text); err != nil || text != "the end" {
		t.Errorf("%q, %v", text, err)
	}
	if err := b.RecvOnly(&text); !errors.Is(err, io.EOF) {
		t.Errorf("after hanging up: %v", err)
	}
}

// The service manager is told, in both its spellings of an address.
func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Error(err)
	}
	for _, addr := range []string{filepath.Join(t.TempDir(), "n"), "@gorxe-test-" + strconv.Itoa(os.Getpid())} {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: addr, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", addr)
		if err := Notify("READY=1"); err != nil {
			t.Error(err)
		}
		var b [64]byte
		n, err := l.Read(b[:])
		if err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("%s: %q, %v", addr, b[:n], err)
		}
		l.Close()
	}
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()+1))
	if ln, err := Inherited(); ln != nil || err != nil {
		t.Errorf("another process's socket is taken: %v, %v", ln, err)
	}
}

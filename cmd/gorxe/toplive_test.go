package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// fakeDaemon answers one question of each connection, as the daemon does: with a status, or with no
// errors.
func fakeDaemon(t *testing.T, st *proto.Status) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			sock, err := l.AcceptUnix()
			if err != nil {
				return
			}
			f, err := sock.File()
			sock.Close()
			if err != nil {
				return
			}
			conn, err := proto.NewConn(f)
			if err != nil {
				return
			}
			var req proto.Request
			switch err := conn.RecvOnly(&req); {
			case err != nil:
			case req.Op == proto.OpErrors:
				conn.SendText([]byte("[]"))
			default:
				conn.SendText(text)
			}
			conn.Close()
		}
	}()
	return socket
}

// newScreen starts gorxe on a new terminal, and returns the terminal's other end.
func newScreen(t *testing.T, columns, rows int, args ...string) (master *os.File, wait func() error) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), resize(fd, columns, rows)); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd := self(t, args...)
	cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=", "COLUMNS=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	t.Cleanup(func() { timeout.Stop() })
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	return master, cmd.Wait
}

func resize(fd, columns, rows int) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
}

// TestTopLive: in a terminal, top fits it at 80 and 120 columns, follows its size, sorts by keys,
// has colors, and ends with q.
func TestTopLive(t *testing.T) {
	st := topStatus(map[string]uint64{"sent_packets": 1 << 50, "sent_bytes": 7, "retransmits": 9}, map[string]uint64{"sent_packets": 1, "sent_bytes": 1 << 50})
	st.Sessions[0].Processes[0].Name, st.Sessions[0].Label = "name-of-no-small-length", "a"
	socket := fakeDaemon(t, st)
	master, wait := newScreen(t, 80, 24, "top", "--socket", socket, "--interval", "1h")
	text := ""
	frame := func(want string) string {
		t.Helper()
		b := make([]byte, 1<<16)
		for !strings.Contains(text, want) {
			n, err := master.Read(b)
			if text += string(b[:n]); err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("%v, without %q in %q", err, want, text)
			}
		}
		seen := text
		text = ""
		for line := range strings.Lines(seen) {
			if wide := shown(strings.TrimRight(strings.TrimPrefix(line, homeAndClear), "\r\n")); wide > 80 && !strings.Contains(seen, "a name-of-no-small-length") {
				t.Errorf("%d columns: %q", wide, line)
			}
		}
		return seen
	}
	first := frame("q ends")
	if !strings.HasPrefix(first, homeAndClear) || !strings.Contains(first, "\x1b[33m") || !strings.Contains(first, "\x1b[1m") || !strings.Contains(first, " all ") {
		t.Errorf("the report is %q", first)
	}
	if strings.Index(first, "0xfffff0") > strings.Index(first, "0xfffff1") || strings.Contains(first, "a name-of-no-small") {
		t.Errorf("80 columns, by packets: %q", first)
	}
	if _, err := master.WriteString("xs"); err != nil {
		t.Fatal(err)
	}
	if by := frame("q ends"); strings.Index(by, "0xfffff0") < strings.Index(by, "0xfffff1") {
		t.Errorf("sorted by what was sent: %q", by)
	}
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = resize(int(fd), 120, 24) }); err != nil {
		t.Fatal(err)
	}
	if wide := frame("q ends"); err != nil || !strings.Contains(wide, "a name-of-no-small-length") {
		t.Errorf("%v; 120 columns: %q", err, wide)
	}
	if _, err := master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("q: %v", err)
	}
}

// TestSpark: the largest number has the tallest bar.
func TestSpark(t *testing.T) {
	if got := spark([]float64{0, 50, 100}) + spark([]float64{0}) + spark(nil); got != "▁▅█▁" {
		t.Error(got)
	}
}

// TestPaint: NO_COLOR and CLICOLOR_FORCE decide, and colors take no columns.
func TestPaint(t *testing.T) {
	for _, c := range []struct {
		no, force string
		want      bool
	}{{"", "", false}, {"", "1", true}, {"", "0", false}, {"1", "1", false}} {
		t.Setenv("NO_COLOR", c.no)
		t.Setenv("CLICOLOR_FORCE", c.force)
		var out strings.Builder
		if got := paintOf(&out); bool(got) != c.want {
			t.Errorf("NO_COLOR=%s CLICOLOR_FORCE=%s: %v", c.no, c.force, got)
		}
	}
	var out strings.Builder
	tab := newTable(&out)
	fmt.Fprintf(tab, "%s\tb\nlong\tc\n", paint(true).as(red, "a"))
	if err := tab.Flush(); err != nil || out.String() != "\x1b[31ma\x1b[0m     b\nlong  c\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}

package usersock

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// program is a socket as a program has it.
func program(t *testing.T) (fd int, port uint32) {
	t.Helper()
	fd, err := Open(unix.SOCK_RAW)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if port, err = Port(fd); err != nil || port == 0 {
		t.Fatalf("port %d: %v", port, err)
	}
	return fd, port
}

func newSender(t *testing.T, b *quota.Budget) *Sender {
	t.Helper()
	s, err := NewSender(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// receive takes one datagram, and waits for it.
func receive(t *testing.T, fd int) []byte {
	t.Helper()
	buf := make([]byte, 8192)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid == 0 {
		t.Fatalf("from %+v", from)
	}
	return buf[:n]
}

func TestSocket(t *testing.T) {
	fd, port := program(t)
	if !Is(fd) {
		t.Error("the socket is not recognised")
	}
	if again, err := Port(fd); err != nil || again != port {
		t.Errorf("port %d, then %d: %v", port, again, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if got, ok := PortOf(st.Ino); !ok || got != port {
		t.Errorf("by its inode it has port %d, %t; want %d", got, ok, port)
	}
	if _, ok := PortOf(st.Ino + 1<<40); ok {
		t.Error("a socket that does not exist has a port")
	}
	if Option(fd, unix.NETLINK_EXT_ACK) {
		t.Error("NETLINK_EXT_ACK is set")
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1); err != nil {
		t.Fatal(err)
	}
	if !Option(fd, unix.NETLINK_EXT_ACK) {
		t.Error("NETLINK_EXT_ACK is not seen")
	}
	if _, err := Open(unix.SOCK_STREAM); !errors.Is(err, unix.ESOCKTNOSUPPORT) {
		t.Errorf("a stream: %v", err)
	}
}

// TestOtherSockets: other sockets and files are not taken for one of these.
func TestOtherSockets(t *testing.T) {
	route, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(route)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	for _, fd := range []int{route, pair[0], -1} {
		if Is(fd) {
			t.Errorf("descriptor %d is taken for a socket of NETLINK_USERSOCK", fd)
		}
	}
}

func TestSend(t *testing.T) {
	s := newSender(t, quota.New(quota.Cost{}))
	fd, port := program(t)
	if err := s.Send(port, []byte("answer"), false); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, fd); string(got) != "answer" {
		t.Errorf("received %q", got)
	}
	if err := s.Send(port+1<<20, []byte("answer"), false); err != nil {
		t.Errorf("to nobody: %v", err)
	}
}

// fill sends datagrams of a dump, each with its number, until several wait.
func fill(t *testing.T, s *Sender, port uint32) (sent int) {
	t.Helper()
	for more := 100; more > 0; sent++ {
		if err := s.Send(port, numbered(sent), true); err != nil {
			t.Fatal(err)
		}
		if s.Waits(port) {
			more--
		}
	}
	return sent
}

func numbered(i int) []byte {
	b := bytes.Repeat([]byte{byte(i)}, 3776)
	b[0], b[1] = byte(i), byte(i>>8)
	return b
}

// TestLongDump: a dump that the socket has no room for arrives as the program reads, in order
// and whole. What is not of the dump is lost meanwhile.
func TestLongDump(t *testing.T) {
	b := quota.New(quota.Cost{})
	s := newSender(t, b)
	fd, port := program(t)
	sent := fill(t, s, port)
	if err := s.Send(port, bytes.Repeat([]byte("lost"), 944), false); err != nil {
		t.Errorf("to a socket that is full: %v", err)
	}
	for i := range sent {
		if got := receive(t, fd); !bytes.Equal(got, numbered(i)) {
			t.Fatalf("datagram %d of %d begins with %x", i, sent, got[:2])
		}
	}
	for s.Waits(port) {
		runtime.Gosched() // the sender takes note of the last datagram
	}
	if used := b.Used(); used != (quota.Cost{}) {
		t.Errorf("the budget still bears %+v", used)
	}
}

// TestSilentReader: a program that does not read holds up nobody, and what waits for it is
// bounded by the budget. When its socket is closed, nothing waits.
func TestSilentReader(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 1 << 20})
	s := newSender(t, b)
	silent, err := Open(unix.SOCK_RAW)
	if err != nil {
		t.Fatal(err)
	}
	port, err := Port(silent)
	for err == nil {
		err = s.Send(port, numbered(0), true)
	}
	if !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("a dump without end: %v", err)
	}
	fill(t, s, port)
	other, otherPort := program(t)
	if err := s.Send(otherPort, []byte("answer"), true); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, other); string(got) != "answer" {
		t.Errorf("the other program received %q", got)
	}
	unix.Close(silent)
	for s.Waits(port) {
		runtime.Gosched()
	}
	if used := b.Used(); used != (quota.Cost{}) {
		t.Errorf("the budget still bears %+v", used)
	}
}

// TestManySilentReaders: the sockets for which a dump waits are bounded.
func TestManySilentReaders(t *testing.T) {
	s := newSender(t, quota.New(quota.Cost{}))
	s.mu.Lock()
	for i := range maxDumps {
		s.waiting[uint32(1<<30+i)] = new(dump)
	}
	s.mu.Unlock()
	_, port := program(t)
	var err error
	for i := 0; err == nil; i++ {
		if s.Waits(port) {
			t.Fatal("one socket too many")
		}
		err = s.Send(port, numbered(i), true)
	}
	if !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("%v", err)
	}
}

// TestClose: what waits is dropped.
func TestClose(t *testing.T) {
	b := quota.New(quota.Cost{})
	s, err := NewSender(b)
	if err != nil {
		t.Fatal(err)
	}
	_, port := program(t)
	fill(t, s, port)
	s.Close()
	if used := b.Used(); used != (quota.Cost{}) {
		t.Errorf("the budget still bears %+v", used)
	}
	if err := s.Send(port, []byte("late"), false); !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("after Close: %v", err)
	}
}

package nlsocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

func yes() bool { return true }
func no() bool  { return false }

func open(t *testing.T, b *quota.Budget) *Socket {
	t.Helper()
	s, err := New(b, unix.SOCK_RAW)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readable reports what poll(2) says of the program's end.
func readable(t *testing.T, s *Socket) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, 0); err != nil {
		t.Fatal(err)
	}
	return fds[0].Revents&unix.POLLIN != 0
}

// TestNoSocketOfTheHost: what the program gets is no socket, so no ioctl reaches the network
// namespace, and nobody else can send to it.
func TestNoSocketOfTheHost(t *testing.T) {
	s := open(t, quota.New(quota.Cost{}))
	defer s.Close()
	var st unix.Stat_t
	if err := unix.Fstat(s.FD(), &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		t.Errorf("the descriptor has mode %#o, %v", st.Mode, err)
	}
	if _, err := s.Ioctl(nil, unix.SIOCGIFNAME, 0); err != unix.ENOTTY {
		t.Errorf("SIOCGIFNAME: %v", err)
	}
}

func TestTypes(t *testing.T) {
	for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET, 0, 77} {
		if _, err := New(quota.New(quota.Cost{}), typ); err != unix.ESOCKTNOSUPPORT {
			t.Errorf("type %d: %v", typ, err)
		}
	}
}

// TestQueue: datagrams arrive in order, poll agrees with the queue, and the budget bears what
// waits.
func TestQueue(t *testing.T) {
	b := quota.New(quota.Cost{})
	s := open(t, b)
	defer s.Close()
	idle := b.Used()
	if _, err := s.Receive(false); err != kernel.ErrWait || readable(t, s) {
		t.Errorf("empty: %v, readable %t", err, readable(t, s))
	}
	ready := 0
	s.OnReady(func() { ready++ })
	for i := range 3 {
		if err := s.Queue([]byte{byte(i)}, false); err != nil {
			t.Fatal(err)
		}
	}
	s.Sync()
	if ready != 3 || b.Used() == idle || !readable(t, s) {
		t.Errorf("ready %d times, %+v used, readable %t", ready, b.Used(), readable(t, s))
	}
	for i := range 3 {
		for _, peek := range []bool{true, false} {
			if d, err := s.Receive(peek); err != nil || !bytes.Equal(d, []byte{byte(i)}) {
				t.Errorf("datagram %d: %v, %v", i, d, err)
			}
		}
		if got := readable(t, s); got != (i < 2) {
			t.Errorf("after datagram %d it is readable: %t", i, got)
		}
	}
	if b.Used() != idle {
		t.Errorf("the budget bears %+v, and before %+v", b.Used(), idle)
	}
}

// TestSilentReader: what waits for a program that does not read is bounded by the receive buffer, a
// dump by the budget. Nothing is left after ENOBUFS and after Close.
func TestSilentReader(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 4 << 20, Files: 100})
	s := open(t, b)
	defer b.BeforeRefusal(func() {
		if !s.mu.TryLock() {
			t.Error("the socket is locked while others give back what is not needed")
			return
		}
		s.mu.Unlock()
	})()
	idle := b.Used()
	for range 1000 {
		if err := s.Queue(make([]byte, 4000), false); err != nil {
			t.Fatal(err)
		}
	}
	if used := b.Used().Memory - idle.Memory; used < defaultBuffer || used > defaultBuffer+8000 {
		t.Errorf("%d bytes wait", used)
	}
	if !s.Dumping() {
		t.Error("there is room for a dump")
	}
	var err error
	for i := 0; err == nil; i++ {
		if i > 4<<20/4000 {
			t.Fatal("a dump has no bound")
		}
		err = s.Queue(make([]byte, 4000), true)
	}
	s.Sync()
	if !errors.Is(err, unix.ENOBUFS) || b.Used() != idle || readable(t, s) || s.Dumping() {
		t.Errorf("%v; %+v used, readable %t", err, b.Used(), readable(t, s))
	}
	if err := s.Queue([]byte("last"), false); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := s.Queue([]byte("late"), true); err != nil {
		t.Errorf("after Close: %v", err)
	}
	quotatest.WantGiven(t, b)
}

func TestAddress(t *testing.T) {
	one, two := open(t, quota.New(quota.Cost{})), open(t, quota.New(quota.Cost{}))
	defer one.Close()
	defer two.Close()
	if port, groups := one.Address(); port != 0 || groups != 0 {
		t.Errorf("a new socket has %d, %d", port, groups)
	}
	err := one.Bind(0, 0)
	port := one.Port()
	if again := one.Port(); err != nil || port == 0 || again != port || two.Port() == port {
		t.Errorf("%v; ports %d, %d and %d", err, port, again, two.Port())
	}
	if err := one.Bind(port, 3); err != nil {
		t.Error(err)
	}
	if _, groups := one.Address(); groups != 3 {
		t.Errorf("groups %d", groups)
	}
	if err := one.Bind(77, 0); err != unix.EINVAL {
		t.Errorf("another port: %v", err)
	}
	three := open(t, quota.New(quota.Cost{}))
	defer three.Close()
	if three.Bind(77, 0) != nil || three.Port() != 77 {
		t.Errorf("port %d", three.Port())
	}
}

func TestOptions(t *testing.T) {
	s := open(t, quota.New(quota.Cost{}))
	defer s.Close()
	word := func(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }
	time := func(sec, usec int64) []byte {
		return binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(sec)), uint64(usec))
	}
	const socket, netlink = unix.SOL_SOCKET, unix.SOL_NETLINK
	for _, tt := range []struct {
		level, name int32
		set         []byte // nil: it is only read
		admin       func() bool
		err         error
		want        []byte // nil: it is not read
	}{
		{socket, unix.SO_DOMAIN, nil, no, nil, word(unix.AF_NETLINK)},
		{socket, unix.SO_TYPE, nil, no, nil, word(unix.SOCK_RAW)},
		{socket, unix.SO_PROTOCOL, nil, no, nil, word(unix.NETLINK_RDMA)},
		{socket, unix.SO_ERROR, nil, no, nil, word(0)},
		{socket, unix.SO_RCVBUF, nil, no, nil, word(defaultBuffer)},
		{socket, unix.SO_RCVBUF, word(1), no, nil, word(leastBuffer)},
		{socket, unix.SO_RCVBUF, word(1 << 30), no, nil, word(2 * mostBuffer)},
		{socket, unix.SO_SNDBUF, word(32768), no, nil, word(65536)},
		{socket, unix.SO_RCVBUFFORCE, word(1 << 30), no, unix.EPERM, nil},
		{socket, unix.SO_RCVBUFFORCE, word(1 << 30), yes, nil, nil},
		{socket, unix.SO_RCVBUF, nil, no, nil, word(2 * forcedBuffer)},
		{socket, unix.SO_RCVTIMEO, time(3, 500000), no, nil, time(3, 500000)},
		{socket, unix.SO_RCVTIMEO_NEW, nil, no, nil, time(3, 500000)},
		{socket, unix.SO_RCVTIMEO, time(3, 1e6), no, unix.EDOM, time(3, 500000)},
		{socket, unix.SO_RCVTIMEO, word(3), no, unix.EINVAL, nil},
		{socket, unix.SO_ATTACH_FILTER, time(0, 0), yes, unix.ENOPROTOOPT, nil},
		{socket, unix.SO_PASSCRED, word(1), no, unix.ENOPROTOOPT, nil},
		{netlink, unix.NETLINK_EXT_ACK, nil, no, nil, word(0)},
		{netlink, unix.NETLINK_EXT_ACK, word(7), no, nil, word(1)},
		{netlink, unix.NETLINK_EXT_ACK, []byte{1}, no, unix.EINVAL, nil},
		{netlink, unix.NETLINK_ADD_MEMBERSHIP, word(4), no, unix.EPERM, nil},
		{netlink, unix.NETLINK_ADD_MEMBERSHIP, word(40), yes, unix.EINVAL, nil},
		{netlink, unix.NETLINK_ADD_MEMBERSHIP, word(4), yes, nil, nil},
		{netlink, 77, word(1), yes, unix.ENOPROTOOPT, nil},
		{unix.SOL_TCP, 1, word(1), yes, unix.ENOPROTOOPT, nil},
	} {
		name := fmt.Sprintf("option %d of level %d", tt.name, tt.level)
		if tt.set != nil {
			if err := s.SetOption(tt.level, tt.name, tt.set, tt.admin); err != tt.err {
				t.Errorf("%s set to %x: %v, want %v", name, tt.set, err, tt.err)
			}
		}
		if tt.want != nil {
			if got, err := s.Option(tt.level, tt.name); err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%s is %x, %v; want %x", name, got, err, tt.want)
			}
		}
	}
	if !s.IsSet(unix.NETLINK_EXT_ACK) || s.IsSet(unix.NETLINK_CAP_ACK) {
		t.Error("IsSet")
	}
	if _, groups := s.Address(); groups != 1<<3 {
		t.Errorf("groups %#x", groups)
	}
	if _, err := s.Option(unix.SOL_NETLINK, unix.NETLINK_PKTINFO); err != unix.ENOPROTOOPT {
		t.Errorf("NETLINK_PKTINFO: %v", err)
	}
}

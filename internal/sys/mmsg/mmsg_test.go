package mmsg

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// pair returns two connected sockets for messages.
func pair(t *testing.T) (out Conn, in int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must.OK(t, err)
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	c := must.Get[net.Conn](t)(net.FileConn(f))
	t.Cleanup(func() { c.Close(); unix.Close(fds[1]) })
	raw, err := c.(*net.UnixConn).SyscallConn()
	must.OK(t, err)
	return raw, fds[1]
}

// TestFrames: more frames than one call takes arrive in their order, each with the head.
func TestFrames(t *testing.T) {
	out, in := pair(t)
	const n = 2*batchLen + 3
	var frames [][]byte
	for i := range n {
		frames = append(frames, fmt.Appendf(nil, "frame %d", i))
	}
	for _, head := range [][]byte{nil, []byte("head ")} {
		if sent := SendFrames(out, head, frames, 0); sent != n {
			t.Fatalf("sent %d of %d", sent, n)
		}
		b := NewInbox(20, 0, 4)
		var got [][]byte
		for len(got) < n {
			m, errno := b.Receive(in)
			if errno != 0 {
				t.Fatalf("after %d frames: %v", len(got), errno)
			}
			for i := range m {
				data, control, whole := b.Message(i)
				if !whole || len(control) != 0 || cap(data) < len(data)+4 {
					t.Errorf("whole: %v, %d bytes of control messages, room for %d", whole, len(control), cap(data))
				}
				got = append(got, bytes.Clone(data))
			}
		}
		for i, f := range got {
			if want := append(bytes.Clone(head), frames[i]...); !bytes.Equal(f, want) {
				t.Errorf("frame %d is %q, want %q", i, f, want)
			}
		}
		if _, errno := b.Receive(in); errno != unix.EAGAIN {
			t.Errorf("nothing is there: %v", errno)
		}
	}
}

// TestTooLong: a frame that the socket never takes is left out, and one that is longer than the
// room says so.
func TestTooLong(t *testing.T) {
	out, in := pair(t)
	must.OK(t, out.Control(func(fd uintptr) { must.OK(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10)) }))
	if sent := SendFrames(out, nil, [][]byte{[]byte("first"), make([]byte, 1<<20), []byte("the last")}, 0); sent != 2 {
		t.Errorf("sent %d", sent)
	}
	b := NewInbox(5, 0, 0)
	if n, errno := b.Receive(in); n != 2 || errno != 0 {
		t.Fatal(n, errno)
	}
	for i, want := range []bool{true, false} {
		if data, _, whole := b.Message(i); whole != want {
			t.Errorf("%q is whole: %v", data, whole)
		}
	}
}

// TestFull: a socket without room takes some frames, and nothing waits.
func TestFull(t *testing.T) {
	out, in := pair(t)
	var frames [][]byte
	for range 1 << 14 {
		frames = append(frames, make([]byte, 1<<10))
	}
	sent := SendFrames(out, nil, frames, 0)
	if sent == 0 || sent == len(frames) {
		t.Errorf("sent %d of %d", sent, len(frames))
	}
	must.OK(t, unix.Shutdown(in, unix.SHUT_RDWR))
	if n := SendFrames(out, nil, frames, unix.MSG_NOSIGNAL); n != 0 {
		t.Errorf("sent %d to nobody", n)
	}
}

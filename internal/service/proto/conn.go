package proto

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of one message. Longer text, such as a status, is sent in parts (SendText).
const (
	MaxMessage = 16 << 10
	maxFDs     = 2
)

// Conn is one end of a SOCK_SEQPACKET socket. A message has one JSON text and up to maxFDs
// descriptors. Several goroutines may call Send, one may call Recv.
type Conn struct {
	Sock *net.UnixConn
	mu   sync.Mutex // Send
}

// Arrival is a connection that a program in a container has made.
type Arrival struct {
	Sock  *net.UnixConn
	Place Place // of the container
}

// NewConn takes over a socket that was inherited or received.
func NewConn(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%s is no socket: %w", f.Name(), err)
	}
	sock, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("%s is no unix socket", f.Name())
	}
	return &Conn{Sock: sock}, nil
}

// Pair makes a pair of connected sockets, for NewConn and for a child.
func Pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "socketpair"), os.NewFile(uintptr(fds[1]), "socketpair"), nil
}

// Close ends the connection; a Recv that waits returns an error.
func (c *Conn) Close() {
	c.Sock.Close() //nolint:errcheck // nothing is buffered in it
}

// File returns a duplicate of the socket for a child process.
func (c *Conn) File() (*os.File, error) { return c.Sock.File() }

// Peer returns the credentials of the other process.
func (c *Conn) Peer() (unix.Ucred, error) {
	raw, err := c.Sock.SyscallConn()
	if err != nil {
		return unix.Ucred{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return unix.Ucred{}, err
	}
	if credErr != nil {
		return unix.Ucred{}, credErr
	}
	return *cred, nil
}

// Send sends msg and fds. The caller keeps fds.
func (c *Conn) Send(msg any, fds ...int) error {
	text, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	if len(text) > MaxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(text), MaxMessage)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _, err = c.Sock.WriteMsgUnix(text, oob, nil)
	return err
}

// errTruncated: a message was longer than the limit.
var errTruncated = errors.New("message or descriptors truncated")

// Recv receives a message into msg. It returns the descriptors that came with it. They are
// close-on-exec, and the caller must close them. If the other end has closed, it returns
// io.EOF.
func (c *Conn) Recv(msg any) (fds []int, err error) {
	text := make([]byte, MaxMessage)
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	n, oobn, flags, _, err := c.Sock.ReadMsgUnix(text, oob)
	if errors.Is(err, unix.ECONNRESET) {
		// The other end closed with something unread. The kernel reports that once,
		// before the messages that this end sent, which may say why
		// (net/core/datagram.c: __skb_try_recv_datagram).
		n, oobn, flags, _, err = c.Sock.ReadMsgUnix(text, oob)
	}
	if err != nil {
		return nil, err
	}
	fds, err = rights(oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errTruncated
	}
	if err == nil {
		err = json.Unmarshal(text[:n], msg)
	}
	if err != nil {
		CloseAll(fds)
		return nil, err
	}
	return fds, nil
}

// RecvOnly is Recv for messages without descriptors. It closes any that come.
func (c *Conn) RecvOnly(msg any) error {
	fds, err := c.Recv(msg)
	CloseAll(fds)
	return err
}

// RecvWithin is Recv with a timeout.
func (c *Conn) RecvWithin(msg any, timeout time.Duration) (fds []int, err error) {
	if err := c.Sock.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if fds, err = c.Recv(msg); err != nil {
		return nil, err
	}
	return fds, c.Sock.SetReadDeadline(time.Time{})
}

// rights returns the descriptors in control messages.
func rights(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds, nil
}

func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

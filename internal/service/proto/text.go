package proto

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
)

// Seen is a device as programs find it in /sys and /dev.
type Seen = tree.Seen

// Attribute is a file of sysfs.
type Attribute = tree.Attribute

// Seen returns what programs find of the daemon's devices.
func (c *Client) Seen() ([]Seen, error) {
	var list []Seen
	err := c.text(OpSeen, &list)
	return list, err
}

const (
	maxText  = 64 << 20 // what a client reads
	partSize = 8 << 10  // fits into a message as base64
)

// SendText sends a JSON text that may be longer than a message. It returns when the client
// has confirmed it, or closed the connection, and the kernel holds nothing of it any more.
// Until then the kernel holds at most a socket's buffer.
func (c *Conn) SendText(text []byte) {
	var err error
	for more := true; more && err == nil; {
		part := text[:min(len(text), partSize)]
		text = text[len(part):]
		more = len(text) > 0
		err = c.Send(Reply{Version: ProtocolVersion, Part: part, More: more})
	}
	if err == nil {
		c.RecvOnly(new(Request)) //nolint:errcheck // what comes is only a hint
	}
	// A client may confirm what it has not read. If this end were closed, the messages would
	// stay in the client's queue.
	for c.unread() > 0 {
		time.Sleep(unreadPoll)
	}
}

const unreadPoll = 100 * time.Millisecond

// unread returns how many bytes the kernel holds for the other end (SIOCOUTQ, unix(7)): 0 if
// that has closed, or if this end has.
func (c *Conn) unread() (n int) {
	raw, err := c.Sock.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }) //nolint:errcheck // closed: 0
	return n
}

// text makes a request whose answer comes in parts.
func (c *Client) text(op string, v any) error {
	return c.textOf(Request{Op: op}, v)
}

func (c *Client) textOf(req Request, v any) error {
	r, fds, err := c.Call(req)
	if err != nil {
		return err
	}
	CloseAll(fds)
	text := r.Part
	for err == nil && r.More {
		r = Reply{}
		if err = c.Conn.RecvOnly(&r); err == nil {
			err = r.err()
		}
		if text = append(text, r.Part...); len(text) > maxText {
			err = errors.New("it is too long")
		}
	}
	if err == nil {
		c.Conn.Send(Request{Version: ProtocolVersion, Op: OpRead}) //nolint:errcheck // all is here
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("the daemon's answer to the request %q: %w", req.Op, err)
	}
	return nil
}

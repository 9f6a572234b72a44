package proto

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/trap/filter"
)

// Client is the connection of a keeper or of `gorxe status` to a daemon.
type Client struct {
	Conn *Conn
	path string
	// Recorded is how many errors the session had, once Questions has returned; 0: none, or the
	// daemon is gone.
	Recorded uint64
}

// Dial connects to the first daemon that is reachable at one of paths. It returns ErrNoDaemon if
// there is none. A daemon that refuses this user, or that this user must not trust, counts as none,
// unless its socket is the first of paths: then the user asked for it.
func Dial(paths []string) (*Client, error) {
	var none error
	for i, path := range paths {
		conn, err := Connect(path)
		switch {
		case err == nil:
			return &Client{Conn: conn, path: path}, nil
		case i > 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errUntrusted)):
			none = fmt.Errorf("%w; %w", none, err)
		case !errors.Is(err, ErrNoDaemon):
			return nil, err
		case none == nil:
			none = err
		}
	}
	return nil, none
}

// Inherit takes over the connection of a Client in another process.
func Inherit(f *os.File) (*Client, error) {
	conn, err := NewConn(f)
	if err != nil {
		return nil, err
	}
	return &Client{Conn: conn}, nil
}

// Close ends the connection; Questions returns.
func (c *Client) Close() { c.Conn.Close() }

// finishTimeout bounds the wait for a daemon that does not close its end.
const finishTimeout = 5 * time.Second

// Finish is Close for a client that has no more to ask. If the daemon ends with this client, Finish
// returns when the daemon has given up its socket and its ports.
func (c *Client) Finish() {
	if c.Conn.Sock.CloseWrite() == nil {
		fds, _ := c.Conn.RecvWithin(new(Reply), finishTimeout) //nolint:errcheck // the end of the connection is one
		CloseAll(fds)
	}
	c.Close()
}

// File returns a duplicate of the connection for a child process.
func (c *Client) File() (*os.File, error) { return c.Conn.File() }

// Socket returns the path that Dial used.
func (c *Client) Socket() string { return c.path }

// Call sends a request and receives its reply.
func (c *Client) Call(req Request, fds ...int) (Reply, []int, error) {
	req.Version = ProtocolVersion
	var r Reply
	if err := c.Conn.Send(req, fds...); err != nil {
		return r, nil, c.broken(err)
	}
	got, err := c.Conn.Recv(&r)
	if err != nil {
		return r, nil, c.broken(err)
	}
	if err := r.err(); err != nil {
		CloseAll(got)
		return r, nil, err
	}
	return r, got, nil
}

// broken returns ErrEnding for a daemon that closed the connection. A daemon that ends does
// so to clients that it has not accepted.
func (c *Client) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrEnding
	}
	return fmt.Errorf("the daemon's socket: %w", err)
}

// Hello announces a session of command. From then on the daemon waits for it. After
// ErrEnding the caller should look for a daemon again.
func (c *Client) Hello(command []string, wanted Wanted) (Hello, error) {
	r, fds, err := c.Call(Request{Op: OpHello, Command: shorten(command), Wanted: wanted})
	CloseAll(fds)
	if err != nil {
		return Hello{}, err
	}
	if r.Hello == nil {
		return Hello{}, ErrVersion
	}
	return *r.Hello, nil
}

// shorten makes a command fit into a message. The command is only shown to people.
func shorten(command []string) []string {
	const room = 1024
	out, n := []string(nil), 0
	for _, arg := range command {
		if n+len(arg) > room {
			return append(out, "…")
		}
		out, n = append(out, arg), n+len(arg)
	}
	return out
}

// Attachment is the program that a keeper hands over.
type Attachment struct {
	Listener *os.File
	FDs      filter.Range
	Program  int // the process that becomes the program
	// NoAccess says why the keeper cannot open the program's memory. It is nil if it can.
	NoAccess error
}

// Attach hands a program over. It fails if neither daemon nor keeper can open the program's memory.
// After it, only Questions may be called. It returns the file of the calls that the daemon has in
// hand (inflight.Open).
func (c *Client) Attach(a Attachment) (calls *os.File, err error) {
	req := Request{Op: OpAttach, PID: os.Getpid(), Program: a.Program, FDBase: a.FDs.Base, FDCount: a.FDs.Count, FDTop: a.FDs.Top}
	if a.NoAccess != nil {
		req.NoAccess = a.NoAccess.Error()
	}
	_, got, err := c.Call(req, int(a.Listener.Fd()))
	if err != nil {
		return nil, err
	}
	if len(got) != 1 {
		CloseAll(got)
		return nil, errors.New("the daemon sent no file of the calls in hand")
	}
	return os.NewFile(uintptr(got[0]), "calls in hand"), nil
}

// Rights are what a keeper may do with a process of its program, when the daemon may not.
type Rights interface {
	OpenMem(pidfd int) (*os.File, error)
	Stat(pidfd int, fd int32) (fdid.ID, error)
}

// Questions answers the daemon's questions until the daemon has ended the session, or is
// gone. It calls say, if not nil, with messages for the user.
func (c *Client) Questions(rights Rights, say func(string)) error {
	for {
		var r Reply
		fds, err := c.Conn.Recv(&r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if r.Say != "" && say != nil {
			say(r.Say)
		}
		c.Recorded = max(c.Recorded, r.Errors)
		if r.Question == 0 || len(fds) != 1 {
			CloseAll(fds)
			continue // of a newer daemon, which needs no answer
		}
		err = c.answer(&r, fds[0], rights)
		CloseAll(fds)
		if err != nil {
			return c.broken(err)
		}
	}
}

func (c *Client) answer(r *Reply, pidfd int, rights Rights) error {
	req := Request{Version: ProtocolVersion, Op: OpAnswer, ID: r.Question}
	var mem *os.File
	err := error(unix.ENOSYS)
	switch r.Ask {
	case AskMem:
		mem, err = rights.OpenMem(pidfd)
	case AskStat:
		var id fdid.ID
		id, err = rights.Stat(pidfd, r.FD)
		req.Dev, req.Ino = id.Dev, id.Ino
	}
	if err != nil {
		errno := unix.EPERM
		errors.As(err, &errno)
		req.Errno = int(errno)
		return c.Conn.Send(req)
	}
	if mem == nil {
		return c.Conn.Send(req)
	}
	defer mem.Close()
	return c.Conn.Send(req, int(mem.Fd()))
}

// Containers returns what a daemon of containers has, of its control socket.
func (c *Client) Containers() (*PodStatus, error) {
	st := new(PodStatus)
	if err := c.text(OpStatus, st); err != nil {
		return nil, err
	}
	return st, nil
}

// Status returns the devices and sessions of the daemon.
func (c *Client) Status() (*Status, error) {
	st := new(Status)
	if err := c.text(OpStatus, st); err != nil {
		return nil, err
	}
	return st, nil
}

package joint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
)

// sockets is the pattern of the sockets in a directory.
const sockets = "gorxe-segment-*.sock"

// Joint is what joins a segment of this process to others.
type Joint struct {
	segment  *segment.Segment
	payer    *quota.Budget
	listener *net.UnixListener
	log      *slog.Logger

	mu     sync.Mutex // below
	closed bool
	links  map[*link]struct{}
	ending sync.WaitGroup
}

// Open joins a segment to those of all processes that have joined in a directory, which it makes if
// there is none. Nobody but this user may write there. payer pays for each of the others.
func Open(dir string, s *segment.Segment, payer *quota.Budget, log *slog.Logger) (j *Joint, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("segment %s: %w", dir, err)
		}
	}()
	lock, err := lockDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	there, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	j = &Joint{segment: s, payer: payer, log: log.With("segment", dir), links: make(map[*link]struct{})}
	for _, e := range there {
		if is, _ := filepath.Match(sockets, e.Name()); is {
			j.dial(filepath.Join(dir, e.Name()))
		}
	}
	path := filepath.Join(dir, "gorxe-segment-"+rand.Text()[:8]+".sock")
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		j.Close()
		return nil, errors.New("the path is longer than a unix socket's may be: choose another directory")
	}
	if j.listener, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}); err != nil {
		j.Close()
		return nil, err
	}
	j.ending.Go(j.accept)
	return j, nil
}

// lockDirectory returns the directory, which no other process has locked, so that only one process
// joins at a time. Closing it unlocks it.
func lockDirectory(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		err = private(&st)
	}
	for end := time.Now().Add(lockTime); err == nil; time.Sleep(lockPause) {
		switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return f, nil
		case err != unix.EWOULDBLOCK:
		case time.Now().After(end):
			err = errors.New("another process has it locked: end that one, or choose another directory")
		default:
			err = nil
		}
	}
	f.Close()
	return nil, err
}

// private returns nil if nobody but this user makes sockets in a directory.
func private(st *unix.Stat_t) error {
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("the directory belongs to user %d: choose one of user %d", st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others may write to the directory (mode %#o): chmod go-w", st.Mode&0o777)
	}
	return nil
}

// dial connects to a process that has joined. Of a dead one it removes the socket.
func (j *Joint) dial(path string) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	switch {
	case err == nil:
		j.adopt(conn)
	case errors.Is(err, unix.ECONNREFUSED):
		os.Remove(path) //nolint:errcheck // what stays does no harm
	case !errors.Is(err, fs.ErrNotExist):
		j.log.Warn("a process on the segment cannot be reached", "socket", path, "error", err)
	}
}

func (j *Joint) accept() {
	for {
		conn, err := j.listener.AcceptUnix()
		switch {
		case err == nil:
			j.adopt(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(lockPause) // too many descriptors, which may pass
		}
	}
}

// adopt makes a connection a link, if this user's process is at its other end.
func (j *Joint) adopt(conn *net.UnixConn) {
	l, err := newLink(j, conn)
	if err == nil {
		err = j.pay(l)
	}
	if err != nil {
		j.log.Warn("refused a process on the segment", "error", err)
		conn.Close() //nolint:errcheck // it is of no use
	}
}

// pay adds a link if the user has room for it.
func (j *Joint) pay(l *link) error {
	if err := j.payer.Take(l.cost); err != nil {
		return err
	}
	err := j.add(l)
	if err != nil {
		j.payer.Give(l.cost)
	}
	return err
}

func (j *Joint) add(l *link) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return net.ErrClosed
	case len(j.links) >= maxLinks:
		return fmt.Errorf("the segment has %d others already", maxLinks)
	}
	j.links[l] = struct{}{}
	l.trunk = j.segment.Connect(l)
	j.ending.Go(func() {
		l.run()
		l.trunk.Leave()
		j.payer.Give(l.cost)
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.links, l)
	})
	return nil
}

// Len returns how many other processes are joined.
func (j *Joint) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.links)
}

// Close leaves the segment, and removes the socket.
func (j *Joint) Close() {
	j.mu.Lock()
	j.closed = true
	for l := range j.links {
		l.conn.Close() //nolint:errcheck // run returns
	}
	j.mu.Unlock()
	if j.listener != nil {
		j.listener.Close() //nolint:errcheck // it removes the socket
	}
	j.ending.Wait()
}

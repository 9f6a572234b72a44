package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// socketFile is a listening socket and its path.
type socketFile struct {
	*net.UnixListener
	path string
	lock *os.File // held until everything is released; nil if systemd made the socket
	tidy bool     // unlock removes the lock's file
}

// listen makes the socket at path, and replaces the socket of a dead daemon. A lock beside
// the socket ensures that only one of two daemons does so.
func listen(path string, mode fs.FileMode, group string) (*socketFile, error) {
	lock, err := proto.LockSocket(path)
	switch {
	case errors.Is(err, proto.ErrDaemonRuns):
		return nil, fmt.Errorf("%w at %s: stop it, or choose another socket with --socket", err, path)
	case err != nil:
		return nil, fmt.Errorf("socket %s: %w: choose another place with --socket", path, err)
	}
	s, err := listenLocked(lock, path, mode, group)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

func listenLocked(lock *os.File, path string, mode fs.FileMode, group string) (*socketFile, error) {
	conn, err := proto.Connect(path)
	switch {
	case err == nil:
		conn.Close()
		return nil, fmt.Errorf("%w at %s: stop it, or choose another socket with --socket", proto.ErrDaemonRuns, path)
	case !errors.Is(err, proto.ErrNoDaemon):
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The socket has its mode from the first moment.
	old := unix.Umask(0o777)
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w: choose another place with --socket", path, err)
	}
	ln.SetUnlinkOnClose(false) // close does it, in the right order
	s := &socketFile{UnixListener: ln, path: path, lock: lock}
	if err := s.permit(mode, group); err != nil {
		ln.Close()      //nolint:errcheck // as below
		os.Remove(path) //nolint:errcheck // it is useless, and replaced next time
		return nil, err
	}
	return s, nil
}

// removeStale removes a socket that no process listens on, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: choose another with --socket", path)
	}
	return os.Remove(path)
}

// permit sets which users may connect.
func (s *socketFile) permit(mode fs.FileMode, group string) error {
	if group != "" {
		g, err := user.LookupGroup(group)
		if err != nil {
			return fmt.Errorf("socket group: %w", err)
		}
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			return fmt.Errorf("socket group %s: %w", group, err)
		}
		if err := os.Chown(s.path, -1, gid); err != nil {
			return fmt.Errorf("socket group %s: %w", group, err)
		}
	}
	return os.Chmod(s.path, mode)
}

// withdraw removes the path and stops listening, so no new client arrives.
func (s *socketFile) withdraw() {
	if s == nil {
		return
	}
	if s.lock != nil {
		os.Remove(s.path) //nolint:errcheck // the next daemon replaces what is left
	}
	s.Close() //nolint:errcheck // nothing is buffered in it
}

// unlock lets another daemon have the path. It must come last: the other daemon may use the
// same devices, and this one must not remove its socket.
func (s *socketFile) unlock() {
	if s.lock == nil {
		return
	}
	if s.tidy {
		os.Remove(s.lock.Name()) //nolint:errcheck // a file that is left does no harm
	}
	s.lock.Close()
}

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// EnvSocket is the environment variable with the path of the daemon's socket.
const EnvSocket = "GORXE_SOCKET"

const systemSocket = "/run/gorxe.sock"

// ErrNoDaemon: no daemon listens.
var ErrNoDaemon = errors.New("no daemon is reachable")

// ErrDaemonRuns: the socket has a daemon already.
var ErrDaemonRuns = errors.New("a daemon is running already")

// Sockets returns the paths where clients look for a daemon, in order. A daemon of this user
// listens at the first. flag is the value of --socket.
func Sockets(flag string) ([]string, error) {
	if flag == "" {
		flag = os.Getenv(EnvSocket)
	}
	if flag != "" {
		path, err := filepath.Abs(flag) // a daemon has another working directory
		return []string{path}, err
	}
	// Root of an unprivileged container may have no rights in /run.
	if os.Geteuid() == 0 && unix.Access(filepath.Dir(systemSocket), unix.W_OK) == nil {
		return []string{systemSocket}, nil
	}
	own, err := userSocket()
	if err != nil {
		return nil, err
	}
	return []string{own, systemSocket}, nil
}

// userSocket returns a path in the user's runtime directory. Without one, it is in a directory
// in /tmp that belongs to the user and that no other user can write to.
func userSocket() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "gorxe.sock"), nil
	}
	dir := filepath.Join(os.TempDir(), "gorxe-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return "", fmt.Errorf("%s is not a directory of this user's alone: set XDG_RUNTIME_DIR or %s to a better place", dir, EnvSocket)
	}
	return filepath.Join(dir, "gorxe.sock"), nil
}

// dial connects to the daemon at path. If no process listens, the error is ErrNoDaemon.
func dial(path string) (*Conn, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		return nil, fmt.Errorf("socket %s: the path is longer than a unix socket's may be: choose another with --socket", path)
	}
	sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	switch {
	case err == nil:
		return &Conn{sock: sock}, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%w at %s: start one with `gorxe daemon`", ErrNoDaemon, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: %w: ask for membership of its group (see ls -l), or choose another socket with --socket", path, fs.ErrPermission)
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("socket %s belongs to another program: choose another with --socket", path)
	}
	return nil, fmt.Errorf("socket %s: %w", path, err)
}

// socketFile is a listening socket and its path.
type socketFile struct {
	*net.UnixListener
	path string
	lock *os.File // held until everything is released; nil if systemd made the socket
}

// listen makes the socket at path, and replaces the socket of a dead daemon. A lock beside
// the socket ensures that only one of two daemons does so.
func listen(path string, mode fs.FileMode, group string) (*socketFile, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
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
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%w at %s: stop it, or choose another socket with --socket", ErrDaemonRuns, path)
	}
	conn, err := dial(path)
	switch {
	case err == nil:
		conn.Close()
		return nil, fmt.Errorf("%w at %s: stop it, or choose another socket with --socket", ErrDaemonRuns, path)
	case !errors.Is(err, ErrNoDaemon):
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
	if s.lock != nil {
		os.Remove(s.path) //nolint:errcheck // the next daemon replaces what is left
	}
	s.Close() //nolint:errcheck // nothing is buffered in it
}

// unlock lets another daemon have the path. It must come last: the other daemon may use the
// same devices, and this one must not remove its socket.
func (s *socketFile) unlock() {
	if s.lock != nil {
		s.lock.Close()
	}
}

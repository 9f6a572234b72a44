package proto

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// EnvSocket is the environment variable with the path of the daemon's socket.
const EnvSocket = "GORXE_SOCKET"

const SystemSocket = "/run/gorxe.sock"

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
	if os.Geteuid() == 0 && unix.Access(filepath.Dir(SystemSocket), unix.W_OK) == nil {
		return []string{SystemSocket}, nil
	}
	own, err := userSockets(os.Geteuid())
	if err != nil {
		return nil, err
	}
	return append(own, SystemSocket), nil
}

// Connect connects to the daemon at path. If no process listens, the error is ErrNoDaemon. If the one that
// listens is another user's, it is ErrUntrusted.
func Connect(path string) (*Conn, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		return nil, fmt.Errorf("socket %s: the path is longer than a unix socket's may be: choose another with --socket", path)
	}
	sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	switch {
	case err == nil:
		conn := &Conn{Sock: sock}
		if err := conn.checkDaemon(path); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%w at %s: start one with `gorxe daemon`", ErrNoDaemon, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: %w: ask for membership of its group (see ls -l), or choose another socket with --socket", path, fs.ErrPermission)
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("socket %s belongs to another program: choose another with --socket", path)
	}
	return nil, fmt.Errorf("socket %s: %w", path, err)
}

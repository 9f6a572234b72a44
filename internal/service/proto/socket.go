package proto

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

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
	own, err := ownSockets()
	if err != nil || own[0] == SystemSocket {
		return own, err
	}
	return append(own, SystemSocket), nil
}

// ownSockets returns where a daemon of this user may listen. A new one listens at the first.
func ownSockets() ([]string, error) {
	// Root of an unprivileged container may have no rights in /run.
	if os.Geteuid() == 0 && unix.Access(filepath.Dir(SystemSocket), unix.W_OK) == nil {
		return []string{SystemSocket}, nil
	}
	return userSockets(os.Geteuid())
}

// besideOwn returns a path beside the socket of a daemon of this user.
func besideOwn(name string) (string, error) {
	own, err := ownSockets()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(own[0]), name), nil
}

// NetworkSocket returns where a daemon of this user listens, if the usual socket has the daemon of
// a run in another network namespace.
func NetworkSocket() (string, error) {
	return besideOwn(fmt.Sprintf("gorxe-net-%d.sock", ThisNetwork()))
}

// ThisNetwork returns the inode of this process's network namespace; 0: unknown.
func ThisNetwork() uint64 {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		return 0
	}
	return st.Ino
}

// privateSockets is the pattern of the sockets that PrivateSocket returns, without their directory.
const privateSockets = "gorxe-private-*.sock"

// PrivateSocket returns a path for the socket of a daemon of one run. No other call returns the
// same one. It removes the sockets that such daemons have left that were killed.
func PrivateSocket() (string, error) {
	path, err := besideOwn(strings.Replace(privateSockets, "*", rand.Text()[:8], 1))
	if err != nil {
		return "", err
	}
	RemoveDead(filepath.Dir(path), privateSockets)
	return path, nil
}

// PrivateSockets returns the sockets of such daemons of this user that listen now.
func PrivateSockets() (live []string) {
	dir, err := OwnDirectory()
	if err != nil {
		return nil
	}
	there, _ := os.ReadDir(dir) // without it, there are none
	for _, e := range there {
		path := filepath.Join(dir, e.Name())
		if is, _ := filepath.Match(privateSockets, e.Name()); !is {
			continue
		}
		if client, err := Dial([]string{path}); err == nil {
			client.Close()
			live = append(live, path)
		}
	}
	return live
}

// RemoveDead removes the sockets in a directory that daemons have left that were killed. pattern is
// that of their names (path.Match).
func RemoveDead(dir, pattern string) {
	there, _ := os.ReadDir(dir) // without it, nothing is removed
	for _, e := range there {
		if is, _ := filepath.Match(pattern+LockSuffix, e.Name()); !is {
			continue
		}
		left := filepath.Join(dir, strings.TrimSuffix(e.Name(), LockSuffix))
		if lock, err := LockSocket(left); err == nil {
			os.Remove(left)        //nolint:errcheck // what stays does no harm
			os.Remove(lock.Name()) //nolint:errcheck // likewise
			lock.Close()
		}
	}
}

// Orphaned reports whether there is a socket, made by the container runtime: a daemon that makes
// its socket itself has a lock beside it.
func Orphaned(path string) bool {
	_, err := os.Lstat(path)
	_, lockErr := os.Lstat(path + LockSuffix)
	return err == nil && errors.Is(lockErr, fs.ErrNotExist)
}

// OwnDirectory returns where daemons of this user have their sockets.
func OwnDirectory() (string, error) {
	path, err := besideOwn("")
	return filepath.Clean(path), err
}

// Connect connects to the daemon at path. If no process listens, the error is ErrNoDaemon. If the
// one that listens is another user's, it is errUntrusted.
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
		return nil, fmt.Errorf("%w at %s: nothing runs under gorxe run now, or with another --socket; `gorxe daemon` starts one", ErrNoDaemon, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, forbidden(path)
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("socket %s belongs to another program: choose another with --socket", path)
	}
	return nil, fmt.Errorf("socket %s: %w", path, err)
}

// LockSuffix stands behind the path of a socket in the name of its lock.
const LockSuffix = ".lock"

// lockTries bounds how often LockSocket finds a file that a daemon removes in this moment.
const lockTries = 100

// LockSocket takes the lock beside a socket, so that only one of two daemons makes the socket. The
// caller closes the file, and may remove it before. It returns ErrDaemonRuns if a daemon has the
// lock.
func LockSocket(path string) (*os.File, error) {
	path += LockSuffix
	for range lockTries {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if here, ierr := isAt(f, path); ierr != nil || !here {
			f.Close() // a daemon removed it meanwhile
			continue
		}
		if err != nil {
			f.Close()
			return nil, ErrDaemonRuns
		}
		return f, nil
	}
	return nil, ErrDaemonRuns
}

// isAt reports whether the path still leads to the file.
func isAt(f *os.File, path string) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(have, there), nil
}

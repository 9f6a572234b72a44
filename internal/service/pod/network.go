package pod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// network names a network namespace: two processes share one exactly if the device and the inode of
// their /proc/PID/ns/net are the same (namespaces(7)).
type network struct{ Dev, Ino uint64 }

// networkOf returns the network namespace behind a descriptor.
func networkOf(f *os.File) (network, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return network{}, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return network{Dev: st.Dev, Ino: st.Ino}, nil
}

// sockets is the pattern of the sockets where daemons of this package wait for containers.
const sockets = "gorxe-containers-*.sock"

// socket returns the path in dir of the socket for a network namespace's containers.
func (n network) socket(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("gorxe-containers-%x-%d.sock", n.Dev, n.Ino))
}

// open opens the control socket for a daemon that is about to start. Only the caller has the lock,
// which the daemon holds until its devices are gone. It returns proto.ErrDaemonRuns if another
// daemon has the lock.
func (n network) open(dir string) (control, lock *os.File, err error) {
	path := n.socket(dir)
	if lock, err = proto.LockSocket(path); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	control, err = listenAt(path, 0o600)
	return control, lock, err
}

// listenAt makes a socket with a mode, less the umask. The file gets the mode that the socket has
// when it is bound (unix(7)). chmod(2) would follow a link that a program of the container puts
// there.
func listenAt(path string, mode os.FileMode) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err = unix.Fchmod(fd, uint32(mode)); err == nil {
		if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
			err = unix.Listen(fd, unix.SOMAXCONN)
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return f, nil
}

package pod

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// Place is where a container is.
type Place = proto.Place

// Container is a container whose first process exists and executes no program of the image yet.
type Container struct {
	PID       int    // its first process
	Root      string // its root directory, as this process reaches it
	Directory string // where its programs find the socket: a tmpfs
	Place     Place
	// Devices are those that it wants: values of `gorxe run --device`, or one of --devices.
	Devices []string
}

// ErrNoRights: this process may not enter the container's namespaces.
var ErrNoRights = errors.New("no rights in the container's namespaces")

// SocketName is the name of the socket in Container.Directory.
const SocketName = "socket"

// joinTries bounds how often Join finds a daemon that is about to end, each time for joinPause. A
// daemon takes up to five seconds to end.
const (
	joinTries = 1500
	joinPause = 10 * time.Millisecond
)

// Join gives a container the daemon of its network namespace, and starts that if there is none. dir
// is where the daemons of this user have their sockets. self is the program that starts one (see
// startIn).
func (c Container) Join(dir, self string) (err error) {
	m, network, err := c.open()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	defer m.close()
	defer network.Close()
	id, err := networkOf(network)
	if err != nil {
		return err
	}
	proto.RemoveDead(dir, sockets)
	path := id.socket(dir)
	for range joinTries {
		err := ask(path, m, question{Version: proto.ProtocolVersion, Devices: c.Devices, Place: c.Place})
		if !errors.Is(err, proto.ErrNoDaemon) && !errors.Is(err, proto.ErrEnding) {
			return err
		}
		control, lock, err := id.open(dir)
		switch {
		case err == nil:
			err = startIn(network, self, path, c.Place, c.Devices, control, lock, m.listener, m.pidfd)
			if err != nil { // the lock comes last, as in Serve
				_ = os.Remove(path)
				_ = os.Remove(path + proto.LockSuffix)
			}
			control.Close()
			lock.Close()
			return err
		case !errors.Is(err, proto.ErrDaemonRuns):
			return err
		}
		time.Sleep(joinPause) // a daemon starts, or ends
	}
	return fmt.Errorf("the daemon at %s neither serves nor ends", path)
}

// opened is what a daemon gets of a container.
type opened struct {
	listener *os.File // the socket in the container
	pidfd    *os.File // of its first process
}

func (o opened) close() {
	o.listener.Close()
	o.pidfd.Close()
}

// open opens what the daemon needs of the container, and its network namespace.
func (c Container) open() (o opened, network *os.File, err error) {
	fd, err := unix.PidfdOpen(c.PID, 0)
	if err != nil {
		return o, nil, fmt.Errorf("process %d: %w", c.PID, os.NewSyscallError("pidfd_open", err))
	}
	o.pidfd = os.NewFile(uintptr(fd), "pidfd")
	defer func() {
		if err != nil {
			o.pidfd.Close()
		}
	}()
	if network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", c.PID)); err != nil {
		return o, nil, noRights(err)
	}
	if o.listener, err = c.listen(); err != nil {
		network.Close()
		return o, nil, noRights(err)
	}
	return o, network, nil
}

// noRights adds ErrNoRights to an error of permission.
func noRights(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrNoRights, err)
	}
	return err
}

// listen makes the socket in the container. All users of the container may connect to it, and the
// file belongs to root of the container: the file system may know no other user of this one.
func (c Container) listen() (*os.File, error) {
	dir, err := c.directory()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, err
	}
	var f *os.File
	err = asOwner(st, func() (err error) {
		f, err = listenAt(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SocketName), 0o666)
		return err
	})
	return f, err
}

// remove removes the socket of a container that has no daemon. Its programs would take it for that
// of a daemon that was killed.
func (c Container) remove() {
	if dir, err := c.directory(); err == nil {
		_ = unix.Unlinkat(int(dir.Fd()), SocketName, 0) // the container ends if it stays
		dir.Close()
	}
}

// directory opens the directory for the socket. The image may have symbolic links on the way, which
// must not lead out of the container: runtimes mount behind such links in the same way.
func (c Container) directory() (*os.File, error) {
	root, err := os.OpenFile(c.Root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	how := unix.OpenHow{Flags: unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(root.Fd()), c.Directory, &how)
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: c.Root + c.Directory, Err: err}
	}
	dir := os.NewFile(uintptr(fd), c.Directory)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || int64(st.Type) != unix.TMPFS_MAGIC {
		dir.Close()
		return nil, errors.Join(fmt.Errorf("%s in the container is not the file system that gorxe-runtime mounts", c.Directory), err)
	}
	return dir, nil
}

// Directory returns where daemons of this user have their sockets.
func Directory() (string, error) { return proto.OwnDirectory() }

// ask hands a container to the daemon that listens at path.
func ask(path string, o opened, q question) error {
	conn, err := proto.Connect(path)
	if err != nil {
		return err
	}
	defer conn.Close()
	var a answer
	err = conn.Send(q, int(o.listener.Fd()), int(o.pidfd.Fd()))
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		return err
	}
	if err == nil {
		var fds []int
		fds, err = conn.RecvWithin(&a, answerTimeout)
		proto.CloseAll(fds)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the daemon at %s does not answer", path)
	case err != nil, a.Ending:
		return proto.ErrEnding // it has closed the connection
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// answerTimeout bounds the wait for a daemon that is stopped.
const answerTimeout = 10 * time.Second

// question asks a daemon to serve a container. Two descriptors come with it: the listening socket,
// and the pidfd of the container's first process. With proto.OpStatus it asks for the status, as a
// proto.Request does.
type question struct {
	Version int         `json:"version"`
	Op      string      `json:"op,omitempty"`
	Devices []string    `json:"devices,omitempty"`
	Place   proto.Place `json:"place,omitzero"`
}

type answer struct {
	Ending bool   `json:"ending,omitempty"` // look for another daemon
	Error  string `json:"error,omitempty"`
}

package proto

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// errUntrusted: the process that listens at a socket is neither root's nor this user's. A daemon
// decides what its programs' system calls return, and reaches their memory.
var errUntrusted = errors.New("the daemon belongs to another user")

// checkDaemon refuses a daemon that is neither root's nor this user's. The kernel says which user
// made the socket listen: root, if systemd did.
func (c *Conn) checkDaemon(path string) error {
	cred, err := c.Peer()
	if err != nil {
		return fmt.Errorf("socket %s: the user of the process that listens is not known: %w", path, err)
	}
	own := uint32(os.Geteuid())
	if trusted(cred, own, mapsAllUsers()) {
		return nil
	}
	return fmt.Errorf("%w at %s: the process that listens there has user id %d, and a program trusts root's daemon and that of its own user, %d: "+
		"end that process and remove the socket, or choose another socket with --socket or %s", errUntrusted, path, cred.Uid, own, EnvSocket)
}

// overflowUID is how a user namespace shows users that it does not have (kernel.overflowuid).
const overflowUID = 65534

// trusted reports whether a program of user own trusts a daemon. In a user namespace that lacks
// users of the host, root of the host has the number overflowUID, and so has every other such user.
// A process of the namespace cannot be taken for one of these: unlike theirs, its number is known
// in the container (pid 0 is one of an outer pid namespace). A user that can bind such a socket
// into the container governs the container.
func trusted(daemon unix.Ucred, own uint32, allUsers bool) bool {
	return daemon.Uid == 0 || daemon.Uid == own || daemon.Uid == overflowUID && daemon.Pid == 0 && !allUsers
}

// mapsAllUsers reports whether this process's user namespace has every user of the host, as the
// first one.
func mapsAllUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

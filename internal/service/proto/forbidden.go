package proto

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ForbiddenError: the permissions of a daemon's socket do not let this user connect.
type ForbiddenError struct{ Path, Why string }

func (e *ForbiddenError) Error() string { return fmt.Sprintf("socket %s: %s", e.Path, e.Why) }

// Is implements errors.Is.
func (e *ForbiddenError) Is(target error) bool { return target == fs.ErrPermission }

// forbidden says who may connect to the socket at path, and what this user can do.
func forbidden(path string) error {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return &ForbiddenError{path, "permission denied: its directory is closed to this user. Choose another socket with --socket"}
	}
	why := "permission denied: " + allowed(st.Mode, st.Uid, st.Gid)
	if !bound(path) {
		why += ". No process of this network namespace listens there: if its daemon was killed, remove the file"
	}
	return &ForbiddenError{path, why}
}

// allowed says whom the permissions of a socket let in.
func allowed(mode, uid, gid uint32) string {
	const groupWrites = 0o020
	if mode&groupWrites != 0 {
		return fmt.Sprintf("it is for group %s: ask for membership", groupName(gid))
	}
	return fmt.Sprintf("it is for user %s only: gorxe daemon --socket-group GROUP lets others in; or choose another one with --socket", userName(uid))
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// bound reports whether a process of this network namespace has a socket of this path (unix(7)).
func bound(path string) bool {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return true // as nobody can say
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSuffix(line, "\n"), " "+path) {
			return true
		}
	}
	return false
}

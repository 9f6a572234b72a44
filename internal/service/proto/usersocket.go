package proto

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// userSockets returns where a user's daemon may listen. A new one listens at the first. A client
// looks at all, so it finds a daemon that had to take another one, because the first was not usable
// then.
//
// $XDG_RUNTIME_DIR, if it is set and the user may write there, is the only one: so the user can
// have another daemon.
func userSockets(uid int) ([]string, error) {
	const name = "gorxe.sock"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
		return []string{filepath.Join(dir, name)}, nil
	}
	var sockets []string
	var reasons []error
	for _, c := range userDirs(uid) {
		err := c.check(uid, len(sockets) == 0)
		switch {
		case err == nil:
			sockets = append(sockets, filepath.Join(c.path, name))
		case !errors.Is(err, fs.ErrNotExist):
			reasons = append(reasons, err)
		}
	}
	if len(sockets) == 0 {
		return nil, fmt.Errorf("no directory for the socket of a daemon: %w: remove what is there, or set XDG_RUNTIME_DIR or %s to a better place",
			errors.Join(reasons...), EnvSocket)
	}
	return sockets, nil
}

// userDir is a directory where a user's daemon may listen.
type userDir struct {
	path string
	make bool // this program makes it
}

// runUser is where systemd-logind makes a directory for each user who is logged in. Tests change
// it.
var runUser = "/run/user"

// userDirs are the directories of a user, the best first. Another user can take the one in /tmp
// before.
func userDirs(uid int) []userDir {
	number := strconv.Itoa(uid)
	dirs := []userDir{{filepath.Join(runUser, number), false}, {filepath.Join(os.TempDir(), "gorxe-"+number), true}}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, userDir{filepath.Join(cache, "gorxe"), true})
	}
	return dirs
}

// check returns nil if the directory is the user's, and no other user can write to it. It makes the
// directory if needed is set and there is none.
func (d userDir) check(uid int, needed bool) error {
	if d.make && needed {
		if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
			return err
		}
		if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(d.path, &st); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	var wrong []string
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		wrong = append(wrong, "is no directory")
	}
	if int(st.Uid) != uid {
		wrong = append(wrong, fmt.Sprintf("belongs to user %d", st.Uid))
	}
	if st.Mode&0o077 != 0 {
		wrong = append(wrong, fmt.Sprintf("is open to others (mode %#o)", st.Mode&0o777))
	}
	if wrong != nil {
		return fmt.Errorf("%s %s", d.path, strings.Join(wrong, " and "))
	}
	return nil
}

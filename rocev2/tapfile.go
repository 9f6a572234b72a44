package rocev2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenTap returns a Tap that writes to the file path, which it creates. A file that exists is
// emptied when the Tap first writes to it, at the first Flush at the latest. Only the owner can
// read a file that it creates, because the capture holds the payload of every user.
func OpenTap(path, ifname string) (*Tap, error) {
	made := true
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		made = false
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, uncreated(path, err)
	}
	return newFileTap(&tapFile{File: f, made: made}, ifname)
}

// uncreated is the error of a capture that cannot be created. It names the file once.
func uncreated(path string, err error) error {
	e := &PortError{Op: "create", Object: "capture " + path, Kind: permissionKind(err), Cause: err}
	var open *fs.PathError
	if errors.As(err, &open) {
		e.Cause = open.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "there is no directory " + filepath.Dir(path)
	}
	return e
}

// OpenPreparedTap returns a Tap that writes to the file path, which the caller's user has made
// and which is empty. Another user may have the right to write into the directory: a link that
// they put there is refused, and the file behind it stays as it is.
func OpenPreparedTap(path, ifname string) (*Tap, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		if err = checkPrepared(f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, &PortError{Op: "open", Object: "capture " + path, Kind: permissionKind(err), Cause: err}
	}
	return newFileTap(&tapFile{File: f}, ifname)
}

// checkPrepared reports whether a file is empty, and that of this user and of no other name.
func checkPrepared(f *os.File) error {
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG, st.Nlink != 1, int(st.Uid) != os.Geteuid():
		return errors.New("another user has replaced it: give a directory that only you can write")
	case st.Size != 0:
		return fmt.Errorf("another program has written %d bytes to it: give a directory that only you can write", st.Size)
	}
	return nil
}

func newFileTap(f *tapFile, ifname string) (*Tap, error) {
	t, err := NewTap(f, ifname)
	if err != nil {
		f.Close()
		return nil, err
	}
	t.file = f
	return t, nil
}

// Discard closes the capture of devices that did not start. The file is as it was before OpenTap: a
// second try, and a capture of an earlier run, need it so.
func (t *Tap) Discard() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = os.ErrClosed
	if t.file == nil {
		return nil
	}
	f := t.file
	t.file = nil
	if f.made && !f.written {
		return errors.Join(os.Remove(f.Name()), f.Close())
	}
	return f.Close()
}

// tapFile is a file that is emptied at the first write.
type tapFile struct {
	*os.File
	made    bool // by OpenTap
	written bool
}

// Write implements io.Writer.
func (f *tapFile) Write(p []byte) (int, error) {
	if !f.written {
		// What cannot be emptied, as a pipe, has nothing to be emptied of.
		if err := f.Truncate(0); err != nil && !errors.Is(err, unix.EINVAL) {
			return 0, err
		}
		f.written = true
	}
	return f.File.Write(p)
}

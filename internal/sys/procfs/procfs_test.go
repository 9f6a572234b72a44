package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatus(t *testing.T) {
	st, err := ReadStatus(os.Getpid())
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	caps := Capabilities(os.Getpid())
	want := Status{TGID: os.Getpid(), PPID: os.Getppid(), Rights: Rights{
		UID: uid, GID: gid, RealUID: uint32(os.Getuid()), RealGID: uint32(os.Getgid()), FSUID: uid, FSGID: gid,
		Effective: caps, Permitted: caps,
	}}
	if err != nil || st != want {
		t.Errorf("%+v, %v; want %+v", st, err, want)
	}
	if _, err := ReadStatus(0); !errors.Is(err, ErrInvisible) {
		t.Errorf("thread 0: %v", err)
	}
	if s := Image(os.Getpid()); len(strings.Fields(s)) != 7 {
		t.Errorf("image %q", s)
	}
	if s := Image(-1); s != "" {
		t.Errorf("image of nothing %q", s)
	}
}

func TestReadFile(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	path := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(path, long, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path); err != nil || !bytes.Equal(got, long) {
		t.Errorf("%d of %d bytes, %v", len(got), len(long), err)
	}
	for _, most := range []int{0, 1, pathMax, pathMax + 1, len(long) - 1} {
		if got, err := ReadBegin(path, most); err != nil || !bytes.Equal(got, long[:most]) {
			t.Errorf("the first %d bytes: %d, %v", most, len(got), err)
		}
	}
	if got, err := ReadFile(Path(os.Getpid(), "status")); err != nil || !bytes.HasPrefix(got, []byte("Name:")) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ReadFile(path + "er"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := ReadFile(t.TempDir()); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

// TestReady: a thread that runs is among those that are ready.
func TestReady(t *testing.T) {
	if n, ok := Ready(); !ok || n < 1 {
		t.Errorf("%d threads are ready, %t", n, ok)
	}
}

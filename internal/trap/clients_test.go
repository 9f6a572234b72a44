package trap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// What clients of a daemon hand over is what they say it is, or refused.

func TestNoListener(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Its path is as near to a listener's name as a path can be.
	fake := filepath.Join(dir, "anon_inode:seccomp notify")
	if err := os.WriteFile(fake, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(path string, flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	eventFile := os.NewFile(uintptr(event), "eventfd")
	defer eventFile.Close()
	files := []*os.File{
		open(dir, os.O_RDONLY), open(fifo, os.O_RDWR), open(fake, os.O_RDONLY), open("/proc/self/mem", os.O_RDONLY), eventFile,
	}
	before := openFDs()
	for _, f := range files {
		_, err := NewSession(f, ServeConfig{Host: newFakes(t), FDs: filter.Range{Base: 864, Count: 160}})
		if err == nil || !strings.Contains(err.Error(), "no seccomp listener") {
			t.Errorf("%s as a listener: %v", f.Name(), err)
		}
	}
	// A blocked receiver of an earlier test may close its session's descriptors meanwhile.
	for _, fd := range openFDs() {
		if !slices.Contains(before, fd) {
			t.Errorf("descriptor %s is left", fd)
		}
	}
}

// The threads of one user's sessions that are blocked are counted together.
func TestUserReceivers(t *testing.T) {
	user := new(User)
	one := &Session{cfg: ServeConfig{User: user}}
	other := &Session{cfg: ServeConfig{User: user}}
	one.countBlocked(maxBlocked)
	if !one.exhausted() || other.exhausted() {
		t.Error("a session is exhausted by its own receivers, and no other's")
	}
	one.countBlocked(maxUserBlocked - maxBlocked)
	if !other.exhausted() {
		t.Error("not exhausted, with as many receivers blocked as a user may have")
	}
	one.countBlocked(-maxUserBlocked)
	if one.exhausted() || other.exhausted() {
		t.Error("exhausted, and nobody is blocked")
	}
}

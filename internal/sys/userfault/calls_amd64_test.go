package userfault

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestIsUserfault: the program replaces the descriptor by a file with the name of a userfaultfd.
// Its server could keep each call on it waiting.
func TestIsUserfault(t *testing.T) {
	real, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	memfd := must.Get[int](t)(unix.MemfdCreate("anon_inode:[userfaultfd]", unix.MFD_CLOEXEC))
	file := must.Get[int](t)(unix.Open(filepath.Join(t.TempDir(), "anon_inode:[userfaultfd]"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
	for fd, want := range map[int]bool{int(real): true, memfd: false, file: false} {
		if got := isUserfault(fd); got != want {
			name, err := procfs.Readlink(procfs.SelfFD(fd))
			t.Errorf("%s (%v): %t, want %t", name, err, got, want)
		}
		must.OK(t, unix.Close(fd))
	}
}

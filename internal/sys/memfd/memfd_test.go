package memfd

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCreate: kernels of all ages, and one that forbids it.
func TestCreate(t *testing.T) {
	kernel := func(known int, errno error) func(string, int) (int, error) {
		return func(_ string, flags int) (int, error) {
			switch {
			case flags&^known != 0:
				return -1, unix.EINVAL
			case errno != nil && (known&unix.MFD_NOEXEC_SEAL == 0 || flags&unix.MFD_NOEXEC_SEAL == 0):
				return -1, errno
			}
			return flags, nil
		}
	}
	const old = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	for _, tt := range []struct {
		name   string
		kernel func(string, int) (int, error)
		flags  int
		err    error
	}{
		{"5.14", kernel(old, nil), old, nil},
		{"6.3", kernel(old|unix.MFD_NOEXEC_SEAL, nil), old | unix.MFD_NOEXEC_SEAL, nil},
		{"6.3 with vm.memfd_noexec=2", kernel(old|unix.MFD_NOEXEC_SEAL, unix.EACCES), old | unix.MFD_NOEXEC_SEAL, nil},
		{"a sandbox", kernel(old, unix.EPERM), -1, unix.EPERM},
	} {
		if flags, err := create("test", tt.kernel); flags != tt.flags || !errors.Is(err, tt.err) {
			t.Errorf("%s: flags %#x, %v; want %#x, %v", tt.name, flags, err, tt.flags, tt.err)
		}
	}
}

// TestSeals: the running kernel lets a file be sealed, and its size be set before.
func TestSeals(t *testing.T) {
	fd, err := Create("test")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		t.Error(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Error(err)
	}
	if err := unix.Ftruncate(fd, 1); !errors.Is(err, unix.EPERM) {
		t.Errorf("a sealed file is truncated: %v", err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v", flags, err)
	}
}

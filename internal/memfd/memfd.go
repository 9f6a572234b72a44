// Package memfd makes files in memory: what programs get for devices and for the
// files of their tree. It knows nothing of either.
package memfd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Create makes an empty file that can be sealed, closes on exec, and can never be
// executed. Kernels 6.3 to 6.5 make no other under vm.memfd_noexec=2
// (mm/memfd.c); those before 6.3 do not know the flag.
func Create(name string) (fd int, err error) { return create(name, unix.MemfdCreate) }

func create(name string, memfdCreate func(string, int) (int, error)) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := memfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = memfdCreate(name, flags)
	}
	return fd, err
}

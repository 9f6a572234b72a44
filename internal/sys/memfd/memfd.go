// Package memfd makes files in memory. Programs get them for devices and for sysfs files,
// but the package knows neither.
package memfd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Create makes an empty file that can be sealed, closes on exec, and can never be executed.
// With vm.memfd_noexec=2, kernels 6.3 to 6.5 refuse any other (mm/memfd.c). Kernels before
// 6.3 do not know the flag.
func Create(name string) (fd int, err error) { return create(name, unix.MemfdCreate) }

func create(name string, memfdCreate func(string, int) (int, error)) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := memfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = memfdCreate(name, flags)
	}
	return fd, err
}

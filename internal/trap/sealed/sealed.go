// Package sealed makes files in memory that nobody can change behind the owner's back: their
// size is fixed, or their content is.
package sealed

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"golang.org/x/sys/unix"
)

// create makes an empty file that can be sealed, and says who forbids it.
func create(name string) (int, error) {
	fd, err := memfd.Create(name)
	switch {
	case err == nil:
		return fd, nil
	case procmem.Forbidden(err):
		return -1, fmt.Errorf("memfd_create: %w: %s", err, filter.Sandboxed("memfd_create"))
	}
	return -1, fmt.Errorf("memfd_create: %w", err)
}

// ReadOnly makes a descriptor that reads content, which nobody can change.
func ReadOnly(name string, content []byte) (int, error) {
	fd, err := create(name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			return -1, fmt.Errorf("writing a memfd: %w", err)
		}
		content = content[n:]
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, fmt.Errorf("sealing a memfd: %w", err)
	}
	ro, err := unix.Open(procfs.SelfFD(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("reopening a memfd: %w", err)
	}
	return ro, nil
}

// Mapped makes a memfd that only this process can write, in mem: others that get the descriptor can
// read it.
func Mapped(name string, size int) (fd int, mem []byte, err error) {
	if fd, err = create(name); err != nil {
		return -1, nil, err
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		const seals = unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			_ = unix.Munmap(mem)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, nil, fmt.Errorf("a memfd that others read: %w", err)
	}
	return fd, mem, nil
}

// FixedSize makes a memfd of a fixed size. A process that gets it cannot
// shrink it while this one has it mapped.
func FixedSize(name string, size int64) (int, error) {
	fd, err := create(name)
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("ftruncate of a memfd: %w", err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("sealing a memfd: %w", err)
	}
	return fd, nil
}

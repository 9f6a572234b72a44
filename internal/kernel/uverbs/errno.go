package uverbs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// errnos are the engine's sentinels as rdma_rxe and the kernel's verbs say them.
var errnos = []struct {
	err   error
	errno unix.Errno
}{
	{rxe.ErrInvalid, unix.EINVAL},
	{rxe.ErrBusy, unix.EBUSY},
	{rxe.ErrFull, unix.ENOMEM},
	{rxe.ErrLimit, unix.ENOMEM},
	{rxe.ErrNotSupported, unix.EOPNOTSUPP},
	{rxe.ErrPermission, unix.EPERM},
	{rxe.ErrClosed, unix.EIO}, // the device is going away: nothing else closes an object that is held
}

// errnoOf is the one place where an error becomes what the program sees.
func errnoOf(err error) unix.Errno {
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EINVAL
}

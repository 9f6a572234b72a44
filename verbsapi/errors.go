package verbsapi

import (
	"errors"

	"github.com/gorxe/gorxe/rxe"
)

// The sentinels that errors of this package unwrap to, beside those of package
// rocev2 for what the network refuses and context.Canceled and DeadlineExceeded
// for calls that wait.
var (
	ErrInvalid      = rxe.ErrInvalid      // EINVAL: an argument is wrong
	ErrBusy         = rxe.ErrBusy         // EBUSY: something still depends on the object
	ErrFull         = rxe.ErrFull         // ENOMEM of ibv_post_send and ibv_post_recv
	ErrLimit        = rxe.ErrLimit        // ENOMEM of the calls that create
	ErrNotSupported = rxe.ErrNotSupported // EOPNOTSUPP
	ErrClosed       = rxe.ErrClosed       // the object, or its context, is gone
	ErrPermission   = rxe.ErrPermission   // EPERM
)

// OpError says which call refused which argument, and why.
type OpError = rxe.OpError

// What an in-process address space can refuse. The engine turns these into
// protection errors; nobody else sees them.
var (
	errUnmapped  = errors.New("address outside the buffer")
	errUnaligned = errors.New("address not aligned to 8 bytes")
)

func invalid(op, arg, why string) error {
	return &OpError{Op: op, Arg: arg, Why: why, Err: ErrInvalid}
}

func closed(op, object string) error {
	return &OpError{Op: op, Arg: object, Err: ErrClosed}
}

func notSupported(op string) error {
	return &OpError{Op: op, Err: ErrNotSupported}
}

package verbsapi

import "github.com/gorxe/gorxe/rxe"

// The sentinels that errors of this package unwrap to. Network errors unwrap to
// those of package rocev2. Calls that wait may return context.Canceled and
// DeadlineExceeded.
var (
	ErrInvalid      = rxe.ErrInvalid      // EINVAL: an argument is wrong
	ErrBusy         = rxe.ErrBusy         // EBUSY: something still depends on the object
	ErrFull         = rxe.ErrFull         // ENOMEM of ibv_post_send and ibv_post_recv
	ErrLimit        = rxe.ErrLimit        // ENOMEM of the calls that create
	ErrNotSupported = rxe.ErrNotSupported // EOPNOTSUPP
	ErrClosed       = rxe.ErrClosed       // the object, or its context, was closed
	ErrPermission   = rxe.ErrPermission   // EPERM
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

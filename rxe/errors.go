package rxe

import (
	"errors"
	"strconv"
)

// The sentinels that every error of this package unwraps to.
var (
	ErrInvalid      = errors.New("invalid argument")        // EINVAL
	ErrBusy         = errors.New("object is in use")        // EBUSY
	ErrFull         = errors.New("queue is full")           // ENOMEM of post_send, post_recv
	ErrLimit        = errors.New("device limit reached")    // ENOMEM of create calls
	ErrNotSupported = errors.New("operation not supported") // EOPNOTSUPP
	ErrClosed       = errors.New("object is closed")        // EBADF
	ErrPermission   = errors.New("permission denied")       // EPERM
	ErrNoDomain     = errors.New("no such XRC domain")      // EAGAIN

	// ErrSpaceEnded is returned by a Memory whose address space has ended: its
	// program has exited, or has executed another one.
	ErrSpaceEnded = errors.New("the address space has ended")
)

// OpError says which call refused which argument, and why. Err is one of the
// sentinels, or wraps one.
type OpError struct {
	Op  string // the verb: "CreateQP"
	Arg string // the argument or attribute: "cap.max_send_wr", or empty
	Why string // what is wrong with it, or empty
	Err error

	Given string // the value that was refused, or empty
	Fix   string // what to do, or empty: "use at most 31"

	Limit   Limit // that was exceeded; 0: none
	Lowered bool  // Limit is that of a Subdevice, and the device itself would have allowed it
}

func (e *OpError) Error() string {
	s := e.Op
	if e.Arg != "" {
		s += ": " + e.Arg
	}
	if e.Given != "" {
		s += " " + e.Given
	}
	if e.Why != "" {
		return s + ": " + e.Why + " (" + e.Err.Error() + ")"
	}
	return s + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// invalid refuses an argument. why says what is wrong with it, and fix what to do.
func invalid(op, arg, why, fix string) error {
	return &OpError{Op: op, Arg: arg, Why: why, Err: ErrInvalid, Fix: fix}
}

// tooBig refuses a number that exceeds a limit, which why names.
func tooBig(op, arg string, given uint64, why string, most uint64) *OpError {
	return &OpError{Op: op, Arg: arg, Why: why, Err: ErrInvalid,
		Given: strconv.FormatUint(given, 10), Fix: "use at most " + strconv.FormatUint(most, 10)}
}

// beyond is tooBig for a limit of the device.
func beyond(op, arg string, given uint64, why string, limit Limit, most uint64) error {
	err := tooBig(op, arg, given, why, most)
	err.Limit = limit
	return err
}

// outside refuses a number that is not from 1 to a limit.
func outside(op, arg string, given uint64, limit Limit, most uint64) error {
	return &OpError{Op: op, Arg: arg, Why: "is not between 1 and " + limit.String(), Err: ErrInvalid, Limit: limit,
		Given: strconv.FormatInt(int64(given), 10), Fix: "use 1 to " + strconv.FormatUint(most, 10)}
}

func opErr(op, arg string, err error) error { return &OpError{Op: op, Arg: arg, Err: err} }

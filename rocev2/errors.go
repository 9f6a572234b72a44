package rocev2

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Errors that Open, JoinGroup and Send return, wrapped in a PortError that
// names the object and says what to do.
var (
	// ErrPortTaken: another socket holds the UDP port on that address.
	ErrPortTaken = errors.New("UDP port taken")
	// ErrNoInterface: there is no network interface of that name.
	ErrNoInterface = errors.New("no such interface")
	// ErrNoAddress: the interface has no usable address, or no interface has the
	// requested one.
	ErrNoAddress = errors.New("no usable address")
	// ErrPermission: the kernel refused the operation to this user.
	ErrPermission = errors.New("permission denied")
	// ErrClosed: the port was closed.
	ErrClosed = errors.New("port closed")
	// ErrConfig: a field of Config, or an argument, is invalid.
	ErrConfig = errors.New("invalid argument")
)

// PortError says which operation failed on which object and, in Hint, what the
// user can do about it. It unwraps to the sentinel in Kind and to the cause,
// usually a syscall.Errno.
type PortError struct {
	Op     string     // "open", "bind", "join", "send", …
	Object string     // "UDP port 4791 on 10.0.0.1", "interface eth7", …
	Hint   string     // what to do; may be empty
	Addr   netip.Addr // of Object, if the operation was a bind
	Kind   error      // one of this package's sentinels, or nil
	Cause  error      // what the system said, or nil
}

func (e *PortError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Op, e.Object)
	switch {
	case e.Kind != nil && e.Cause != nil && e.Kind.Error() != e.Cause.Error():
		fmt.Fprintf(&b, ": %v (%v)", e.Kind, e.Cause)
	case e.Kind != nil:
		fmt.Fprintf(&b, ": %v", e.Kind)
	case e.Cause != nil:
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap lets errors.Is see both the sentinel and the system's error.
func (e *PortError) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

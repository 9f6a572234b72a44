package rdmacm

import (
	"cmp"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/refusal"
	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/wire"
)

// OpError says which call failed, and what it was about.
type OpError = verbsapi.OpError

// ErrInvalid and ErrClosed are those of package verbsapi.
var (
	ErrInvalid = verbsapi.ErrInvalid
	ErrClosed  = verbsapi.ErrClosed
)

// ErrDisconnected is the error of a connection that the peer ended before it was
// established.
var ErrDisconnected = errors.New("the peer ended the connection")

// RejectedError says that the peer refused a connection.
type RejectedError struct {
	Reason      wire.CMReason // 28: the peer's program refused; 8: no program listens there
	PrivateData []byte        // from the peer's program; 148 bytes, zero-padded
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the peer rejected the connection: %v (%d)", e.Reason, uint16(e.Reason))
}

// opError names the call and its argument, and says why if that is known. It returns nil for a nil
// err.
func opError(op, arg string, err error) error {
	if err == nil {
		return nil
	}
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return &OpError{Op: op, Arg: cmp.Or(r.Arg, arg), Why: r.Why, Fix: r.Fix, Err: r.Errno}
	}
	return &OpError{Op: op, Arg: arg, Err: err}
}

// Err returns what an event reports as an error, or nil.
func (ev *Event) Err() error {
	switch ev.Type {
	case AddrError, RouteError, ConnectError, MulticastError:
		return unix.Errno(-ev.Status)
	case Unreachable:
		if ev.Status > 0 {
			return fmt.Errorf("no datagram service at the peer: %v", wire.SIDRStatus(ev.Status))
		}
		return unix.Errno(-ev.Status)
	case Rejected:
		return &RejectedError{Reason: wire.CMReason(ev.Status), PrivateData: ev.PrivateData}
	case DeviceRemoval:
		return unix.ENODEV
	case Disconnected:
		return ErrDisconnected
	default:
		return nil
	}
}

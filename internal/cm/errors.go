package cm

import "errors"

// The errors of the package's calls.
var (
	// ErrState is returned for a call that the state of the connection does not allow.
	ErrState = errors.New("cm: the connection's state does not allow the call") // EINVAL
	// ErrConnected is returned by Established for a connection that is established.
	ErrConnected = errors.New("cm: the connection is already established") // EISCONN
	// ErrPrivateData is returned for private data or reject information that does not
	// fit the message.
	ErrPrivateData = errors.New("cm: private data is too long for the message") // EINVAL
	// ErrInvalid is returned for other parameters out of range.
	ErrInvalid = errors.New("cm: invalid parameter") // EINVAL
	// ErrInUse is returned by Listen for a service that has a listener.
	ErrInUse = errors.New("cm: the service already has a listener") // EBUSY
	// ErrLimit is returned if the Machine has Limits.Conns connections.
	ErrLimit = errors.New("cm: too many connections of this device") // ENOMEM
	// ErrClosed is returned by calls of a Machine that was closed.
	ErrClosed = errors.New("cm: the connection manager is closed") // ENODEV
)

package rdmacm

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/sys/refusal"
)

func refuse(errno unix.Errno, arg, why, fix string) error { return refusal.New(errno, arg, why, fix) }

// Reasons that several calls have.
var (
	errNoConn   = refuse(unix.EINVAL, "id", "has no connection", "use it after its CONNECT_REQUEST, or after rdma_connect")
	errNoDevice = refuse(unix.EINVAL, "id", "has no device", "bind it to an address, or resolve one")
	errNoSource = refuse(unix.EINVAL, "id", "has an address that its device has lost", "bind another id to an address of the device")
	errNoLink   = refuse(unix.ENODEV, "id", "has a device whose network interface is gone", "wait until the interface is back")
	errSmallMTU = refuse(unix.EINVAL, "id", "has a device whose interface has no room for packets of 256 bytes", "raise the interface's MTU")
	errIPoIB    = refuse(unix.EINVAL, "ps", "is RDMA_PS_IPOIB, which RoCE devices lack", "use RDMA_PS_UDP")
	errSpent    = refuse(unix.ENOMEM, "", "the user's share of the daemon is spent", "raise gorxe daemon --user-memory")
)

// wrongState refuses a call in a state that does not allow it.
func (id *ID) wrongState(fix string) error {
	return refuse(unix.EINVAL, "id", "is in state "+id.state.String(), fix)
}

// refusals are the errnos of package cm's errors, and what is said of them.
var refusals = []struct {
	of  error
	say error
}{
	{cm.ErrConnected, refuse(unix.EISCONN, "id", "is connected already", "notify once")},
	{cm.ErrLimit, refuse(unix.ENOMEM, "", "the device has as many connections as it can", "destroy some")},
	{cm.ErrClosed, refuse(unix.ENODEV, "", "the device is gone", "see whether the daemon still runs")},
	{cm.ErrInUse, refuse(unix.EBUSY, "id", "has a service that has a listener", "choose another port or service ID")},
	{cm.ErrPrivateData, refuse(unix.EINVAL, "private_data_len", "is too long for the message", "send less: see rdma_connect(3), rdma_accept(3)")},
	{cm.ErrState, refuse(unix.EINVAL, "id", "has a connection whose state does not allow it", "wait for the event before it")},
	{cm.ErrInvalid, refuse(unix.EINVAL, "conn_param", "has a value out of range", "use queue pair numbers of 24 bits")},
}

// errno returns the errno of an error of package cm, with the reason.
func errno(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.of) {
			return r.say
		}
	}
	if err != nil {
		return unix.EINVAL
	}
	return nil
}

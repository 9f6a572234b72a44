package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// Reason is an error that says why a call is refused.
type Reason interface {
	error
	// Reason returns the argument, the value given, what is wrong with it, and what to do. Each
	// may be empty.
	Reason() (arg, given, why, fix string)
	// ByRule reports whether a fault rule refused the call.
	ByRule() bool
}

// seeRules is the remedy for what a fault rule does.
const seeRules = "see gorxe fault list"

// Refused returns the record of a verb that failed. name is that of libibverbs without ibv_, or
// that of librdmacm.
func Refused(name string, errno unix.Errno, err error) Record {
	r := Record{Kind: Refusal, Verb: verbName(name), Errno: unix.ErrnoName(errno), Fault: Program}
	why := ""
	var reason Reason
	var op *rxe.OpError
	switch {
	case errors.As(err, &reason):
		r.Argument, r.Given, why, r.Fix = reason.Reason()
		if reason.ByRule() {
			r.Fault = Rule
		}
	case errors.As(err, &op):
		r.Argument, r.Given, why, r.Fix = op.Arg, op.Given, op.Why, op.Fix
		if op.Lowered {
			r.Fault, r.Fix = Rule, seeRules
		}
	}
	if errors.Is(err, quota.ErrSpent) || errors.Is(err, quota.ErrTotalSpent) {
		r.Fault, why, r.Fix = Limit, "the user's share of the daemon is spent", "raise gorxe daemon --user-memory"
	}
	if why == "" {
		why, r.Fix = plainErrno(r.Argument, errno, err)
	}
	subject := r.Argument
	if r.Given != "" {
		subject = strings.TrimPrefix(subject+" "+r.Given, " ")
	}
	r.What = fmt.Sprintf("%s failed with %s: %s", r.Verb, r.Errno, joined(subject, why))
	return r
}

// verbName returns the name that a programmer knows.
func verbName(name string) string {
	if name == "" {
		return "A call"
	}
	if strings.HasPrefix(name, "rdma_") {
		return name
	}
	return "ibv_" + name
}

// plainErrno returns what an errno says without a further reason.
func plainErrno(arg string, errno unix.Errno, err error) (why, fix string) {
	switch {
	case errors.Is(err, rxe.ErrBusy):
		return "is still in use", "destroy first what uses it"
	case errors.Is(err, rxe.ErrFull):
		return "is full", "poll its completions before posting more"
	case errors.Is(err, rxe.ErrLimit) && arg == "":
		return "the device has as many of these objects as it can", "destroy some, or ask query_device for the limit"
	case errors.Is(err, rxe.ErrLimit):
		return "the device's limit is reached", "ask query_device for the limits"
	}
	if w, ok := errnoWords[errno]; ok {
		return w.why, w.fix
	}
	return errno.Error(), "see the manual page"
}

// words is a reason and a remedy.
type words struct{ why, fix string }

// errnoWords are the reasons that every verb may have.
var errnoWords = map[unix.Errno]words{
	unix.EINVAL:          {"the request is malformed", "use the libibverbs and the headers that belong together"},
	unix.EPROTONOSUPPORT: {"the kernel's interface has no such method", "use an older call"},
	unix.EOPNOTSUPP:      {"this device does not support it", "see gorxe run -- ibv_devinfo -v for what it can do"},
	unix.ENOSYS:          {"there is no such call", "use an older one"},
	unix.ENOENT:          {"it names an object that does not exist", "see whether it was destroyed"},
	unix.EBUSY:           {"an object is in use by another call or another object", "destroy first what uses it"},
	unix.ENOMEM:          {"a queue or a limit of the device is full", "ask query_device for the limits"},
	unix.ENOSPC:          {"the request or the room for its answer is too short", "use matching headers and libraries"},
	unix.EFAULT:          {"its memory is not mapped, or not writable", "check the address and the length"},
	unix.EBADF:           {"a descriptor is closed, or of another file", "check the completion channel"},
	unix.EMFILE:          {"the process has too many open files", "raise ulimit -n"},
	unix.EPERM:           {"the user may not do this", "see gorxe doctor"},
	unix.EACCES:          {"the user may not do this", "see gorxe doctor"},
	unix.EIO:             {"the device is gone", "see whether the daemon still runs"},
	unix.ENODEV:          {"the device is gone", "see whether the daemon still runs"},
	unix.EADDRINUSE:      {"another program has the address or port", "choose another, or wait for it"},
	unix.EADDRNOTAVAIL:   {"no device has the address", "choose an address that gorxe status lists"},
	unix.ENETUNREACH:     {"no route leads to the address", "see ip route"},
	unix.EHOSTUNREACH:    {"the host does not answer", "see whether it is up"},
	unix.ETIMEDOUT:       {"no answer came in time", "see whether the peer runs"},
	unix.EISCONN:         {"it is connected already", "connect another id"},
	unix.ENOTCONN:        {"it is not connected", "connect first"},
}

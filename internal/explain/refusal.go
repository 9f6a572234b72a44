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
	switch { // of the events of a connection
	case r.Fault != Program:
	case errno == unix.ECONNREFUSED:
		r.Fault = Peer
	case errno == unix.ETIMEDOUT:
		r.Fault = Unreachable
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

// notUnderGorxe is why a program on a machine without RDMA finds no device.
const notUnderGorxe = "The commonest cause, where no device was found, is that the program runs without gorxe."

// errnoCauses are what programs that print nothing but the errno often stumble over.
var errnoCauses = map[unix.Errno]string{
	unix.ENOSYS:  notUnderGorxe,
	unix.ENODEV:  notUnderGorxe,
	unix.ENOMEM:  "Outside of gorxe run, RLIMIT_MEMLOCK (ulimit -l) is the commonest cause. It does not limit programs under gorxe run.",
	unix.EINVAL:  "The commonest cause is an address without a GID: use -g 1 with ibv_rc_pingpong and its like, -x 1 with perftest, and is_global and sgid_index in a program of your own.",
	unix.ENODATA: "In modify_qp and create_ah, the GID index has no GID: choose one that ibv_devinfo -v lists, as 1.",
	unix.ENOSPC:  "Behind \"client read/write\" of a ping-pong program it means nothing: the server has ended, and says why.",
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
	unix.ECONNREFUSED:    {"nobody listens at the address and port, or the listener rejected the connection", "start the server first, and compare address, port and port space"},
	unix.ECONNRESET:      {"the peer ended the connection", "see why it ended"},
	unix.EINPROGRESS:     {"the connection is being made", "wait for its event"},
	unix.ESHUTDOWN:       {"the connection was closed", "connect again"},
	unix.EPIPE:           {"the other end has closed the connection", "see whether the peer or the daemon still runs"},
	unix.EAGAIN:          {"nothing is there yet, and the descriptor does not block", "poll the descriptor, and try again"},
	unix.EINTR:           {"a signal came", "call it again"},
	unix.EEXIST:          {"it exists already", "use what is there, or another name"},
	unix.ENXIO:           {"the device has no such part", "see gorxe devices --as-seen for what it has"},
	unix.ENODATA:         {"there is no such counter or value", "ask for those that rdma statistic lists"},
	unix.EMSGSIZE:        {"the message is too long for what takes it", "send less at once"},
	unix.ENFILE:          {"the machine has too many open files", "raise fs.file-max"},
	unix.ENOBUFS:         {"there is no memory for the message", "read the answers, and try again"},
	unix.ESRCH:           {"there is no such process or object", "see whether it has ended"},
	unix.ENOTTY:          {"the file has no such ioctl", "use the libraries and the headers that belong together"},
	unix.ESPIPE:          {"the file has no position", "use read and write"},
	unix.ENOTDIR:         {"a part of the path is a file", "check the path"},
	unix.EISDIR:          {"the path is a directory", "check the path"},
	unix.ENAMETOOLONG:    {"the path is too long", "use a shorter one"},
	unix.ELOOP:           {"the path has too many links", "check the path"},
	unix.EAFNOSUPPORT:    {"the address is of a family that RDMA CM does not have", "use IPv4 or IPv6"},
	unix.ESOCKTNOSUPPORT: {"the socket is of a type that the protocol does not have", "use the type of the manual page"},
	unix.ENOPROTOOPT:     {"the socket has no such option", "use the options of netlink(7)"},
	unix.EDOM:            {"a time is outside of what the socket takes", "use microseconds below a million"},
	unix.E2BIG:           {"the request names more than the device can have", "ask query_device for the limits"},
	unix.ERANGE:          {"a number is outside of what the device takes", "ask query_device for the limits"},
}

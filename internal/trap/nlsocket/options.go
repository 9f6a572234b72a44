package nlsocket

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// option is a level and a name of setsockopt(2).
type option struct{ level, name int32 }

// leastBuffer is the smallest receive or send buffer (include/net/sock.h: SOCK_MIN_RCVBUF).
const leastBuffer = 2304

// flags are options that a program may set to any number and read again. Those of SOL_NETLINK are
// on or off. SO_PASSCRED and NETLINK_PKTINFO are not among them: no datagram here has control
// messages.
var flags = map[option]bool{
	{unix.SOL_SOCKET, unix.SO_REUSEADDR}: true, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}: true,
	{unix.SOL_SOCKET, unix.SO_BROADCAST}: true, {unix.SOL_SOCKET, unix.SO_PRIORITY}: true,
	{unix.SOL_SOCKET, unix.SO_RCVLOWAT}:              true,
	{unix.SOL_NETLINK, unix.NETLINK_BROADCAST_ERROR}: true, {unix.SOL_NETLINK, unix.NETLINK_NO_ENOBUFS}: true,
	{unix.SOL_NETLINK, unix.NETLINK_CAP_ACK}: true, {unix.SOL_NETLINK, unix.NETLINK_EXT_ACK}: true,
	{unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK}: true,
}

// groupsMax is how many groups NETLINK_RDMA has: RDMA_NL_GROUP_NOTIFY is the last one
// (include/uapi/rdma/rdma_netlink.h).
const groupsMax = 5

// timeouts are options with a struct timeval. Old and new ones are the same on machines of 64 bits.
var timeoutOf = map[int32]int32{
	unix.SO_RCVTIMEO: unix.SO_RCVTIMEO, unix.SO_RCVTIMEO_NEW: unix.SO_RCVTIMEO,
	unix.SO_SNDTIMEO: unix.SO_SNDTIMEO, unix.SO_SNDTIMEO_NEW: unix.SO_SNDTIMEO,
}

// OptionSize is the length of the longest value, a struct timeval.
const OptionSize = 16

// value returns an option that is a number; s.mu is held.
func (s *Socket) value(level, name int32) int32 {
	v, ok := s.options[option{level, name}]
	if !ok && level == unix.SOL_SOCKET && (name == unix.SO_RCVBUF || name == unix.SO_SNDBUF) {
		return defaultBuffer
	}
	return v
}

// IsSet reports whether an option of SOL_NETLINK is set.
func (s *Socket) IsSet(name int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value(unix.SOL_NETLINK, name) != 0
}

// ReceiveTimeout is how long a call waits for a datagram; 0: for ever.
func (s *Socket) ReceiveTimeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeouts[option{unix.SOL_SOCKET, unix.SO_RCVTIMEO}]
}

// SetOption is setsockopt. admin reports whether the caller has CAP_NET_ADMIN.
func (s *Socket) SetOption(level, name int32, b []byte, admin func() bool) error {
	if level == unix.SOL_SOCKET && timeoutOf[name] != 0 {
		return s.setTimeout(option{level, timeoutOf[name]}, b)
	}
	if len(b) < 4 { // an int: socket(7)
		return unix.EINVAL
	}
	v := int32(binary.NativeEndian.Uint32(b))
	at := option{level, name}
	switch {
	case level == unix.SOL_SOCKET && (name == unix.SO_RCVBUF || name == unix.SO_SNDBUF):
		v = max(2*min(max(v, 0), mostBuffer), leastBuffer)
	case level == unix.SOL_SOCKET && (name == unix.SO_RCVBUFFORCE || name == unix.SO_SNDBUFFORCE):
		if !admin() {
			return unix.EPERM
		}
		at.name = map[int32]int32{unix.SO_RCVBUFFORCE: unix.SO_RCVBUF, unix.SO_SNDBUFFORCE: unix.SO_SNDBUF}[name]
		v = max(2*min(max(v, 0), forcedBuffer), leastBuffer)
	case level == unix.SOL_NETLINK && (name == unix.NETLINK_ADD_MEMBERSHIP || name == unix.NETLINK_DROP_MEMBERSHIP):
		return s.join(v, name == unix.NETLINK_ADD_MEMBERSHIP, admin)
	case !flags[at]:
		return unix.ENOPROTOOPT
	case level == unix.SOL_NETLINK:
		v = min(max(v, -v), 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options == nil {
		s.options = make(map[option]int32)
	}
	s.options[at] = v
	return nil
}

// join makes the socket a member of a group, or ends that. No datagram is sent to a group.
func (s *Socket) join(group int32, member bool, admin func() bool) error {
	switch {
	case !admin():
		return unix.EPERM
	case group < 1 || group > groupsMax:
		return unix.EINVAL
	}
	bit := uint32(1) << (group - 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups &^= bit
	if member {
		s.groups |= bit
	}
	return nil
}

// setTimeout is core/sock.c: sock_set_timeout.
func (s *Socket) setTimeout(at option, b []byte) error {
	if len(b) < OptionSize {
		return unix.EINVAL
	}
	sec, usec := int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:]))
	if usec < 0 || usec >= 1e6 {
		return unix.EDOM
	}
	d := time.Duration(0) // for ever
	if sec >= 0 && sec < 1<<31 {
		d = time.Duration(sec)*time.Second + time.Duration(usec)*time.Microsecond
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timeouts == nil {
		s.timeouts = make(map[option]time.Duration)
	}
	s.timeouts[at] = d
	return nil
}

// Option is getsockopt.
func (s *Socket) Option(level, name int32) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level == unix.SOL_SOCKET && timeoutOf[name] != 0 {
		d := s.timeouts[option{level, timeoutOf[name]}]
		b := binary.NativeEndian.AppendUint64(nil, uint64(d/time.Second))
		return binary.NativeEndian.AppendUint64(b, uint64(d%time.Second/time.Microsecond)), nil
	}
	v := s.value(level, name)
	if level == unix.SOL_SOCKET {
		switch name {
		case unix.SO_DOMAIN:
			v = unix.AF_NETLINK
		case unix.SO_TYPE:
			v = int32(s.typ)
		case unix.SO_PROTOCOL:
			v = unix.NETLINK_RDMA
		case unix.SO_ERROR, unix.SO_ACCEPTCONN, unix.SO_RCVBUF, unix.SO_SNDBUF:
		default:
			if !flags[option{level, name}] {
				return nil, unix.ENOPROTOOPT
			}
		}
	} else if !flags[option{level, name}] {
		return nil, unix.ENOPROTOOPT
	}
	return binary.NativeEndian.AppendUint32(nil, uint32(v)), nil
}

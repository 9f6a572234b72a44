package trap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// netlinkCalls sends on a socket in each way, and receives the answers.
func netlinkCalls([]string) error {
	var c checks
	_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_STREAM, unix.NETLINK_RDMA)
	c.eq("a stream", err, unix.ESOCKTNOSUPPORT)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_RDMA)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	c.eq("close-on-exec", flags == unix.FD_CLOEXEC && err == nil, true)
	_, _, err = unix.Recvfrom(fd, make([]byte, 10), 0)
	c.eq("nothing to receive", err, unix.EAGAIN)
	// The first send is on a socket without a port.
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for name, send := range netlinkWays(fd, kernel) {
		msg := []byte("by " + name)
		n, err := send(msg)
		c.eq(name+" returns", fmt.Sprint(n, err), fmt.Sprint(len(msg), nil))
		c.answered(name, fd, msg)
	}
	sa, err := unix.Getsockname(fd)
	c.eq("getsockname", err, nil)
	if nl, ok := sa.(*unix.SockaddrNetlink); !ok || nl.Pid == 0 {
		c.eq("the address", sa, "one with a port")
	}

	c.eq("to a program", unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: 1}), unix.EPERM)
	c.eq("to a group", unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}), unix.EPERM)
	c.eq("to another family", unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: "/nowhere/at/all"}), unix.EINVAL)
	c.eq("nothing", unix.Sendto(fd, nil, 0, kernel), unix.ENODATA)
	c.eq("too much", unix.Sendto(fd, make([]byte, maxNetlinkRequest+1), 0, kernel), unix.EMSGSIZE)
	c.eq("from nowhere", errOf(unix.SYS_SENDTO, uintptr(fd), 1, 10), unix.EFAULT)
	c.eq("a header from nowhere", errOf(unix.SYS_SENDMSG, uintptr(fd), 1), unix.EFAULT)
	c.eq("headers from nowhere", errOf(unix.SYS_SENDMMSG, uintptr(fd), 1, 2), unix.EFAULT)
	c.eq("pieces from nowhere", errOf(unix.SYS_WRITEV, uintptr(fd), 1, 2), unix.EFAULT)
	c.eq("too many pieces", errOf(unix.SYS_WRITEV, uintptr(fd), 1, maxPieces+1), unix.EMSGSIZE)

	c.answersCut(fd)
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	c.eq("F_DUPFD_CLOEXEC", err, nil)
	unix.Close(fd)
	c.eq("a copy", unix.Sendto(copied, []byte("copy"), 0, kernel), nil)
	c.answered("a copy", copied, []byte("copy"))
	unix.Close(copied)
	c.others()
	c.hundreds()
	return c.err()
}

// netlinkWays are the calls that send.
func netlinkWays(fd int, to unix.Sockaddr) map[string]func([]byte) (int, error) {
	return map[string]func([]byte) (int, error){
		"sendto": func(b []byte) (int, error) { return len(b), unix.Sendto(fd, b, 0, to) },
		"send":   func(b []byte) (int, error) { return len(b), unix.Send(fd, b, 0) },
		"write":  func(b []byte) (int, error) { return unix.Write(fd, b) },
		"writev": func(b []byte) (int, error) { return unix.Writev(fd, [][]byte{b[:2], b[2:]}) },
		"sendmsg": func(b []byte) (int, error) {
			return unix.SendmsgBuffers(fd, [][]byte{b[:3], b[3:]}, nil, to, 0)
		},
		"sendmmsg": func(b []byte) (int, error) {
			iov := unix.Iovec{Base: &b[0]}
			iov.SetLen(len(b))
			var m struct {
				hdr unix.Msghdr
				len uint32
				_   uint32
			}
			m.hdr.Iov = &iov
			m.hdr.SetIovlen(1)
			n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, 0, 0, 0)
			if n != 1 || errno != 0 {
				return int(n), errno
			}
			return int(m.len), nil
		},
	}
}

// answered receives an answer, which comes from the kernel's address.
func (c *checks) answered(name string, fd int, want []byte) {
	buf := make([]byte, 100)
	n, _, err := unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_TRUNC)
	c.eq(name+": a look", fmt.Sprint(n, err), fmt.Sprint(len(want), nil))
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		c.eq(name+": receiving", err, nil)
		return
	}
	c.eq(name+": the answer", string(buf[:n]), string(want))
	if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 || nl.Groups != 0 {
		c.eq(name+": the sender", fmt.Sprintf("%+v", from), "the kernel")
	}
}

// answersCut receives with too little room, and without a trap.
func (c *checks) answersCut(fd int) {
	msg := []byte("a long answer")
	c.eq("send", unix.Send(fd, msg, 0), nil)
	buf := make([]byte, 6)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	c.eq("cut", fmt.Sprint(n, err, string(buf)), fmt.Sprint(6, nil, "a long"))
	c.eq("send", unix.Send(fd, msg, 0), nil)
	name := make([]byte, 4)
	size := uint32(len(name))
	n1, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), 6, 0,
		uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&size)))
	c.eq("a short address", fmt.Sprint(n1, errno, binary.NativeEndian.Uint16(name), size),
		fmt.Sprint(6, unix.Errno(0), unix.AF_NETLINK, unix.SizeofSockaddrNetlink))
	c.eq("send", unix.Send(fd, msg, 0), nil)
	got, _, _, from, err := unix.Recvmsg(fd, make([]byte, 100), nil, 0)
	nl, ok := from.(*unix.SockaddrNetlink)
	c.eq("recvmsg", fmt.Sprint(got, err, ok && nl.Pid != 0), fmt.Sprint(len(msg), nil, true))
}

// others: the kernel makes the calls on other sockets at numbers that are trapped.
func (c *checks) others() {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.eq("socketpair", err, nil)
		return
	}
	first, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	c.eq("socket", err, nil)
	unix.Close(first)
	high := first // a number of the range, which is free again
	if err := unix.Dup3(fds[0], high, unix.O_CLOEXEC); err != nil {
		c.eq("dup3", err, nil)
		return
	}
	for name, send := range netlinkWays(high, nil) {
		if name == "sendto" {
			continue // nil is no address of a Unix socket
		}
		if _, err := send([]byte("hello")); err != nil {
			c.eq(name+" on another socket", err, nil)
		}
		buf := make([]byte, 10)
		n, err := unix.Read(fds[1], buf)
		c.eq(name+" on another socket: received", fmt.Sprint(string(buf[:max(n, 0)]), err), fmt.Sprint("hello", nil))
	}
	for _, fd := range []int{fds[0], fds[1], high} {
		unix.Close(fd)
	}
}

// hundreds opens sockets until there is no number left, and again when they are closed.
func (c *checks) hundreds() {
	for range 2 {
		var fds []int
		for len(fds) < 1000 {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
			if err != nil {
				c.eq("a socket too many", errors.Is(err, unix.EMFILE), true)
				break
			}
			fds = append(fds, fd)
		}
		c.eq("more than a hundred sockets, and fewer than there are numbers", len(fds) > 100 && len(fds) < 1000, true)
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// netlinkFlood asks for dumps without reading, and reads them then.
func netlinkFlood([]string) error {
	var c checks
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return err
	}
	c.eq("send", unix.Send(fd, []byte(dumpRequest), 0), nil)
	for range 100 {
		c.eq("send", unix.Send(fd, []byte("busy?"), 0), nil)
	}
	buf := make([]byte, 8192)
	for i := range dumpDatagrams {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil || n != dumpSize || binary.NativeEndian.Uint32(buf) != uint32(i) {
			return fmt.Errorf("datagram %d: %d bytes, %w", i, n, err)
		}
	}
	c.eq("send", unix.Send(fd, []byte("over"), 0), nil)
	c.answered("after the dump", fd, []byte("over"))
	return c.err()
}

// netlinkHold asks for a dump and never reads it.
func netlinkHold([]string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return err
	}
	if err := unix.Send(fd, []byte(dumpRequest), 0); err != nil {
		return err
	}
	for {
		if err := unix.Pause(); err != unix.EINTR {
			return err
		}
	}
}

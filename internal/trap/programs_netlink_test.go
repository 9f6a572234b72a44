package trap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
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
	c.received(fd)
	c.addresses()
	c.waits()
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

// answersCut receives with too little room.
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
}

// received receives by the calls without a sender, and by those with headers.
func (c *checks) received(fd int) {
	msg := []byte("an answer")
	send := func() { c.eq("send", unix.Send(fd, msg, 0), nil) }
	buf, rest := make([]byte, 4), make([]byte, 100)
	send()
	n, err := unix.Read(fd, rest)
	c.eq("read", fmt.Sprint(string(rest[:max(n, 0)]), err), fmt.Sprint(string(msg), nil))
	send()
	n, err = unix.Readv(fd, [][]byte{buf, rest})
	c.eq("readv", fmt.Sprint(n, string(buf)+string(rest[:len(msg)-4]), err), fmt.Sprint(len(msg), string(msg), nil))
	send()
	n, oob, flags, from, err := unix.Recvmsg(fd, rest, make([]byte, 64), 0)
	nl, ok := from.(*unix.SockaddrNetlink)
	c.eq("recvmsg", fmt.Sprint(n, oob, flags, ok && *nl == unix.SockaddrNetlink{Family: unix.AF_NETLINK}, err), fmt.Sprint(len(msg), 0, 0, true, nil))
	send()
	n, _, flags, _, err = unix.Recvmsg(fd, buf, nil, unix.MSG_TRUNC)
	c.eq("recvmsg with little room", fmt.Sprint(n, flags, string(buf), err), fmt.Sprint(len(msg), unix.MSG_TRUNC, "an a", nil))
	send()
	send()
	var h [3]struct {
		hdr unix.Msghdr
		len uint32
		_   uint32
	}
	for i := range h {
		iov := unix.Iovec{Base: &rest[10*i]}
		iov.SetLen(10)
		h[i].hdr.Iov = &iov
		h[i].hdr.SetIovlen(1)
	}
	got, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(len(h)), 0, 0, 0)
	c.eq("recvmmsg", fmt.Sprint(got, errno, h[0].len, h[1].len, string(rest[10:10+len(msg)])), fmt.Sprint(2, unix.Errno(0), len(msg), len(msg), string(msg)))
	c.eq("a header from nowhere", errOf(unix.SYS_RECVMSG, uintptr(fd), 1), unix.EFAULT)
	send()
	c.eq("to nowhere", errOf(unix.SYS_RECVFROM, uintptr(fd), 1, 10), unix.EFAULT)
	_, err = unix.Read(fd, rest)
	c.eq("it is lost", err, unix.EAGAIN)
}

// addresses: a socket has those of netlink, and options, and is one for fstat.
func (c *checks) addresses() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	c.eq("socket", err, nil)
	defer unix.Close(fd)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	name := func() unix.SockaddrNetlink {
		sa, err := unix.Getsockname(fd)
		nl, ok := sa.(*unix.SockaddrNetlink)
		if !ok {
			c.eq("getsockname", err, nil)
			return unix.SockaddrNetlink{}
		}
		return *nl
	}
	c.eq("without a port", name(), *kernel)
	c.eq("bind to a group", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}), unix.EPERM)
	c.eq("bind to another family", unix.Bind(fd, &unix.SockaddrUnix{Name: "/nowhere/at/all"}), unix.EINVAL)
	c.eq("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: 77}), nil)
	c.eq("the port", name().Pid, uint32(77))
	c.eq("another port", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: 78}), unix.EINVAL)
	c.eq("connect", unix.Connect(fd, kernel), nil)
	c.eq("connect to a program", unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: 1}), unix.EPERM)
	sa, err := unix.Getpeername(fd)
	nl, ok := sa.(*unix.SockaddrNetlink)
	c.eq("getpeername", fmt.Sprint(ok && *nl == unix.SockaddrNetlink{Family: unix.AF_NETLINK}, err), fmt.Sprint(true, nil))
	for option, want := range map[int]int{unix.SO_DOMAIN: unix.AF_NETLINK, unix.SO_PROTOCOL: unix.NETLINK_RDMA, unix.SO_TYPE: unix.SOCK_DGRAM} {
		v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		c.eq(fmt.Sprint("option ", option), fmt.Sprint(v, err), fmt.Sprint(want, nil))
	}
	c.eq("setsockopt", unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1), nil)
	v, err := unix.GetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK)
	c.eq("getsockopt", fmt.Sprint(v, err), fmt.Sprint(1, nil))
	c.eq("join a group", unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, 4), unix.EPERM)
	var st unix.Stat_t
	c.eq("fstat", unix.Fstat(fd, &st), nil)
	c.eq("the mode", st.Mode&unix.S_IFMT, uint32(unix.S_IFSOCK))
	var ifr [40]byte
	binary.NativeEndian.PutUint32(ifr[16:], 1)
	c.eq("SIOCGIFNAME", errOf(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFNAME, uintptr(unsafe.Pointer(&ifr))), unix.ENOTTY)
	c.eq("SIOCGSKNS", errOf(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGSKNS), unix.ENOTTY)
	c.eq("a directory", unix.Faccessat(fd, "x", 0, 0), unix.ENOTDIR)

	tv := unix.Timeval{Usec: 1000}
	c.eq("a timeout", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv), nil)
	_, err = unix.Read(fd, make([]byte, 10))
	c.eq("after the timeout", err, unix.EAGAIN)
}

// waits: a receive waits for the answer to what another thread sends.
func (c *checks) waits() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	c.eq("socket", err, nil)
	defer unix.Close(fd)
	got := make(chan error, 1)
	go func() {
		n, _, _, from, err := unix.Recvmsg(fd, make([]byte, 100), nil, 0)
		if _, ok := from.(*unix.SockaddrNetlink); err == nil && (!ok || n != 5) {
			err = fmt.Errorf("%d bytes from %v", n, from)
		}
		got <- err
	}()
	runtime.Gosched()
	c.eq("send", unix.Send(fd, []byte("hello"), 0), nil)
	c.eq("a receive that waits", <-got, nil)
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

package usersock

import (
	"bufio"
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open returns the socket for a program that asks for one of NETLINK_RDMA. typ is as in
// socket(2), and the descriptor is close-on-exec. The error is the kernel's errno.
func Open(typ int) (int, error) {
	return unix.Socket(unix.AF_NETLINK, typ|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
}

// Is reports whether fd is such a socket.
func Is(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_NETLINK {
		return false
	}
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.NETLINK_USERSOCK
}

// Port returns the port of a socket. A socket without one gets one, as when it sends
// (af_netlink.c: netlink_sendmsg).
func Port(fd int) (uint32, error) {
	port, err := bound(fd)
	if err != nil || port != 0 {
		return port, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	return bound(fd)
}

// bound returns the port of a socket, 0 if it has none.
func bound(fd int) (uint32, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	nl, ok := sa.(*unix.SockaddrNetlink)
	if !ok {
		return 0, unix.EAFNOSUPPORT
	}
	return nl.Pid, nil
}

// Option reports whether an option of SOL_NETLINK is set.
func Option(fd, option int) bool {
	v, err := unix.GetsockoptInt(fd, unix.SOL_NETLINK, option)
	return err == nil && v != 0
}

// PortOf returns the port of the socket with an inode, from /proc/net/netlink. It finds sockets
// of this network namespace that have a port.
func PortOf(inode uint64) (uint32, bool) {
	f, err := os.Open("/proc/thread-self/net/netlink")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	want := strconv.AppendUint(nil, inode, 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		field := bytes.Fields(lines.Bytes())
		if len(field) < 10 || !bytes.Equal(field[9], want) || string(field[1]) != protocolText {
			continue
		}
		port, err := strconv.ParseUint(string(field[2]), 10, 32)
		return uint32(port), err == nil
	}
	return 0, false
}

// protocolText is NETLINK_USERSOCK in /proc/net/netlink.
const protocolText = "2"

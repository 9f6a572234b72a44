package inflight

import (
	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// MemfdPrefix is how /proc shows the names of our memfds, those of package uverbs
// included.
const MemfdPrefix = "/memfd:gorxe"

// OnDescriptor tells calls that the kernel would carry out on the memfd, which
// is not what the program means, from those that it may. A socket for NETLINK_RDMA is
// not the kernel's to give either.
func OnDescriptor(nr int32) bool {
	switch nr {
	case unix.SYS_IOCTL, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_READ, unix.SYS_READV,
		unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FCHDIR,
		unix.SYS_GETDENTS64, filter.Getdents, unix.SYS_SOCKET,
		unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
		unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
		unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT:
		return true
	default:
		return false
	}
}

// NoNetlink is how a kernel without NETLINK_RDMA refuses a socket.
const NoNetlink = unix.EPROTONOSUPPORT

package filter

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A call is a system call that may be trapped, or refused.
type call struct {
	nr   uint32
	rule rule
}

// Calls returns the numbers of all calls that may be trapped.
func Calls() []uint32 {
	var numbers []uint32
	for _, c := range calls {
		if c.rule != contiguous {
			numbers = append(numbers, c.nr)
		}
	}
	return numbers
}

var calls = slices.Concat(oldCalls, []call{
	{unix.SYS_OPENAT, always},
	{unix.SYS_OPENAT2, always},
	{Fstatat, pathFlag3},
	{unix.SYS_STATX, pathFlag2},
	{unix.SYS_FACCESSAT, always},
	{unix.SYS_FACCESSAT2, always},
	{unix.SYS_READLINKAT, always},
	{unix.SYS_CHDIR, always},
	{unix.SYS_STATFS, always},
	{unix.SYS_GETXATTR, always},
	{unix.SYS_LGETXATTR, always},
	{unix.SYS_LISTXATTR, always},
	{unix.SYS_LLISTXATTR, always},

	{unix.SYS_IOCTL, ourAt0},
	{unix.SYS_WRITE, writeAt0},
	{unix.SYS_WRITEV, ourAt0},
	{unix.SYS_READ, ourAt0},
	{unix.SYS_READV, ourAt0},
	{unix.SYS_PREAD64, fdAt0},
	{unix.SYS_PWRITE64, fdAt0},
	{unix.SYS_FTRUNCATE, fdAt0},
	{unix.SYS_FALLOCATE, fdAt0},
	{unix.SYS_FSYNC, fdAt0},
	{unix.SYS_FDATASYNC, fdAt0},
	{unix.SYS_LSEEK, ourAt0},
	{unix.SYS_FSTAT, statAt0},
	{unix.SYS_FSTATFS, ourAt0},
	{unix.SYS_FCHDIR, ourAt0},
	{unix.SYS_GETDENTS64, ourAt0},
	{unix.SYS_FGETXATTR, ourAt0},
	{unix.SYS_FLISTXATTR, ourAt0},

	{unix.SYS_MMAP, contiguous},

	{unix.SYS_CLOSE, fdAt0},
	{unix.SYS_CLOSE_RANGE, fdSpan},
	{unix.SYS_DUP, ourAt0},
	{unix.SYS_DUP3, fdAt0or1},
	{unix.SYS_FCNTL, dupFcntl},

	{unix.SYS_EXECVE, always},
	{unix.SYS_EXECVEAT, always},

	{unix.SYS_SOCKET, netlink},
	{unix.SYS_SENDTO, fdAt0},
	{unix.SYS_SENDMSG, fdAt0},
	{unix.SYS_SENDMMSG, fdAt0},
	{unix.SYS_RECVFROM, fdAt0},
	{unix.SYS_RECVMSG, fdAt0},
	{unix.SYS_RECVMMSG, fdAt0},
	{unix.SYS_BIND, fdAt0},
	{unix.SYS_CONNECT, fdAt0},
	{unix.SYS_GETSOCKNAME, fdAt0},
	{unix.SYS_GETPEERNAME, fdAt0},
	{unix.SYS_SETSOCKOPT, fdAt0},
	{unix.SYS_GETSOCKOPT, fdAt0},
})

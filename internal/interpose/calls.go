package interpose

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A call is one system call of the filter's table.
type call struct {
	nr     uint32
	rule   rule
	answer handler
}

// A handler answers the call that a receiver has in hand.
type handler func(r *receiver) verdict

// maxNr bounds the numbers of trapped calls.
const maxNr = 512

// handlers are the handlers by number. Built once, read-only afterwards.
var handlers = func() (table [maxNr]handler) {
	for _, c := range trapped {
		table[c.nr] = c.answer
	}
	return table
}()

// trapped are the calls that the filter knows.
var trapped = slices.Concat(oldForms, []call{
	{unix.SYS_OPENAT, always, func(r *receiver) verdict { return r.open(r.fd(0), 1, r.arg(2)) }},
	{unix.SYS_OPENAT2, always, (*receiver).openat2},
	{sysFstatat, pathFlag3, func(r *receiver) verdict {
		return r.stat(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_STATX, pathFlag2, (*receiver).statx},
	{unix.SYS_FACCESSAT, always, func(r *receiver) verdict { return r.access(r.fd(0), 1, r.arg(2), 0) }},
	{unix.SYS_FACCESSAT2, always, func(r *receiver) verdict {
		return r.access(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_READLINKAT, always, func(r *receiver) verdict {
		return r.readlink(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_CHDIR, always, (*receiver).chdir},
	{unix.SYS_STATFS, always, (*receiver).statfs},
	{unix.SYS_GETXATTR, always, (*receiver).xattr},
	{unix.SYS_LGETXATTR, always, (*receiver).xattr},
	{unix.SYS_LISTXATTR, always, (*receiver).xattr},
	{unix.SYS_LLISTXATTR, always, (*receiver).xattr},

	{unix.SYS_IOCTL, fdAt0, (*receiver).ioctl},
	{unix.SYS_WRITE, bell, (*receiver).write},
	{unix.SYS_WRITEV, fdAt0, (*receiver).writev},
	{unix.SYS_READ, fdAt0, (*receiver).read},
	{unix.SYS_READV, fdAt0, (*receiver).readv},
	{unix.SYS_PREAD64, fdAt0, (*receiver).pread},
	{unix.SYS_PWRITE64, fdAt0, func(r *receiver) verdict { return r.noDevice(unix.ESPIPE) }},
	{unix.SYS_FTRUNCATE, fdAt0, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_FALLOCATE, fdAt0, func(r *receiver) verdict { return r.noDevice(unix.ENODEV) }},
	{unix.SYS_FSYNC, fdAt0, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_FDATASYNC, fdAt0, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_LSEEK, fdAt0, (*receiver).lseek},
	{unix.SYS_FSTAT, statAt0, (*receiver).fstat},
	{unix.SYS_FSTATFS, fdAt0, (*receiver).fstatfs},
	{unix.SYS_FCHDIR, fdAt0, (*receiver).fchdir},
	{unix.SYS_GETDENTS64, fdAt0, func(r *receiver) verdict { return r.getdents(dirent64) }},
	{unix.SYS_FGETXATTR, fdAt0, (*receiver).fxattr},
	{unix.SYS_FLISTXATTR, fdAt0, (*receiver).fxattr},

	{unix.SYS_CLOSE, fdAt0, (*receiver).forget},
	{unix.SYS_CLOSE_RANGE, fdSpan, (*receiver).forget},
	{unix.SYS_DUP, fdAt0, func(r *receiver) verdict { return r.dup(0) }},
	{unix.SYS_DUP3, fdAt0or1, (*receiver).forget},
	{unix.SYS_FCNTL, dupFcntl, (*receiver).fcntl},

	{unix.SYS_EXECVE, always, (*receiver).exec},
	{unix.SYS_EXECVEAT, always, (*receiver).exec},

	{unix.SYS_SOCKET, netlink, (*receiver).netlink},
})

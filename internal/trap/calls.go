package trap

import (
	"slices"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/vfs"
	"golang.org/x/sys/unix"
)

// An answer is how one of the filter's calls is answered.
type answer struct {
	nr     uint32
	handle handler
}

// A handler answers a call that a receiver has received and not answered.
type handler func(r *receiver) verdict

// handlers are the handlers by number. The table is read-only.
var handlers = func() (table [filter.MaxNR]handler) {
	for _, a := range answers {
		table[a.nr] = a.handle
	}
	return table
}()

// answers has an entry for each of filter.Calls.
var answers = slices.Concat(oldAnswers, []answer{
	{unix.SYS_OPENAT, func(r *receiver) verdict { return r.open(r.fd(0), 1, r.arg(2)) }},
	{unix.SYS_OPENAT2, (*receiver).openat2},
	{filter.Fstatat, func(r *receiver) verdict {
		return r.stat(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_STATX, (*receiver).statx},
	{unix.SYS_FACCESSAT, func(r *receiver) verdict { return r.access(r.fd(0), 1, r.arg(2), 0) }},
	{unix.SYS_FACCESSAT2, func(r *receiver) verdict {
		return r.access(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_READLINKAT, func(r *receiver) verdict {
		return r.readlink(r.fd(0), 1, r.arg(2), r.arg(3))
	}},
	{unix.SYS_CHDIR, (*receiver).chdir},
	{unix.SYS_STATFS, (*receiver).statfs},
	{unix.SYS_GETXATTR, (*receiver).xattr},
	{unix.SYS_LGETXATTR, (*receiver).xattr},
	{unix.SYS_LISTXATTR, (*receiver).xattr},
	{unix.SYS_LLISTXATTR, (*receiver).xattr},

	{unix.SYS_IOCTL, (*receiver).ioctl},
	{unix.SYS_WRITE, (*receiver).write},
	{unix.SYS_WRITEV, (*receiver).write},
	{unix.SYS_READ, (*receiver).read},
	{unix.SYS_READV, (*receiver).readv},
	{unix.SYS_PREAD64, (*receiver).pread},
	{unix.SYS_PWRITE64, func(r *receiver) verdict { return r.noDevice(unix.ESPIPE) }},
	{unix.SYS_FTRUNCATE, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_FALLOCATE, func(r *receiver) verdict { return r.noDevice(unix.ENODEV) }},
	{unix.SYS_FSYNC, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_FDATASYNC, func(r *receiver) verdict { return r.noDevice(unix.EINVAL) }},
	{unix.SYS_LSEEK, (*receiver).lseek},
	{unix.SYS_FSTAT, (*receiver).fstat},
	{unix.SYS_FSTATFS, (*receiver).fstatfs},
	{unix.SYS_FCHDIR, (*receiver).fchdir},
	{unix.SYS_GETDENTS64, func(r *receiver) verdict { return r.getdents(vfs.Dirent64) }},
	{unix.SYS_FGETXATTR, (*receiver).fxattr},
	{unix.SYS_FLISTXATTR, (*receiver).fxattr},

	{unix.SYS_CLOSE, (*receiver).forget},
	{unix.SYS_CLOSE_RANGE, (*receiver).forget},
	{unix.SYS_DUP, func(r *receiver) verdict { return r.dup(0) }},
	{unix.SYS_DUP3, (*receiver).forget},
	{unix.SYS_FCNTL, (*receiver).fcntl},

	{unix.SYS_EXECVE, (*receiver).exec},
	{unix.SYS_EXECVEAT, (*receiver).exec},

	{unix.SYS_SOCKET, (*receiver).socket},
	{unix.SYS_SENDTO, (*receiver).socketCall},
	{unix.SYS_SENDMSG, (*receiver).socketCall},
	{unix.SYS_SENDMMSG, (*receiver).socketCall},
	{unix.SYS_RECVFROM, (*receiver).socketCall},
	{unix.SYS_RECVMSG, (*receiver).socketCall},
	{unix.SYS_RECVMMSG, (*receiver).socketCall},
	{unix.SYS_BIND, (*receiver).socketCall},
	{unix.SYS_CONNECT, (*receiver).socketCall},
	{unix.SYS_GETSOCKNAME, (*receiver).socketCall},
	{unix.SYS_GETPEERNAME, (*receiver).socketCall},
	{unix.SYS_SETSOCKOPT, (*receiver).socketCall},
	{unix.SYS_GETSOCKOPT, (*receiver).socketCall},
})

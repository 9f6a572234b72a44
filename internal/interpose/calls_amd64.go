package interpose

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // __X32_SYSCALL_BIT

	sysGetdents = unix.SYS_GETDENTS
	sysFstatat  = unix.SYS_NEWFSTATAT
)

// oldForms are calls without a directory descriptor, and others that newer ones have
// taken the place of: musl, and static programs, use them.
var oldForms = []call{
	{unix.SYS_OPEN, always, func(r *receiver) verdict { return r.open(cwd, 0, r.arg(1)) }},
	{unix.SYS_CREAT, always, func(r *receiver) verdict {
		return r.open(cwd, 0, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC)
	}},
	{unix.SYS_STAT, always, func(r *receiver) verdict { return r.stat(cwd, 0, r.arg(1), 0) }},
	{unix.SYS_LSTAT, always, func(r *receiver) verdict {
		return r.stat(cwd, 0, r.arg(1), unix.AT_SYMLINK_NOFOLLOW)
	}},
	{unix.SYS_ACCESS, always, func(r *receiver) verdict { return r.access(cwd, 0, r.arg(1), 0) }},
	{unix.SYS_READLINK, always, func(r *receiver) verdict { return r.readlink(cwd, 0, r.arg(1), r.arg(2)) }},
	{unix.SYS_GETDENTS, fdAt0, func(r *receiver) verdict { return r.getdents(oldDirent) }},
	{unix.SYS_DUP2, fdAt0or1, (*receiver).forget},
}

package trap

import (
	"github.com/gorxe/gorxe/internal/trap/vfs"
	"golang.org/x/sys/unix"
)

// oldAnswers are calls without a directory descriptor, and others that newer ones have
// taken the place of: musl, and static programs, use them.
var oldAnswers = []answer{
	{unix.SYS_OPEN, func(r *receiver) verdict { return r.open(vfs.CWD, 0, r.arg(1)) }},
	{unix.SYS_CREAT, func(r *receiver) verdict {
		return r.open(vfs.CWD, 0, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC)
	}},
	{unix.SYS_STAT, func(r *receiver) verdict { return r.stat(vfs.CWD, 0, r.arg(1), 0) }},
	{unix.SYS_LSTAT, func(r *receiver) verdict {
		return r.stat(vfs.CWD, 0, r.arg(1), unix.AT_SYMLINK_NOFOLLOW)
	}},
	{unix.SYS_ACCESS, func(r *receiver) verdict { return r.access(vfs.CWD, 0, r.arg(1), 0) }},
	{unix.SYS_READLINK, func(r *receiver) verdict { return r.readlink(vfs.CWD, 0, r.arg(1), r.arg(2)) }},
	{unix.SYS_GETDENTS, func(r *receiver) verdict { return r.getdents(vfs.OldDirent) }},
	{unix.SYS_DUP2, (*receiver).forget},
}

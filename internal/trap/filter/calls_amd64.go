package filter

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // asm/unistd.h: __X32_SYSCALL_BIT

	// Getdents is getdents(2), which not every architecture has.
	Getdents = unix.SYS_GETDENTS
	// Fstatat is newfstatat(2), whose name depends on the architecture.
	Fstatat = unix.SYS_NEWFSTATAT
)

// oldCalls are calls without a directory descriptor, and others that newer calls
// have replaced. musl and static programs use them.
var oldCalls = []call{
	{unix.SYS_OPEN, always},
	{unix.SYS_CREAT, always},
	{unix.SYS_STAT, always},
	{unix.SYS_LSTAT, always},
	{unix.SYS_ACCESS, always},
	{unix.SYS_READLINK, always},
	{unix.SYS_GETDENTS, ourAt0},
	{unix.SYS_DUP2, fdAt0or1},
}

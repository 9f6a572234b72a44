package interpose

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0 // no second set of numbers

	sysGetdents = -1 // only getdents64
	sysFstatat  = unix.SYS_FSTATAT
)

// oldForms are none: there are only the newer calls.
var oldForms []call

package filter

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0 // no second set of numbers

	// Getdents is getdents(2), which this architecture lacks.
	Getdents = -1
	// Fstatat is newfstatat(2), whose name depends on the architecture.
	Fstatat = unix.SYS_FSTATAT
)

// oldCalls is empty: this architecture has only the newer calls.
var oldCalls []call

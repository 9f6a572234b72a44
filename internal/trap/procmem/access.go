package procmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"golang.org/x/sys/unix"
)

// Open opens the memory of the process that pid, a process or thread, belongs to.
// Forbidden tells a refusal, whose cause NoAccess explains.
func Open(pid int) (fd int, err error) {
	return unix.Open(procfs.Path(pid, "mem"), unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// Forbidden reports whether an error is one of permission.
func Forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// NoAccess explains a refusal to open a program's memory.
func NoAccess(err error) error {
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // not there without Yama
	return fmt.Errorf("the program's memory is out of reach (%w): %s", err, reason(string(bytes.TrimSpace(scope))))
}

// reason returns the cause of a refusal under a ptrace_scope, which is empty without
// Yama (Documentation/admin-guide/LSM/Yama.rst).
func reason(scope string) string {
	switch scope {
	case "1":
		return "kernel.yama.ptrace_scope is 1, and gorxe is not the program's ancestor: " +
			"start the program with gorxe run, give gorxe CAP_SYS_PTRACE, or set the value to 0"
	case "2":
		return "kernel.yama.ptrace_scope is 2: set it to 0 or 1, or give gorxe CAP_SYS_PTRACE"
	case "3":
		return "kernel.yama.ptrace_scope is 3, which forbids it to every process and cannot be changed back: " +
			"boot with 0 or 1 (look in /etc/sysctl.d)"
	}
	return "it belongs to another user, or has made itself undumpable (prctl PR_SET_DUMPABLE): " +
		"run gorxe as the same user, or with CAP_SYS_PTRACE"
}

// CheckAccess reports whether this process may reach the memory of process pid. Its
// error names the setting that forbids it. A child that is about to become the
// program is a good subject.
func CheckAccess(pid int) error {
	fd, err := Open(pid)
	if err != nil {
		if Forbidden(err) {
			return NoAccess(err)
		}
		return fmt.Errorf("opening /proc/%d/mem: %w", pid, err)
	}
	unix.Close(fd)
	return nil
}

// ByNumber reports whether a program of user uid may be accessed by process number. permitted are
// its capabilities. The kernel reuses numbers, and a program could arrange for its own number to
// become another process's. That must not be a process that only this one has rights over: root of
// a container lacks CAP_SYS_PTRACE, which a daemon outside of it may have.
func ByNumber(uid uint32, permitted uint64) bool {
	return byNumber(uid == uint32(os.Geteuid()), mayTrace(), permitted)
}

func byNumber(sameUser, mayTrace bool, permitted uint64) bool {
	return sameUser && (!mayTrace || permitted&(1<<unix.CAP_SYS_PTRACE) != 0)
}

// mayTrace reports whether this process has CAP_SYS_PTRACE.
var mayTrace = sync.OnceValue(func() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err != nil || data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
})

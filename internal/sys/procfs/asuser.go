package procfs

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// AsUserOf calls f in a thread that has, for files, the user and group of a process. Root without
// CAP_SYS_PTRACE, as in a container, may look at a process of another user only so
// (kernel/ptrace.c: ptrace_may_access with PTRACE_MODE_FSCREDS). It needs CAP_SETUID and
// CAP_SETGID, as does a program that becomes another user's; otherwise EPERM. The process must
// descend from this one, because f does what its user may do.
func AsUserOf(pid int, f func() error) error {
	st, err := ReadStatus(pid)
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := becomeForFiles(st.UID, st.GID); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// becomeForFiles changes the calling thread alone.
func becomeForFiles(uid, gid uint32) error {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return err
	}
	if setFS(unix.SYS_SETFSGID, gid) != gid || setFS(unix.SYS_SETFSUID, uid) != uid {
		return fmt.Errorf("setfsuid(%d): %w", uid, unix.EPERM)
	}
	// The change took the capabilities on files, and a process may have one of those.
	if err := unix.Capset(&hdr, &caps[0]); err != nil {
		return err
	}
	// It also made this process undumpable, as if it had secrets of that user.
	if dumpable == 1 {
		return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	return nil
}

// setFS makes a call of the setfsuid family, and returns what is in force then.
func setFS(call uintptr, id uint32) uint32 {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0) // it returns what was in force before
	now, _, _ := unix.RawSyscall(call, uintptr(^uint32(0)), 0, 0)
	return uint32(now)
}

package procfs

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// exitCodeField is field 52 of /proc/PID/stat (proc(5)).
const exitCodeField = 52 - thirdField

// EndOf returns the wait status of a process that has ended and that this process need not be the
// parent of. pidfd stands for it. ok is false if the kernel does not say: before Linux 6.15 it
// forgets the status when the parent has asked for it.
func EndOf(pid, pidfd int) (ws unix.WaitStatus, ok bool) {
	// As long as nobody has waited for a zombie, the number is its own. The kernel shows 0 to those
	// that may not trace the process (fs/proc/array.c: do_task_stat).
	f := statFields(pid)
	unreaped := unix.PidfdSendSignal(pidfd, 0, nil, 0) != unix.ESRCH
	if unreaped && len(f) > exitCodeField && string(f[stateField]) == "Z" {
		if n, err := strconv.Atoi(string(f[exitCodeField])); err == nil && n != 0 {
			return unix.WaitStatus(n), true
		}
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if unix.IoctlPidfdInfo(pidfd, &info) != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return 0, false
	}
	return unix.WaitStatus(info.Exit_code), true
}

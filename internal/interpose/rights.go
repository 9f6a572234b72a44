package interpose

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/gorxe/gorxe/internal/uverbs"
	"golang.org/x/sys/unix"
)

// openMem opens the memory of the process behind pidfd, which the caller of the
// call in hand belongs to; through the keeper if it must.
func (r *receiver) openMem(pidfd int) (int, error) {
	fd, err := unix.Open(procPath(r.thread(), "mem"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil || !forbidden(err) {
		return fd, err
	}
	if k := r.s.cfg.Keeper; k != nil {
		kept, kerr := k.OpenMem(pidfd)
		if kerr == nil {
			return kept, nil
		}
		return -1, fmt.Errorf("%w; its keeper could not open it either: %w", noAccess(err), kerr)
	}
	return -1, noAccess(err)
}

// noAccess says what a refusal to open a program's memory comes from.
func noAccess(err error) error {
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // not there without Yama
	return fmt.Errorf("the program's memory is out of reach (%w): %s", err, whyNoAccess(string(bytes.TrimSpace(scope))))
}

// whyNoAccess is the cause under a ptrace_scope, which is empty without Yama
// (Documentation/admin-guide/LSM/Yama.rst).
func whyNoAccess(scope string) string {
	switch scope {
	case "1":
		return "kernel.yama.ptrace_scope is 1, and gorxe is not the program's ancestor: " +
			"start the program with gorxe run, give gorxe CAP_SYS_PTRACE, or set the value to 0"
	case "2":
		return "kernel.yama.ptrace_scope is 2: set it to 0 or 1, or give gorxe CAP_SYS_PTRACE"
	case "3":
		return "kernel.yama.ptrace_scope is 3, which forbids it to everybody and cannot be taken back: " +
			"boot with 0 or 1 (look in /etc/sysctl.d)"
	}
	return "it belongs to another user, or has dropped the right to be looked at (prctl PR_SET_DUMPABLE): " +
		"run gorxe as the same user, or with CAP_SYS_PTRACE"
}

// Sandboxed says what to do about a system call that is forbidden and that the
// kernel forbids nobody.
func Sandboxed(call string) string {
	return "a sandbox forbids it: allow " + call + " in the container's seccomp profile, or in the service's SystemCallFilter="
}

// byNumber tells whether programs of user uid may be accessed by process number.
// Numbers are given anew, and a program that is clever about it could make its own
// one a stranger's: that must not be one that only this process has rights over.
func byNumber(uid uint32) bool {
	own := uint32(os.Geteuid())
	return uid == own && (own == 0 || !mayTrace())
}

// mayTrace tells whether this process has CAP_SYS_PTRACE.
var mayTrace = sync.OnceValue(func() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err != nil || data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
})

// complain logs an error that makes devices useless for a program, once.
func (s *Session) complain(err error) {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrNotExist) {
		return // it has just ended
	}
	if s.complained.CompareAndSwap(false, true) {
		s.log.Error("devices do not work for this program", "error", err)
	}
}

// CheckAccess tells whether this process may reach the memory of process pid, as
// answering its calls takes; the error names the setting that forbids it. It is
// meant for a child that is about to become the program.
func CheckAccess(pid int) error {
	fd, err := unix.Open(procPath(pid, "mem"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		if forbidden(err) {
			return noAccess(err)
		}
		return fmt.Errorf("opening /proc/%d/mem: %w", pid, err)
	}
	unix.Close(fd)
	return nil
}

// KeepMem is the keeper's side of Keeper.OpenMem: it opens the memory of the
// process behind pidfd, which must be a descendant of the calling process.
func KeepMem(pidfd int) (*os.File, error) {
	pid, err := descendant(pidfd)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(procPath(pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		if forbidden(err) {
			err = noAccess(err)
		}
		return nil, err
	}
	// The number was the process's all the time if it still is there.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	return f, nil
}

// KeepStat is the keeper's side of StatKeeper.
func KeepStat(pidfd int, fd int32) (uverbs.FileID, error) {
	pid, err := descendant(pidfd)
	if err != nil {
		return uverbs.FileID{}, err
	}
	return statID(procPath(pid, "fd/"+strconv.Itoa(int(fd))))
}

// descendant returns the number of the process behind pidfd if it descends from
// this one. A subreaper's descendants always do.
func descendant(pidfd int) (int, error) {
	pid, err := pidOf(pidfd)
	if err != nil {
		return 0, err
	}
	for at := pid; at != os.Getpid(); {
		st, err := readStatus(at)
		if err != nil || st.ppid == 0 {
			return 0, fmt.Errorf("process %d is not of this program: %w", pid, unix.EPERM)
		}
		at = st.ppid
	}
	return pid, nil
}

// pidOf reads the number from fdinfo (fs/pidfs.c: pidfd_show_fdinfo).
func pidOf(pidfd int) (int, error) {
	f, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte("Pid:\t")); ok {
			if pid, err := strconv.Atoi(string(rest)); err == nil && pid > 0 {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("the process has ended: %w", unix.ESRCH)
}

// StatKeeper is a Keeper that can also look at descriptors. It is needed where
// this process may not: for another user's programs without CAP_SYS_PTRACE. What
// it does not help with there: relative paths, which are left to the kernel, and
// dup of a device, which is EMFILE.
type StatKeeper interface {
	Keeper
	// Stat is fstat of descriptor fd of the process that pidfd stands for; ENOENT
	// if there is none.
	Stat(pidfd int, fd int32) (uverbs.FileID, error)
}

// keptID asks the keeper what a descriptor is, when looking failed with err.
func (r *receiver) keptID(fd int32, err error) (uverbs.FileID, error) {
	k, ok := r.s.cfg.Keeper.(StatKeeper)
	if !ok || !forbidden(err) {
		return uverbs.FileID{}, err
	}
	p, err := r.caller.owner()
	if err != nil {
		return uverbs.FileID{}, err
	}
	id, err := k.Stat(p.pidfd, fd)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EBADF
	}
	return id, err
}

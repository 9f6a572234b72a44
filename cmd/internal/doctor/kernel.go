package doctor

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// release reads the first two numbers of a kernel's release: 6 and 1 of "6.1.0-13-amd64".
func release(text string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// kernel looks at the versions that internal/trap depends on.
func (h *Host) kernel() []Finding {
	f := Finding{Subject: "kernel", Text: "Linux " + h.Release}
	major, minor, ok := release(h.Release)
	before := func(a, b int) bool { return major < a || major == a && minor < b }
	switch {
	case !ok:
		f.Level, f.Remedy = Warning, "gorxe cannot read this version; it needs Linux 5.14 or newer"
	case before(5, 14):
		f.Level, f.Remedy = Failure, "gorxe needs Linux 5.14 or newer: install a newer kernel"
	case before(5, 19):
		f.Level = Warning
		f.Text += ": a signal can interrupt a call on a device after it took effect"
		f.Remedy = "programs that get many signals need Linux 5.19 or newer"
	case before(6, 6) && h.CPUs > 1:
		f.Level = Note
		f.Text += ": a trapped call is slow, so post_send is not trapped by default"
		f.Remedy = "Linux 6.6 or newer returns errors from post_send at full speed; see gorxe help doorbells"
	}
	return []Finding{f}
}

// seccomp reports whether a filter may notify a listener, and what filters are in force.
func (h *Host) seccomp() []Finding {
	const subject = "seccomp"
	err := h.SeccompAction()
	switch {
	case err == nil:
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return []Finding{{subject, Failure, "seccomp(2) is forbidden: " + err.Error(),
			"allow seccomp in the container's profile (the default profiles of Docker and Podman do), or run with --security-opt seccomp=unconfined"}}
	default:
		return []Finding{{subject, Failure, "a filter cannot notify a listener: " + err.Error(),
			"a kernel with CONFIG_SECCOMP_FILTER is needed; sandboxes such as gVisor have none"}}
	}
	if mode := h.status("Seccomp"); mode == "2" {
		return []Finding{{subject, Note, "available; this process is under a seccomp filter already, of a container or of an outer gorxe run",
			"if gorxe run says that another listener answers, start the container with a profile without notifications"}}
	}
	return []Finding{{Subject: subject, Text: "a filter can notify gorxe of a program's calls"}}
}

// memory reports whether gorxe can reach the memory of programs.
// Documentation/admin-guide/LSM/Yama.rst has the scopes.
func (h *Host) memory() []Finding {
	const subject, sysctl = "programs' memory", "kernel.yama.ptrace_scope"
	switch scope := h.read("proc/sys/kernel/yama/ptrace_scope"); {
	case scope == "3":
		return []Finding{{subject, Failure, sysctl + " is 3, which forbids access to everybody",
			"boot with 0 or 1 (look in /etc/sysctl.d): the value cannot be changed back"}}
	case scope == "2" && !h.TracesAll:
		return []Finding{{subject, Failure, sysctl + " is 2, and this user has no CAP_SYS_PTRACE",
			"sysctl " + sysctl + "=1, or give gorxe CAP_SYS_PTRACE"}}
	case scope == "1" && !h.TracesAll:
		if err := h.ReadMemory(); err != nil {
			break
		}
		return []Finding{{subject, Note, "within reach of gorxe run; " + sysctl + " is 1, so a daemon does not reach programs that it is not an ancestor of",
			"to share a daemon between sessions, give it CAP_SYS_PTRACE or set " + sysctl + "=0"}}
	}
	if err := h.ReadMemory(); err != nil {
		return []Finding{{subject, Warning, "process_vm_readv is refused (" + err.Error() + "), so gorxe copies more slowly through /proc/PID/mem",
			"allow process_vm_readv and process_vm_writev in the container's seccomp profile, or in SystemCallFilter="}}
	}
	return []Finding{{Subject: subject, Text: "within reach"}}
}

// doorbells says how those of programs reach the daemon, in the words of gorxe status.
func (h *Host) doorbells() []Finding {
	const subject, adapter = "doorbells", "an adapter's doorbells"
	own := Finding{Subject: subject, Text: "direct, unless --doorbells says otherwise"}
	if h.CPUs == 1 {
		own.Text = "trapped, unless --doorbells says otherwise: there is one processor"
	}
	if err := h.Faults(); err != nil {
		return []Finding{own, {adapter, Note, "polled (" + err.Error() + "): they do not wake gorxe, so with --like it looks for them, every 10 ms if a program is idle",
			"Linux 5.19 or newer, and a seccomp profile that allows userfaultfd and ptrace"}}
	}
	return []Finding{own, {Subject: adapter, Text: "woken: they wake gorxe, but not under a debugger"}}
}

// canNotify asks the kernel for SECCOMP_RET_USER_NOTIF. It installs nothing.
func canNotify() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errno
	}
	return nil
}

// canReadMemory reads a byte of this process's own memory, as gorxe reads a program's.
func canReadMemory() error {
	from, to := []byte{1}, []byte{0}
	local := []unix.Iovec{{Base: &to[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}
	_, err := unix.ProcessVMReadv(unix.Getpid(), local, remote, 0)
	return err
}

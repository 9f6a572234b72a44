// Package hosts makes the hosts of a lab: network namespaces with links between them, without root.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// failed is the exit code of gorxe run if it did not start a program.
const failed = 125

// Enter runs this program again in namespaces of its own, where it may make hosts. A user namespace
// gives an ordinary user the right to do so. It returns the exit code when the program inside has
// ended, which gets a SIGTERM at the end of ctx. What names the wish of the user, for errors. The
// program has the files from descriptor 3 on.
func Enter(ctx context.Context, what string, args []string, files ...*os.File) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return failed, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, files
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Geteuid(); uid != 0 {
		gid := os.Getegid()
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	}
	cmd.SysProcAttr = attr
	// The kernel sends the death signal when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = cmd.Start(); err == nil {
		stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) }) //nolint:errcheck // it may have ended
		err = cmd.Wait()
		stop()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it, nothing is known
	return failed, fmt.Errorf("%s needs network namespaces: %w: %s", what, err, allow(string(mounts)))
}

// allow says what lets a user make a user namespace. The kernel refuses that in a chroot
// (unshare(2)), whose root is no mount point unless someone has mounted it.
func allow(mountinfo string) string {
	root := mountinfo == ""
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		root = root || len(f) > 4 && f[4] == "/"
	}
	if !root {
		return "this is a chroot, where only root may: run as root"
	}
	return "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
}

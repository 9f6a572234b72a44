package pod

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// Stage is the first argument of a daemon that startIn starts. No command begins with an
// underscore.
const Stage = "_pod"

// Descriptors of a daemon that startIn starts, in the order of startIn's files.
const (
	controlFD = 3 + iota
	lockFD
	listenerFD
	pidfdFD
)

// startIn starts a daemon in a network namespace:
//
//	self _pod SOCKET NAMESPACE POD CONTAINER DEVICE…
//
// It belongs to no terminal, and has no other descriptor of this process than files.
func startIn(network *os.File, self, socket string, place proto.Place, devices []string, files ...*os.File) error {
	cmd := exec.Command(self, append([]string{Stage, socket, place.Namespace, place.Pod, place.Container}, devices...)...)
	cmd.Args[0] = "gorxe"
	cmd.ExtraFiles = files
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// fork(2) gives the child the network namespace of the calling thread. Go ends this thread with
	// the goroutine, because that leaves it locked.
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := enter(network); err != nil {
			started <- err
			return
		}
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("starting a daemon: %w", err)
			return
		}
		go cmd.Wait() //nolint:errcheck // a runtime ends before the daemon
		started <- nil
	}()
	return <-started
}

// enter moves the calling thread into a network namespace, unless it is there.
func enter(network *os.File) error {
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer here.Close()
	own, err := networkOf(here)
	if err != nil {
		return err
	}
	if want, err := networkOf(network); err != nil || want == own {
		return err
	}
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return noRights(fmt.Errorf("%s: %w", network.Name(), os.NewSyscallError("setns", err)))
	}
	return nil
}

// asOwner calls f in a thread that makes files as the owner of a directory does.
func asOwner(dir unix.Stat_t, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()                              // as in startIn
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // the umask of this thread alone
			done <- os.NewSyscallError("unshare", err)
			return
		}
		unix.Umask(0)
		// These two report no error. f fails if they changed nothing.
		_ = unix.Setfsgid(int(dir.Gid))
		_ = unix.Setfsuid(int(dir.Uid))
		done <- f()
	}()
	return <-done
}
